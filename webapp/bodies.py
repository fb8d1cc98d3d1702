"""States by content, for every table that keeps some: stored once, compressed, key order kept."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable
from typing import Any, TypeVar

from django.db import models

from synthesis.contracts import State
from synthesis.errors import InputError
from synthesis.runtime.encoding import state_hash

LEVEL = 3


class Body(models.Model):
    """A state, content-addressed: `hash` is the SHA-256 of its JSON with key order kept.

    `body` is that JSON, zlib-compressed. `state_hash` is the order-free hash the runtime compares by.
    Never joined into lists.
    """

    hash = models.CharField(max_length=64, primary_key=True)
    state_hash = models.CharField(max_length=64)
    size = models.PositiveIntegerField()
    body = models.BinaryField()

    class Meta:
        abstract = True


B = TypeVar("B", bound=Body)


def store(table: type[B], states: Iterable[State]) -> list[B]:
    """The rows that hold these encoded states, in their order, made where they are not there.

    Rows are addressed by content, so that writing one twice, or one that nothing refers to in the end, does no harm.
    """
    texts = [(state, json.dumps(state, separators=(",", ":")).encode()) for state in states]
    digests = [hashlib.sha256(text).hexdigest() for _, text in texts]
    rows = {row.pk: row for row in table._default_manager.defer("body").filter(pk__in=set(digests))}
    missing = {}
    for (state, text), digest in zip(texts, digests, strict=True):
        if digest not in rows and digest not in missing:
            body = zlib.compress(text, LEVEL)
            missing[digest] = table(hash=digest, state_hash=state_hash(state), size=len(text), body=body)
    table._default_manager.bulk_create(missing.values(), ignore_conflicts=True)
    return [rows.get(digest) or missing[digest] for digest in digests]


def load(table: type[Body], digest: str) -> State:
    """The encoded state with this content hash. Raises the table's `DoesNotExist`, or `InputError` if damaged."""
    body = table._default_manager.values_list("body", flat=True).get(pk=digest)
    return unpack(body, digest)


def unpack(body: Any, digest: str) -> State:
    try:
        text = zlib.decompress(bytes(body))
    except zlib.error as error:
        raise InputError(f"The stored state {digest[:12]} is damaged: {error}") from error
    if hashlib.sha256(text).hexdigest() != digest:
        raise InputError(f"The stored state {digest[:12]} is damaged: its content has another hash.")
    state: State = json.loads(text)
    return state
