"""Tasks as EnvScaler scenarios, streamed: the same form that an import reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from synthesis.formats.envscaler_export import scenario_to_envscaler
from synthesis.runtime.encoding import decode_state
from webapp.scenarios.models import Task
from webapp.scenarios.states import unpack

FIELDS = ("current__record", "current__scenario__initial_id", "current__scenario__initial__body")


def export_records(tasks: QuerySet[Task]) -> Iterator[dict[str, Any]]:
    """The records of the current revisions of these tasks, in the order they came in."""
    plain = Task.objects.filter(pk__in=tasks.order_by().values("pk"), current__isnull=False).order_by("id")
    for raw, digest, body in plain.values_list(*FIELDS).iterator(chunk_size=100):
        yield scenario_to_envscaler(raw, decode_state(unpack(body, digest)))
