"""Answers in a form: fields with names and types, given as JSON, in a fenced block or as lines, and read as data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from . import quantities
from .clock_times import clock_times
from .dates import Day, dates
from .statements import Candidate, CannotTell, judge
from .tokens import MOST_CHARS, Token, cut, fold, joined

FIELD_TYPES = ("text", "choice", "list", "number", "money", "date", "time", "duration")
MOST_ITEMS = 200
MOST_BROKEN = 20
"""So many braces that begin no JSON object are read past."""


def answer_fields(answer: object, **types: str) -> dict[str, Any] | None:
    """The fields of an answer by name, each as its type says; None where the answer is in no form.

    `number`: int or float. `money`: hundredths. `date`: `YYYY-MM-DD`. `time`: `HH:MM`. `duration`: minutes. `list`:
    texts in lower case, sorted. `choice`: text in lower case. `text`: as it is. A field that is missing or cannot be
    read as its type is None.

    Raises ValueError for an unknown type, CannotTell for a field that is given twice differently.
    """
    unknown = [name for name in types.values() if name not in FIELD_TYPES]
    if unknown:
        raise ValueError(f"a field's type is one of {', '.join(FIELD_TYPES)}, not {unknown[0]!r}")
    raw = raw_fields(answer, list(types))
    return None if raw is None else {name: _typed(raw.get(name), kind) for name, kind in types.items()}


def raw_fields(answer: object, names: Sequence[str]) -> dict[str, Any] | None:
    """The fields as they were given: of JSON objects, alone or among words, or of lines `name: value`.

    A form that is given again, as happens in a conversation, may fill in what was null before, and change nothing.
    """
    text = joined(answer)
    if len(text) > MOST_CHARS:
        raise CannotTell(f"the answer has more than {MOST_CHARS:,} characters")
    known = {_plain(name): name for name in names}
    pairs = [pair for given in _objects(text) for pair in given if _plain(pair[0]) in known]
    if not pairs:
        lines = [line.strip().strip("-*• ").partition(":") for line in text.splitlines()]
        told = [(left.strip("*_` "), right.strip("*_` ")) for left, colon, right in lines if colon]
        pairs = [pair for pair in told if _plain(pair[0]) in known]
    return _once((known[_plain(name)], value) for name, value in pairs)


def _objects(text: str) -> Iterator[list[tuple[str, Any]]]:
    """The JSON objects in a text, each as its pairs."""
    decoder = json.JSONDecoder(object_pairs_hook=list)
    at, broken = text.find("{"), 0
    while at >= 0 and broken < MOST_BROKEN:
        end = at + 1
        try:
            pairs, end = decoder.raw_decode(text, at)
            yield pairs
        except (ValueError, RecursionError):
            broken += 1
        at = text.find("{", end)


def _plain(name: str) -> str:
    return fold(name).replace("_", " ").strip()


def _once(pairs: Any) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if found.get(name) is not None and found[name] != value:
            raise CannotTell(f"the field {name} is given twice, each time otherwise")
        found[name] = value
    return found or None


def _typed(value: Any, kind: str) -> Any:
    if kind == "list":
        items = value if isinstance(value, list) else str(value or "").split(",")
        texts = [fold(str(item)).strip() for item in items[:MOST_ITEMS] if not isinstance(item, list)]
        return sorted(text for text in texts if text) or None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    if kind in ("text", "choice"):
        return (fold(text) if kind == "choice" else text) or None
    if kind == "number" and not isinstance(value, str):
        return value
    return _READERS[kind](cut(text))


def _one(tokens: list[Token], found: list[Candidate]) -> Any:
    """The value of the only candidate; empty for none, for several, and where the text hedges or denies it."""
    try:
        return found[0].value if len(found) == 1 and judge(tokens, found, lambda one: True) else ()
    except CannotTell:
        return ()


def _least(values: Any) -> Fraction | None:
    return min(values) if values and len(values) == 1 else None


def _number(tokens: list[Token]) -> int | float | None:
    value = _least(_one(tokens, quantities.counts(tokens, {}, ())))
    return None if value is None else int(value) if value.denominator == 1 else float(value)


def _money(tokens: list[Token]) -> int | None:
    value = _least(_one(tokens, quantities.amounts(tokens, "", "major")))
    return int(value) if value is not None and value.denominator == 1 else None


def _date(tokens: list[Token]) -> str | None:
    days: tuple[Day, ...] = _one(tokens, dates(tokens, None))
    if len(days) != 1 or None in (days[0].year, days[0].month, days[0].day):
        return None
    return f"{days[0].year:04d}-{days[0].month:02d}-{days[0].day:02d}"


def _time(tokens: list[Token]) -> str | None:
    # In a form 8:15 is the morning's.
    minute = min(_one(tokens, clock_times(tokens)), default=None)
    return None if minute is None else f"{minute // 60:02d}:{minute % 60:02d}"


def _duration(tokens: list[Token]) -> int | float | None:
    value = _least(_one(tokens, quantities.durations(tokens, "minutes")))
    if value is None:
        return None
    return int(value / 60) if (value / 60).denominator == 1 else float(value / 60)


_READERS: dict[str, Callable[[list[Token]], Any]] = {
    "number": _number,
    "money": _money,
    "date": _date,
    "time": _time,
    "duration": _duration,
}
