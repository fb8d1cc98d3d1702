"""Entity tags of representations: the hash of the JSON answer. 304 for an unchanged one, 412 for a changed one."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags, quote_etag
from ninja import Schema
from ninja.responses import NinjaJSONEncoder

from webapp.common.rest.problems import Problem


def serialize_json(data: Any) -> bytes:
    """Return data as JSON in the form of every answer of the API."""
    return json.dumps(data, cls=NinjaJSONEncoder).encode()


def compute_etag(content: bytes) -> str:
    return quote_etag(hashlib.sha256(content).hexdigest()[:32])


def add_etag(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Return the response with its ETag, or 304 if `If-None-Match` names it."""
    etag = compute_etag(response.content)
    if request.method in ("GET", "HEAD") and has_matching_etag(
        request.headers.get("If-None-Match", ""), etag, weak=True
    ):
        response = HttpResponseNotModified()
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    response["Vary"] = "Authorization, Cookie"
    return response


def has_matching_etag(header: str, etag: str, *, weak: bool) -> bool:
    etags = parse_etags(header)
    return "*" in etags or etag in etags or (weak and f"W/{etag}" in etags)


def require_match(request: HttpRequest, current: Schema) -> None:
    """Check before a write that `If-Match`, if it is sent, names what a GET would answer now, as `current`.

    `*` names no state that a client has read, and is refused. Call it inside the transaction that locks the row. Raises
    `Problem` (412).
    """
    header = request.headers.get("If-Match", "")
    if "*" in parse_etags(header):
        raise Problem(412, "If-Match: * names no state that you have read. Read it, and send the ETag of the answer.")
    if header and not has_matching_etag(header, compute_etag(serialize_json(current.model_dump())), weak=False):
        message = "It was changed since you read it. Read it again, look at what changed, and send the new ETag."
        raise Problem(412, message)


def demand_match(request: HttpRequest, current: Schema, read: str) -> None:
    """Check as `require_match`, before a write that may overwrite changes of others: the header is required.

    `read` is the operation that gives its ETag. Raises `Problem` (428, 412).
    """
    if not request.headers.get("If-Match", "").strip():
        raise Problem(428, f"Send If-Match with the ETag of {read}, so that no other change is overwritten.")
    require_match(request, current)


def describe_required_match(read: str) -> dict[str, Any]:
    """Return the `openapi_extra` of an operation that calls `demand_match`."""
    return _describe_if_match(f"The ETag of {read}. 428 without it, 412 if it has changed", required=True)


def describe_optional_match(read: str) -> dict[str, Any]:
    """Return the `openapi_extra` of an operation that calls `require_match`."""
    return _describe_if_match(
        f"The ETag of {read}, if the write is to apply only to that state: else 412", required=False
    )


def _describe_if_match(words: str, *, required: bool) -> dict[str, Any]:
    schema = {"type": "string", "title": "If-Match"}
    header = {"in": "header", "name": "If-Match", "required": required, "description": words, "schema": schema}
    return {"parameters": [header]}
