"""An export as one file: a zip with the data and its manifest, written while it is made.

A truncated zip does not open, so half an export is never taken for a whole one.
"""

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
    """Buffer that takes what the archive writes and passes it on; it is not seekable."""

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


def format_manifest(export: Export) -> str:
    return json.dumps(export.manifest(), indent=1) + "\n"


def stream_zip(export: Export) -> Iterator[bytes]:
    """Yield the archive, piece by piece. The same content gives the same bytes."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w") as archive:
        with archive.open(make_zip_entry(DATA), "w", force_zip64=True) as entry:
            for piece in export.pieces():
                entry.write(piece)
                yield pipe.take()
        archive.writestr(make_zip_entry(MANIFEST), format_manifest(export))
    yield pipe.take()


def make_zip_entry(name: str, *, plain: bool = False) -> zipfile.ZipInfo:
    """Return an archive entry without a timestamp. Use `plain` for data that is compressed already."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_STORED if plain else zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def build_attachment(
    pieces: Iterator[bytes], name: str = NAME, content_type: str = "application/zip"
) -> StreamingHttpResponse:
    response = StreamingHttpResponse(_send_pieces(pieces), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


async def _send_pieces(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    def get_next_piece() -> bytes | None:
        return next(pieces, None)

    while (piece := await sync_to_async(get_next_piece)()) is not None:
        if piece:
            yield piece


def read_stored_file(name: str) -> Iterator[bytes]:
    """Yield the bytes of a file that a job stored."""
    with default_storage.open(name, "rb") as file:
        yield from read_blocks(file)


def read_blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(BLOCK):
        yield block
