"""Environments that a change of the tree affects."""

from __future__ import annotations

from django.db.models import Sum
from django.urls import reverse

from webapp.environments.totals import HUNG
from webapp.taxonomy.changes.affected import NAMED, AffectedPart, Named, Scope


def find_affected_environments(scope: Scope) -> AffectedPart | None:
    rows = scope.rows(HUNG.name)
    number = rows.count()
    if not number:
        return None
    named = rows.values_list("pk", "name")[:NAMED]
    lines = tuple(Named(name, reverse("environments:detail", args=[pk])) for pk, name in named)
    attempts = rows.order_by().aggregate(n=Sum("trajectory_count"))["n"] or 0
    return AffectedPart("Environments", number, lines, f"{attempts:,} trajectories of them are counted elsewhere then.")
