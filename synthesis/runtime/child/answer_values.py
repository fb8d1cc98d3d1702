"""Answers as data: the values of a submitted answer, compared with expected ones by type. No rule interprets words.

An answer of a task with an answer form is the submitted object as JSON text, empty if no answer was submitted. Checks
call `answer_value` and `is_expected` by name. Numbers are compared as decimals within a declared tolerance, dates and
times as such, text by Unicode NFKC, case and white space, lists in order only if that is declared.
"""

from __future__ import annotations

import datetime
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

MOST_CHARS = 100_000
"""A longer answer holds no value."""
MOST_ITEMS = 200
"""A list has at most so many items."""
_TIME = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d\Z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z")
Field = Mapping[str, Any]
"""A field as a form declares it: `type`, and as that needs it `tolerance`, `ordered`, `items` (a field) or `fields`
(fields with a `name`)."""


def answer_value(answer: object, name: str) -> Any:
    """Return the value of a field in a submitted answer, None if it has none or no answer was submitted."""
    return read_answer(answer).get(name)


def is_expected(answer: object, name: str, expected: Any, **field: Any) -> bool:
    """Return whether a submitted answer holds the expected value in the field, which is declared as in a form.

    Raise ValueError if the declaration has no known type, or `expected` is not a value of it.
    """
    if expected is not None and not is_value(expected, field):
        raise ValueError(f"{expected!r:.200} is no value of type {field.get('type')!r}")
    return is_equal(answer_value(answer, name), expected, field)


def is_value(value: Any, field: Field) -> bool:
    """Return whether a value has the type of the field. Raise ValueError for an unknown type."""
    kind = field.get("type")
    if kind not in _VALUES:
        raise ValueError(f"a field's type is one of {', '.join(_VALUES)}, not {kind!r}")
    return _VALUES[kind](value, field)


def is_equal(given: Any, expected: Any, field: Field) -> bool:
    """Return whether two values of the field are equal; None equals only None."""
    if given is None or expected is None:
        return given is None and expected is None
    return is_value(given, field) and _EQUALS[field["type"]](given, expected, field)


def fold_text(text: str) -> str:
    """Return the text without differences of Unicode form, case and white space."""
    # Upper case first: the dotless i of Turkish becomes "I" there, which is "i" in lower case.
    folded = unicodedata.normalize("NFKC", text).upper().casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def read_answer(answer: object) -> dict[str, Any]:
    """Return all that a submitted answer holds, by field; empty if no answer was submitted.

    A verification script receives the answer as this function returns it, and may pass it on.
    """
    if isinstance(answer, dict):
        return answer
    if not isinstance(answer, str) or not 0 < len(answer) <= MOST_CHARS:
        return {}
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_number(value: Any, field: Field) -> bool:
    return type(value) in (int, float) and abs(value) < 1e15


def _is_money(value: Any, field: Field) -> bool:
    return _is_number(value, field) and _to_decimal(value) == round(_to_decimal(value), 2)


def _is_text(value: Any, field: Field) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_date(value: Any, field: Field) -> bool:
    if not isinstance(value, str) or not _DATE.match(value):
        return False
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_time(value: Any, field: Field) -> bool:
    return isinstance(value, str) and bool(_TIME.match(value))


def _is_choice(value: Any, field: Field) -> bool:
    return isinstance(value, str) and (not field.get("choices") or value in field["choices"])


def _is_list(value: Any, field: Field) -> bool:
    return isinstance(value, list) and len(value) <= MOST_ITEMS and all(is_value(one, field["items"]) for one in value)


def _is_record(value: Any, field: Field) -> bool:
    if not isinstance(value, dict):
        return False
    fields = {inner["name"]: inner for inner in field["fields"]}
    needed = {name for name, inner in fields.items() if inner.get("required", True)}
    return needed <= value.keys() <= fields.keys() and all(is_value(value[name], fields[name]) for name in value)


_VALUES: dict[Any, Callable[[Any, Field], bool]] = {
    "number": _is_number,
    "money": _is_money,
    "date": _is_date,
    "time": _is_time,
    "duration": _is_number,
    "enumeration": _is_choice,
    "id": _is_text,
    "name": _is_text,
    "list": _is_list,
    "record": _is_record,
    "boolean": lambda value, field: isinstance(value, bool),
    "text": _is_text,
}


def _to_decimal(value: float) -> Decimal:
    return Decimal(repr(value))


def _equal_numbers(given: float, expected: float, field: Field) -> bool:
    return abs(_to_decimal(given) - _to_decimal(expected)) <= _to_decimal(field.get("tolerance") or 0)


def _equal_texts(given: str, expected: str, field: Field) -> bool:
    return fold_text(given) == fold_text(expected)


def _equal_times(given: str, expected: str, field: Field) -> bool:
    minutes = [int(text[:2]) * 60 + int(text[3:]) for text in (given, expected)]
    return abs(minutes[0] - minutes[1]) <= (field.get("tolerance") or 0)


def _equal_lists(given: Sequence[Any], expected: Sequence[Any], field: Field) -> bool:
    item = field["items"]
    if len(given) != len(expected):
        return False
    if field.get("ordered"):
        return all(is_equal(one, other, item) for one, other in zip(given, expected, strict=True))
    fits = [[at for at, other in enumerate(expected) if is_equal(one, other, item)] for one in given]
    return _is_matched(fits, len(expected))


def _is_matched(fits: Sequence[Sequence[int]], count: int) -> bool:
    """Return whether each item can have a place of its own among those that it fits (a bipartite matching)."""
    holders: list[int | None] = [None] * count

    def find_place(item: int, tried: set[int]) -> bool:
        for place in fits[item]:
            if place not in tried:
                tried.add(place)
                holder = holders[place]
                if holder is None or find_place(holder, tried):
                    holders[place] = item
                    return True
        return False

    return all(find_place(item, set()) for item in range(len(fits)))


def _equal_records(given: Mapping[str, Any], expected: Mapping[str, Any], field: Field) -> bool:
    return all(is_equal(given.get(one["name"]), expected.get(one["name"]), one) for one in field["fields"])


def _equal_booleans(given: bool, expected: bool, field: Field) -> bool:
    return given is expected


_EQUALS: dict[str, Callable[[Any, Any, Field], bool]] = {
    "number": _equal_numbers,
    "money": _equal_numbers,
    "date": _equal_texts,
    "time": _equal_times,
    "duration": _equal_numbers,
    "enumeration": _equal_texts,
    "id": _equal_texts,
    "name": _equal_texts,
    "list": _equal_lists,
    "record": _equal_records,
    "boolean": _equal_booleans,
    "text": _equal_texts,
}
HELPERS: dict[str, Callable[..., Any]] = {
    "answer_value": answer_value,
    "is_expected": is_expected,
    "read_answer": read_answer,
}
"""What every check finds among its names."""
