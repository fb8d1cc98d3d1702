"""Tasks as a file in EnvScaler's form, with their environments, so that an import needs nothing else.

Streamed in batches; never all of them in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from synthesis.formats.envscaler_export import scenarios_to_envscaler
from webapp.environments.exporter import iterate_version_records
from webapp.scenarios.models import Task
from webapp.scenarios.task_records import iterate_revision_records

BATCH = 20
OPEN, CLOSE = "[", "\n]\n"


class RecordBatches:
    """Records of tasks, each version of an environment before the first task that uses it."""

    def __init__(self) -> None:
        self.versions: set[int] = set()

    def serialize_revisions(self, revisions: list[int]) -> Iterator[dict[str, Any]]:
        spelled = list(iterate_revision_records(revisions))
        version_ids = dict.fromkeys(
            pk for row, _ in spelled for pk in (row.scenario.version_id, row.task.environment.current_id) if pk
        )
        missing = [pk for pk in version_ids if pk not in self.versions]
        self.versions.update(missing)
        yield from (record for _, record in iterate_version_records(missing))
        yield from (record for _, record in spelled)


def load_next_batch(tasks: QuerySet[Task], after: int, batches: RecordBatches) -> tuple[int, list[dict[str, Any]]]:
    """Return the last task of the next batch (0 at the end) and the records of the batch's current revisions."""
    rows = tasks.select_related(None).filter(pk__gt=after, current__isnull=False).order_by("pk")
    chunk = list(rows.values_list("pk", "current_id")[:BATCH])
    return (chunk[-1][0] if chunk else 0), list(
        batches.serialize_revisions([current for _, current in chunk if current])
    )


async def stream_tasks(tasks: QuerySet[Task]) -> AsyncIterator[str]:
    """Yield a JSON list of these tasks in the order of their creation."""
    yield OPEN
    last, comma, batches = 0, "", RecordBatches()
    while True:
        last, records = await sync_to_async(load_next_batch)(tasks, last, batches)
        if not last:
            break
        yield comma + "".join(scenarios_to_envscaler(records)).removeprefix(OPEN).removesuffix(CLOSE)
        comma = ","
    yield CLOSE


def build_export_response(tasks: QuerySet[Task], name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(stream_tasks(tasks), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
