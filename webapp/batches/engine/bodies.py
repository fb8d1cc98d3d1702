"""Bodies by content: outputs of stages, requests and replies, stored once and compressed."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable
from typing import Any

from synthesis.errors import InputError
from webapp.batches.models import Body

LEVEL = 3
LARGEST = 32 * 1024 * 1024


def body_of(value: Any) -> Body:
    """A row for this JSON value, not saved. Raises InputError where it is too large to keep."""
    text = json.dumps(value, separators=(",", ":"), default=str).encode()
    if len(text) > LARGEST:
        raise InputError(f"What was made is too large to keep: {len(text)} bytes, {LARGEST} are taken.")
    return Body(hash=hashlib.sha256(text).hexdigest(), size=len(text), body=zlib.compress(text, LEVEL))


def store_bodies(bodies: Iterable[Body]) -> None:
    """Write those that are not there. In one order, so that two writers never wait for each other."""
    rows = sorted({body.hash: body for body in bodies}.values(), key=lambda one: one.hash)
    Body.objects.bulk_create(rows, ignore_conflicts=True)


def store(value: Any) -> str:
    """Keep a value and give its hash."""
    body = body_of(value)
    store_bodies([body])
    return body.hash


def load(digest: str) -> Any:
    """The value with this hash. Raises Body.DoesNotExist, InputError if damaged."""
    return unpack(Body.objects.values_list("body", flat=True).get(pk=digest))


def unpack(body: Any) -> Any:
    try:
        return json.loads(zlib.decompress(bytes(body)))
    except zlib.error as error:
        raise InputError(f"A stored body is damaged: {error}") from error
