"""Response with a stored file: the whole file, or the part that the header `Range` names."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import IO

from asgiref.sync import sync_to_async
from django.core.files.storage import default_storage
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from webapp.common.database.connections import release_connection
from webapp.common.errors import NotFound, RangeNotSatisfiable

BLOCK = 1 << 20
IN_ONE_PIECE = 16 * BLOCK
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@dataclass(frozen=True)
class Span:
    """Bytes of a file of `size` from `first` up to, but not including, `end`."""

    first: int
    end: int
    size: int


def build_file_response(stored: str, what: str, wanted: str, name: str = "") -> HttpResponseBase:
    """Return the file `stored` of the file store; `what` names it in errors, `wanted` is the request's `Range`.

    Raises NotFound, RangeNotSatisfiable.
    """
    try:
        size = default_storage.size(stored)
        file = default_storage.open(stored, "rb")
    except FileNotFoundError as error:
        raise NotFound(f"{what} is not in the file store any more.") from error
    release_connection()
    try:
        span = _parse_range(wanted, size)
    except RangeNotSatisfiable:
        file.close()
        raise
    return _build_response(file, span, name, partial=bool(wanted))


def _parse_range(wanted: str, size: int) -> Span:
    """Return the bytes that a `Range` header names; the whole file without one. Raises RangeNotSatisfiable."""
    if not wanted:
        return Span(0, size, size)
    match = RANGE.fullmatch(wanted.strip())
    first, last = (match[1], match[2]) if match else ("", "")
    if first:
        begin, end = int(first), min(int(last) + 1, size) if last else size
    elif last:
        begin, end = max(0, size - int(last)), size
    else:
        begin, end = size, size
    if begin >= end:
        raise RangeNotSatisfiable(size)
    return Span(begin, end, size)


def _build_response(file: IO[bytes], span: Span, name: str, *, partial: bool) -> HttpResponseBase:
    file.seek(span.first)
    length = span.end - span.first
    response: HttpResponseBase
    if length <= IN_ONE_PIECE:
        with file:
            response = HttpResponse(file.read(length), content_type="application/octet-stream")
    else:
        response = StreamingHttpResponse(_stream_pieces(file, length), content_type="application/octet-stream")
    if partial:
        response.status_code = 206
        response["Content-Range"] = f"bytes {span.first}-{span.end - 1}/{span.size}"
    response["Content-Length"] = str(length)
    response["Accept-Ranges"] = "bytes"
    response["Content-Disposition"] = content_disposition_header(True, name) if name else "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response


async def _stream_pieces(file: IO[bytes], length: int) -> AsyncIterator[bytes]:
    with file:
        while length > 0 and (block := await sync_to_async(file.read)(min(BLOCK, length))):
            length -= len(block)
            yield block
