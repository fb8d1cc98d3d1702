"""Tasks as a file in EnvScaler's form, with the environments that they rest on: what an import reads, without help.

Streamed in batches; never all of them in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from synthesis.formats.envscaler_export import scenarios_to_envscaler
from webapp.environments.exporter import spell_versions
from webapp.scenarios.models import Task
from webapp.scenarios.task_records import spell_revisions

BATCH = 20
OPEN, CLOSE = "[", "\n]\n"


class RecordBatches:
    """Records of tasks, each version of an environment before the first task that rests on it."""

    def __init__(self) -> None:
        self.versions: set[int] = set()

    def spell(self, revisions: list[int]) -> Iterator[dict[str, Any]]:
        spelled = list(spell_revisions(revisions))
        wanted = dict.fromkeys(
            pk for row, _ in spelled for pk in (row.scenario.version_id, row.task.environment.current_id) if pk
        )
        missing = [pk for pk in wanted if pk not in self.versions]
        self.versions.update(missing)
        yield from (record for _, record in spell_versions(missing))
        yield from (record for _, record in spelled)


def batch(tasks: QuerySet[Task], after: int, batches: RecordBatches) -> tuple[int, list[dict[str, Any]]]:
    """The records of the next current revisions, and the task that the batch ends with (0 at the end)."""
    rows = tasks.select_related(None).filter(pk__gt=after, current__isnull=False).order_by("pk")
    chunk = list(rows.values_list("pk", "current_id")[:BATCH])
    return (chunk[-1][0] if chunk else 0), list(batches.spell([current for _, current in chunk if current]))


async def stream(tasks: QuerySet[Task]) -> AsyncIterator[str]:
    """A JSON list of these tasks in the order they came in."""
    yield OPEN
    last, comma, batches = 0, "", RecordBatches()
    while True:
        last, records = await sync_to_async(batch)(tasks, last, batches)
        if not last:
            break
        yield comma + "".join(scenarios_to_envscaler(records)).removeprefix(OPEN).removesuffix(CLOSE)
        comma = ","
    yield CLOSE


def attachment(tasks: QuerySet[Task], name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(stream(tasks), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
