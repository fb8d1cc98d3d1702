"""Content-addressed JSON, for every table that stores some: kept once under its hash, compressed, verified on reading.

The hash is the SHA-256 of the JSON text with key order kept. Rows are addressed by content, so that writing one twice,
or one that is not referenced in the end, does no harm. They are never joined into lists.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, TypeVar

from django.db import models

from synthesis.errors import InputError
from synthesis.runtime.encoding import hash_state

LEVEL = 3
Saved = Literal["created", "unchanged", "updated", "beside", "kept"]
"""Outcome of an incoming record.

Human work stays current: with `beside` the record is stored as a further version or revision that is not current, and
with `kept` it was stored before.
"""


def content_hash(content: Any) -> str:
    """Return the SHA-256 of a value's JSON with key order kept: two spellings of one record are two contents."""
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


class Content(models.Model):
    """A JSON value: `hash` is the SHA-256 of its text, `body` the text under zlib, `size` the text's bytes."""

    LARGEST: ClassVar[int] = 0
    """Bytes of text that are taken; 0 is no limit."""

    hash = models.CharField(max_length=64, primary_key=True)
    size = models.PositiveIntegerField()
    body = models.BinaryField()

    class Meta:
        abstract = True

    @classmethod
    def derive_columns(cls, value: Any) -> dict[str, Any]:
        """Return the columns that a table computes from the value."""
        return {}


class StateContent(Content):
    """An encoded state. `state_hash` is the order-free hash that the runtime compares by."""

    state_hash = models.CharField(max_length=64)

    class Meta:
        abstract = True

    @classmethod
    def derive_columns(cls, value: Any) -> dict[str, Any]:
        return {"state_hash": hash_state(value)}


Row = TypeVar("Row", bound=Content)


def build_content_row(table: type[Row], value: Any) -> Row:
    """Return a row for this value, not saved. Raises InputError if it is larger than the table takes."""
    return _compress_row(table, value, _dump_text(table, value))


def save_rows(table: type[Row], rows: Iterable[Row]) -> None:
    """Write those rows that do not exist, in one order, so that two writers never wait for each other."""
    unique = {row.hash: row for row in rows}
    table._default_manager.bulk_create([unique[key] for key in sorted(unique)], ignore_conflicts=True)


def store_values(table: type[Row], values: Sequence[Any]) -> list[Row]:
    """Return the rows that hold these values, in their order; create those that do not exist."""
    texts = [_dump_text(table, value) for value in values]
    keys = [hashlib.sha256(text).hexdigest() for text in texts]
    rows = {row.hash: row for row in table._default_manager.defer("body").filter(pk__in=set(keys))}
    new: dict[str, Row] = {}
    for key, value, text in zip(keys, values, texts, strict=True):
        if key not in rows and key not in new:
            new[key] = _compress_row(table, value, text)
    save_rows(table, new.values())
    return [rows.get(key) or new[key] for key in keys]


def load_value(table: type[Content], key: str) -> Any:
    """Return the value under this hash. Raises the table's DoesNotExist; InputError if it is damaged."""
    return unpack_value(table, key, table._default_manager.values_list("body", flat=True).get(pk=key))


def unpack_value(table: type[Content], key: str, body: Any) -> Any:
    """Return the value of a row that the caller's query has read. Raises InputError if it is damaged."""
    try:
        text = zlib.decompress(bytes(body))
    except zlib.error as error:
        raise InputError(f"{table._meta.label} {key} is damaged: {error}.") from error
    actual = hashlib.sha256(text).hexdigest()
    if actual != key:
        raise InputError(f"{table._meta.label} {key} is damaged: its content has the hash {actual}.")
    return json.loads(text)


def _dump_text(table: type[Content], value: Any) -> bytes:
    # The evidence of a rejection may hold any object.
    text = json.dumps(value, separators=(",", ":"), default=str).encode()
    if 0 < table.LARGEST < len(text):
        raise InputError(f"What was made is too large to keep: {len(text)} bytes, {table.LARGEST} are taken.")
    return text


def _compress_row(table: type[Row], value: Any, text: bytes) -> Row:
    key, body = hashlib.sha256(text).hexdigest(), zlib.compress(text, LEVEL)
    return table(hash=key, size=len(text), body=body, **table.derive_columns(value))
