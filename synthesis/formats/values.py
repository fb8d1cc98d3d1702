"""Typed reading of one record's fields: strict about types, each failure with its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from synthesis.errors import FormatError
from synthesis.formats.files import MAX_WEIGHT, Entry
from synthesis.formats.records import Failure
from synthesis.json_reader import json_type, read_json, require_usable

T = TypeVar("T")

UNKEEPABLE = re.compile("[\x00\ud800-\udfff]")


def clean(text: str) -> str:
    """Text that PostgreSQL can hold: NUL and lone surrogates are replaced by visible signs."""
    return UNKEEPABLE.sub(lambda match: "\u2400" if match[0] == "\x00" else "\ufffd", text)


def record_of(value: Any, place: str) -> dict[str, Any]:
    require_usable(value, place, broken_text=True)
    if not isinstance(value, dict):
        raise FormatError(place, f"expected an object, found a {json_type(value)}")
    return value


def text_field(record: dict[str, Any], name: str, place: str, *, required: bool = False) -> str:
    """A text field, cleaned; absent and null count as empty, a number is never taken for text."""
    value = record.get(name)
    if value is None:
        value = ""
    if not isinstance(value, str):
        raise FormatError(f"{place}.{name}", f"expected text, found a {json_type(value)}")
    if required and not value.strip():
        raise FormatError(f"{place}.{name}", "missing" if name not in record else "empty")
    return clean(value)


def key_field(record: dict[str, Any], name: str, place: str, default: str = "") -> str:
    """An id: text or a whole number, 200 characters at most."""
    value = record.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None or value == "":
        value = default
    if not isinstance(value, str):
        raise FormatError(f"{place}.{name}", f"expected an id, found a {json_type(value)}")
    if not value.strip():
        raise FormatError(f"{place}.{name}", "missing")
    if len(value) > 200:
        raise FormatError(f"{place}.{name}", f"an id of {len(value)} characters; 200 are allowed")
    return clean(value)


def opened(value: Any, place: str) -> Any:
    """A value that may stand as itself or as a JSON string of itself. Text in it is not cleaned yet."""
    return read_json(value, place, most_memory=MAX_WEIGHT, broken_text=True) if isinstance(value, str) else value


def list_field(record: dict[str, Any], name: str, place: str) -> list[Any]:
    value = opened(record.get(name), f"{place}.{name}")
    if value is None:
        return []
    if not isinstance(value, list):
        raise FormatError(f"{place}.{name}", f"expected a list, found a {json_type(value)}")
    return value


def object_field(record: dict[str, Any], name: str, place: str) -> dict[str, Any] | None:
    value = opened(record.get(name), f"{place}.{name}")
    if value is not None and not isinstance(value, dict):
        raise FormatError(f"{place}.{name}", f"expected an object, found a {json_type(value)}")
    return value


def flag_field(record: dict[str, Any], name: str, place: str, default: bool) -> bool:
    value = record.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise FormatError(f"{place}.{name}", f"expected true or false, found a {json_type(value)}")
    return value


def number_field(record: dict[str, Any], name: str, place: str) -> float | None:
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        raise FormatError(f"{place}.{name}", f"expected a number, found a {json_type(value)}")
    return float(value)


def shorten(text: str, limit: int) -> str:
    """One line of `text`, cut at a word with an ellipsis."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    return line[: limit - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"


def read_or_fail(read: Callable[[Entry], T], entry: Entry) -> T | Failure:
    """One record, or why it is none. Nothing that stands in a file can stop the file it stands in."""
    try:
        return read(entry)
    except FormatError as error:
        return Failure(place=clean(error.place), reason=clean(error.reason))
    except RecursionError:
        return Failure(place=clean(entry.place), reason="nested too deeply to read")
    except ValidationError as error:
        return Failure(place=clean(entry.place), reason=clean(shorten(str(error.errors()[0]["msg"]), 300)))
    except Exception as error:
        reason = f"could not be read ({type(error).__name__}: {error})"
        return Failure(place=clean(entry.place), reason=clean(shorten(reason, 300)))
