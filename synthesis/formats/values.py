"""Typed reading of one record's fields: strict about types, each failure with its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from synthesis.errors import FormatError
from synthesis.formats.files import MAX_WEIGHT, Entry
from synthesis.formats.records import Failure
from synthesis.json_reader import get_json_type, read_json, require_usable

T = TypeVar("T")

UNKEEPABLE = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Return text that PostgreSQL can hold: NUL and lone surrogates are replaced by visible signs."""
    return UNKEEPABLE.sub(lambda match: "\u2400" if match[0] == "\x00" else "\ufffd", text)


def require_record(value: Any, place: str) -> dict[str, Any]:
    require_usable(value, place, broken_text=True)
    if not isinstance(value, dict):
        raise FormatError(place, f"expected an object, found a {get_json_type(value)}")
    return value


def read_text_field(record: dict[str, Any], name: str, place: str, *, required: bool = False) -> str:
    """Return a cleaned text field; absent and null count as empty, a number is never accepted as text."""
    value = record.get(name)
    if value is None:
        value = ""
    if not isinstance(value, str):
        raise FormatError(f"{place}.{name}", f"expected text, found a {get_json_type(value)}")
    if required and not value.strip():
        raise FormatError(f"{place}.{name}", "missing" if name not in record else "empty")
    return clean_text(value)


def read_key_field(record: dict[str, Any], name: str, place: str, default: str = "") -> str:
    """Return an id: text or a whole number, at most 200 characters."""
    value = record.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None or value == "":
        value = default
    if not isinstance(value, str):
        raise FormatError(f"{place}.{name}", f"expected an id, found a {get_json_type(value)}")
    if not value.strip():
        raise FormatError(f"{place}.{name}", "missing")
    if len(value) > 200:
        raise FormatError(f"{place}.{name}", f"an id of {len(value)} characters; 200 are allowed")
    return clean_text(value)


def decode_json(value: Any, place: str) -> Any:
    """Return a value given as itself or as a JSON string of itself. Text in it is not cleaned yet."""
    return read_json(value, place, most_memory=MAX_WEIGHT, broken_text=True) if isinstance(value, str) else value


def read_list_field(record: dict[str, Any], name: str, place: str) -> list[Any]:
    value = decode_json(record.get(name), f"{place}.{name}")
    if value is None:
        return []
    if not isinstance(value, list):
        raise FormatError(f"{place}.{name}", f"expected a list, found a {get_json_type(value)}")
    return value


def read_object_field(record: dict[str, Any], name: str, place: str) -> dict[str, Any] | None:
    value = decode_json(record.get(name), f"{place}.{name}")
    if value is not None and not isinstance(value, dict):
        raise FormatError(f"{place}.{name}", f"expected an object, found a {get_json_type(value)}")
    return value


def read_flag_field(record: dict[str, Any], name: str, place: str, default: bool) -> bool:
    value = record.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise FormatError(f"{place}.{name}", f"expected true or false, found a {get_json_type(value)}")
    return value


def read_number_field(record: dict[str, Any], name: str, place: str) -> float | None:
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        raise FormatError(f"{place}.{name}", f"expected a number, found a {get_json_type(value)}")
    return float(value)


def shorten_text(text: str, limit: int) -> str:
    """Return `text` on one line, cut at a word with an ellipsis."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    return line[: limit - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"


def read_or_fail(read: Callable[[Entry], T], entry: Entry) -> T | Failure:
    """Return one record, or the reason of its failure. No content of a record can stop the reading of its file."""
    try:
        return read(entry)
    except FormatError as error:
        return Failure(place=clean_text(error.place), reason=clean_text(error.reason))
    except RecursionError:
        return Failure(place=clean_text(entry.place), reason="nested too deeply to read")
    except ValidationError as error:
        return Failure(
            place=clean_text(entry.place), reason=clean_text(shorten_text(str(error.errors()[0]["msg"]), 300))
        )
    except Exception as error:
        reason = f"could not be read ({type(error).__name__}: {error})"
        return Failure(place=clean_text(entry.place), reason=clean_text(shorten_text(reason, 300)))
