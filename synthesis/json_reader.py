"""External JSON, read strictly: values that JSON does not allow or PostgreSQL cannot store are refused with their
place.

Refused are numbers that are not finite or overflow, numbers of thousands of digits, a key that is repeated in one
object, half a surrogate pair, nesting without end, and text that would take too much memory. `read_json` reads one
value. `mark_json` reads a document of many records, in which a bad value must only cost the record it is part of:
`require_usable` finds it there.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from dataclasses import dataclass
from typing import Any

from synthesis.errors import FormatError
from synthesis.json_weight import LIGHT, require_light

MAX_DEPTH = 100
MAX_NODES = 2_000_000
MAX_CHARACTERS = 64 * 1024 * 1024
MAX_DIGITS = 1000
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""How half a pair gets into a text: whole pairs look the same, so what was read is looked at."""
HALF_PAIR = "half a surrogate pair (\\ud800 to \\udfff), which is no character"
_PLAIN = (int, float, bool, type(None))


class RepeatedKeyObject(dict[str, Any]):
    """An object in which a key is repeated; `repeated` names it."""

    repeated: str = ""


@dataclass(frozen=True)
class Unusable:
    """A number that cannot be kept: too many digits, or not a number at all."""

    reason: str


def read_json(
    text: str | bytes,
    place: str = "",
    *,
    most_levels: int = MAX_DEPTH,
    most_memory: int = LIGHT,
    broken_text: bool = False,
) -> Any:
    """Return one JSON value. With `broken_text` half surrogate pairs are allowed, for callers that replace them.

    Raises FormatError with the place of the first fault, below `place`.
    """
    text = _decode_text(text, place)
    try:
        require_light(text.encode("utf-8", "surrogatepass"), most_memory)
        marking = _Marking()
        value = marking.read(text)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")
        where = f"character {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise FormatError(place, f"not valid JSON: {what} at {where}") from error
    except ValueError as error:
        raise FormatError(place, f"cannot be read: {error}") from error
    except MemoryError as error:
        raise FormatError(place, "needs more memory to be read than is given to a file; leave it out") from error
    except RecursionError as error:
        raise FormatError(place, "nested too deeply to read") from error
    broken_text = broken_text or not _ESCAPED_HALF.search(text)
    deep = text.count("[") + text.count("{") > most_levels
    if marking.found or deep or not broken_text or len(text) > MAX_CHARACTERS:
        require_usable(value, place, broken_text=broken_text, most_levels=most_levels)
    return value


def _decode_text(text: str | bytes, place: str) -> str:
    if isinstance(text, str):
        return text
    if text.startswith(codecs.BOM_UTF8):
        raise FormatError(place, "begins with a byte order mark (BOM); save the file as UTF-8 without one")
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(place, f"not UTF-8 (byte {error.start + 1})") from error


def mark_json(text: str) -> Any:
    """Return a value in which unusable parts are an `Unusable` or a `RepeatedKeyObject`. Raises as `json.loads`."""
    return _Marking().read(text)


class _Marking:
    """Reader of one text that marks unusable values, and remembers whether there were any."""

    def __init__(self) -> None:
        self.found = False

    def read(self, text: str) -> Any:
        return json.loads(
            text,
            parse_int=self._integer,
            parse_float=self._float,
            parse_constant=self._constant,
            object_pairs_hook=self._object,
        )

    def _unusable(self, reason: str) -> Unusable:
        self.found = True
        return Unusable(reason)

    def _integer(self, digits: str) -> Any:
        if len(digits) > MAX_DIGITS:
            return self._unusable(f"a number of more than {MAX_DIGITS} digits")
        return int(digits)

    def _float(self, digits: str) -> Any:
        number = float(digits)
        return number if math.isfinite(number) else self._unusable(f"a number too large to keep ({digits[:20]})")

    def _constant(self, word: str) -> Any:
        return self._unusable(f"{word}, which is not a number of JSON")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        self.found = True
        marked = RepeatedKeyObject(plain)
        seen: set[str] = set()
        marked.repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return marked


def get_json_type(value: Any) -> str:
    """Return the JSON name of a value's type, for messages."""
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "list", type(None): "null"}
    return "object" if isinstance(value, dict) else names.get(type(value), type(value).__name__)


def require_usable(value: Any, place: str, *, broken_text: bool = False, most_levels: int = MAX_DEPTH) -> None:
    """Raise `FormatError` at the first place of a record that cannot be kept, or if it is too large or too deep.

    Floats that do not come from JSON are checked as well.
    """
    nodes = characters = 0
    stack: list[tuple[Any, str, int]] = [(value, place, 1)]
    while stack:
        item, where, depth = stack.pop()
        nodes += 1
        if isinstance(item, Unusable):
            raise FormatError(where, item.reason)
        if isinstance(item, str):
            characters += len(item)
            if not broken_text and _HALF.search(item):
                raise FormatError(where, HALF_PAIR)
        elif isinstance(item, float) and not math.isfinite(item):
            raise FormatError(where, f"{item}, which is not a number of JSON")
        elif isinstance(item, dict | list):
            if depth > most_levels:
                raise FormatError(place, f"nested more than {most_levels} levels deep")
            if isinstance(item, RepeatedKeyObject):
                raise FormatError(where, f"the key {item.repeated[:200]!r} stands twice in one object")
            nodes += len(item)
            stack.extend(_list_children(item, where, depth + 1))
        if nodes > MAX_NODES or characters > MAX_CHARACTERS:
            raise FormatError(place, f"larger than a record may be ({MAX_NODES} values, {MAX_CHARACTERS} characters)")


def _list_children(item: Any, where: str, depth: int) -> list[tuple[Any, str, int]]:
    """Return the entries of a list or object, with their places; entries that JSON can always keep are left out."""
    if isinstance(item, dict):
        pairs = [(c, f"{where}.{key}".lstrip(".")[:200], depth) for key, c in item.items() if not _is_always_kept(c)]
        names = [(key, where, depth) for key in item]
        return pairs[::-1] + names
    return [(c, f"{where}[{i}]"[:200], depth) for i, c in reversed(list(enumerate(item))) if not _is_always_kept(c)]


def _is_always_kept(value: Any) -> bool:
    return type(value) in _PLAIN and not (type(value) is float and not math.isfinite(value))
