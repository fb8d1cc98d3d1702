"""Filters of tasks by what makes them difficult and by Pass@10 of a policy, as statistics link to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from webapp.scenarios.models import PolicyPass, Task, TaskDifficulty


def filter_measures(rows: QuerySet[Task], wanted: Mapping[str, Any]) -> QuerySet[Task]:
    """Return the tasks whose current revision has a `knob` of at least `knob_from` and below `knob_to`, and of whose
    first ten attempts the policy `ten_by` solved `ten`."""
    if "knob" in wanted:
        measured = TaskDifficulty.objects.filter(**{f"{wanted['knob']}__isnull": False})
        for name, lookup in {"knob_from": "gte", "knob_to": "lt"}.items():
            if name in wanted:
                measured = measured.filter(**{f"{wanted['knob']}__{lookup}": wanted[name]})
        rows = rows.filter(current__in=measured.values("revision"))
    if "ten" in wanted:
        passes = PolicyPass.objects.filter(revision=OuterRef("current"), ten=wanted["ten"])
        passes = passes.filter(policy=wanted["ten_by"]) if "ten_by" in wanted else passes
        rows = rows.filter(Exists(passes))
    return rows
