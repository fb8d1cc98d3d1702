"""An export as one file: a zip with the data and its manifest, written as it is made. Cut short, it does not open, so
that half an export is never taken for a whole one."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import AsyncIterator, Iterator
from typing import IO, Any

from asgiref.sync import sync_to_async
from django.core.files.storage import default_storage
from django.http import StreamingHttpResponse

from webapp.trajectories.export.lines import DATA, Export

MANIFEST = "manifest.json"
NAME = "training.zip"
BLOCK = 1 << 20


class _Pipe(io.RawIOBase):
    """Takes what the archive writes and hands it on; it cannot be sought in."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.parts.append(bytes(data))
        return len(self.parts[-1])

    def take(self) -> bytes:
        data = b"".join(self.parts)
        self.parts.clear()
        return data


def spelled_manifest(export: Export) -> str:
    return json.dumps(export.manifest(), indent=1) + "\n"


def zipped(export: Export) -> Iterator[bytes]:
    """The archive, piece by piece. The same content gives the same bytes."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w") as archive:
        with archive.open(packed_entry(DATA), "w", force_zip64=True) as entry:
            for piece in export.pieces():
                entry.write(piece)
                yield pipe.take()
        archive.writestr(packed_entry(MANIFEST), spelled_manifest(export))
    yield pipe.take()


def packed_entry(name: str, *, plain: bool = False) -> zipfile.ZipInfo:
    """An entry of an archive that does not tell when it was made. What is compressed already goes in `plain`."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_STORED if plain else zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def attachment(
    pieces: Iterator[bytes], name: str = NAME, content_type: str = "application/zip"
) -> StreamingHttpResponse:
    response = StreamingHttpResponse(_sent(pieces), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


async def _sent(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    def following() -> bytes | None:
        return next(pieces, None)

    while (piece := await sync_to_async(following)()) is not None:
        if piece:
            yield piece


def stored(name: str) -> Iterator[bytes]:
    """The bytes of a file that a job kept."""
    with default_storage.open(name, "rb") as file:
        yield from blocks(file)


def blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(BLOCK):
        yield block
