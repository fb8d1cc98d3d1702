"""Tasks as EnvScaler scenarios, streamed in batches: the same form that an import reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from synthesis.formats.envscaler_export import scenarios_to_envscaler
from webapp.scenarios.models import Task
from webapp.scenarios.services import EXPORTED, spell_record

BATCH = 20
OPEN, CLOSE = "[", "\n]\n"


def batch(tasks: QuerySet[Task], after: int) -> tuple[int, list[dict[str, Any]]]:
    """The records of the next current revisions, and the task that the batch ends with (0 at the end)."""
    rows = tasks.select_related(None).filter(pk__gt=after, current__isnull=False).order_by("pk")
    chunk = list(rows.values_list("pk", *EXPORTED)[:BATCH])
    records = [spell_record(*row[1:]) for row in chunk]
    return (chunk[-1][0] if chunk else 0), records


async def stream(tasks: QuerySet[Task]) -> AsyncIterator[str]:
    """A JSON list of these tasks in the order they came in; never all of them in memory."""
    yield OPEN
    last, comma = 0, ""
    while True:
        last, records = await sync_to_async(batch)(tasks, last)
        if not records:
            break
        yield comma + "".join(scenarios_to_envscaler(records)).removeprefix(OPEN).removesuffix(CLOSE)
        comma = ","
    yield CLOSE


def attachment(tasks: QuerySet[Task], name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(stream(tasks), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
