"""Entity tags of representations: the hash of the JSON that is sent. 304 for what did not change, 412 for what did."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags, quote_etag
from ninja import Schema
from ninja.responses import NinjaJSONEncoder

from webapp.rest.problems import Problem


def dump(data: Any) -> bytes:
    """JSON as every answer of the API spells it."""
    return json.dumps(data, cls=NinjaJSONEncoder).encode()


def etag_of(content: bytes) -> str:
    return quote_etag(hashlib.sha256(content).hexdigest()[:32])


def conditional(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """The response with its tag, or 304 where `If-None-Match` names it."""
    etag = etag_of(response.content)
    if request.method in ("GET", "HEAD") and matches(request.headers.get("If-None-Match", ""), etag, weak=True):
        response = HttpResponseNotModified()
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    response["Vary"] = "Authorization, Cookie"
    return response


def matches(header: str, etag: str, *, weak: bool) -> bool:
    etags = parse_etags(header)
    return "*" in etags or etag in etags or (weak and f"W/{etag}" in etags)


def require_match(request: HttpRequest, current: Schema) -> None:
    """Before a write: `If-Match`, where it is sent, must name what a GET would answer now, as `current`.

    `*` names nothing that anybody has read, and is refused. Call it inside the transaction that locks the row. Raises
    `Problem` (412).
    """
    header = request.headers.get("If-Match", "")
    if "*" in parse_etags(header):
        raise Problem(412, "If-Match: * names no state that you have read. Read it, and send the ETag of the answer.")
    if header and not matches(header, etag_of(dump(current.model_dump())), weak=False):
        message = "It was changed since you read it. Read it again, look at what changed, and send the new ETag."
        raise Problem(412, message)


def demand_match(request: HttpRequest, current: Schema, read: str) -> None:
    """The same before a write that goes over what others may have written: the header has to be sent.

    `read` is the operation that gives its ETag. Raises `Problem` (428, 412).
    """
    if not request.headers.get("If-Match", "").strip():
        raise Problem(428, f"Send If-Match with the ETag of {read}, so that nobody's change is written over.")
    require_match(request, current)


def match_needed(read: str) -> dict[str, Any]:
    """The `openapi_extra` of an operation that calls `demand_match`."""
    return _header(f"The ETag of {read}. 428 without, 412 where that is another now", required=True)


def match_taken(read: str) -> dict[str, Any]:
    """The `openapi_extra` of an operation that calls `require_match`."""
    return _header(f"The ETag of {read}, where the write is to hold for that alone: else 412", required=False)


def _header(words: str, *, required: bool) -> dict[str, Any]:
    schema = {"type": "string", "title": "If-Match"}
    header = {"in": "header", "name": "If-Match", "required": required, "description": words, "schema": schema}
    return {"parameters": [header]}
