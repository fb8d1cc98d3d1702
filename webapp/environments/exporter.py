"""Environments as files, streamed in batches, so that a large selection is never in memory as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from synthesis.formats.envscaler import read_environment
from synthesis.formats.envscaler_export import environments_to_envscaler
from synthesis.formats.files import Entry
from synthesis.formats.own_parts import add_parts
from synthesis.formats.records import EnvironmentParts, EnvironmentRecord, ToolRecord
from synthesis.formats.values import read_or_fail
from webapp.environments.models import Environment, Version

BATCH = 20
OPEN, CLOSE = "{", "\n}\n"
SOURCE = "envscaler"


def iterate_exported_records(rows: QuerySet[Environment]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the current records of environments under the keys of a file, in order of their primary keys."""
    keys, last = FileKeys(), 0
    while chunk := _fetch_batch(rows, last):
        last = chunk[-1][0]
        yield from keys.spell([version for _, version in chunk])


def iterate_version_records(versions: Sequence[int]) -> Iterator[tuple[Version, dict[str, Any]]]:
    """Yield versions by their primary keys, in this order, with their records as an import reads them."""
    for row in _read_versions(versions):
        yield row, _build_export_record(row, "")


class FileKeys:
    """Keys of a file's object: an environment's own key, with its source appended if two sources share it."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def spell(self, versions: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
        for row in _read_versions(versions):
            key = row.environment.key
            key = f"{key} ({row.environment.source})" if key in self.seen else key
            self.seen.add(key)
            yield key, _build_export_record(row, key)


def _read_versions(versions: Sequence[int]) -> Iterator[Version]:
    rows_by_pk = Version.objects.select_related("environment").prefetch_related("tools").in_bulk(versions)
    return (rows_by_pk[pk] for pk in versions if pk in rows_by_pk)


def _build_export_record(row: Version, file_key: str) -> dict[str, Any]:
    """Return the record with the parts that an import of it alone, under this key of a file, would lose."""
    owner = row.environment
    is_current = row.pk == owner.current_id
    source = "" if owner.source == SOURCE else owner.source
    read = read_or_fail(read_environment, Entry("record", row.record, file_key))
    if not isinstance(read, EnvironmentRecord):  # an earlier release accepted it; an import reports the fault
        return add_parts(row.record, EnvironmentParts(source=source, current=is_current))
    tools = tuple(
        ToolRecord(name=tool.name, description=tool.description, kind=tool.kind, raw_schema=tool.raw_schema)
        for tool in row.tools.all()
    )
    parts = EnvironmentParts(
        source=source,
        key="" if read.key == owner.key else owner.key,
        name="" if read.name == owner.name or not is_current else owner.name,
        tools=() if tools == read.tools else tools,
        current=is_current,
        variant=owner.variant,
    )
    return add_parts(row.record, parts)


def _fetch_batch(rows: QuerySet[Environment], after: int) -> list[tuple[int, int]]:
    rest = rows.filter(pk__gt=after, current__isnull=False).order_by("pk")
    return list(rest.values_list("pk", "current_id")[:BATCH])


def _list_records(keys: FileKeys, versions: list[int]) -> list[tuple[str, dict[str, Any]]]:
    return list(keys.spell(versions))


async def stream_environments(rows: QuerySet[Environment]) -> AsyncIterator[str]:
    """Yield the text of one JSON object keyed by environment id."""
    last, first, keys = 0, True, FileKeys()
    yield OPEN
    while chunk := await sync_to_async(_fetch_batch)(rows, last):
        last = chunk[-1][0]
        records = await sync_to_async(_list_records)(keys, [version for _, version in chunk])
        text = "".join(environments_to_envscaler(records)).removeprefix(OPEN).removesuffix(CLOSE)
        yield text if first else f",{text}"
        first = False
    yield CLOSE


def build_attachment(rows: QuerySet[Environment], name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(stream_environments(rows), content_type="application/json")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
