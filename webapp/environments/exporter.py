"""Environments as files: streamed in batches, so that a large selection never stands in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from synthesis.formats.envscaler_export import environments_to_envscaler
from webapp.environments.models import Environment

BATCH = 20
OPEN, CLOSE = "{", "\n}\n"


def batch(rows: QuerySet[Environment], after: int) -> list[tuple[int, str, dict[str, object]]]:
    rest = rows.filter(pk__gt=after, current__isnull=False).order_by("pk")
    return list(rest.values_list("pk", "key", "current__record")[:BATCH])


async def stream(rows: QuerySet[Environment]) -> AsyncIterator[str]:
    """One object keyed by environment id. An id that two sources share is exported from the first alone."""
    last, first, seen = 0, True, set[str]()
    yield OPEN
    while chunk := await sync_to_async(batch)(rows, last):
        last = chunk[-1][0]
        fresh = [(key, record) for _, key, record in chunk if not (key in seen or seen.add(key))]  # type: ignore[func-returns-value]
        text = "".join(environments_to_envscaler(fresh)).removeprefix(OPEN).removesuffix(CLOSE)
        if text:
            yield text if first else f",{text}"
            first = False
    yield CLOSE


def attachment(rows: QuerySet[Environment], name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(stream(rows), content_type="application/json")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
