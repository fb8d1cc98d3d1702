"""Rows that a call returned, held against the records of the state that they speak of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_DENIES = re.compile(
    r"\b(?:no|unknown|not know(?: a| an| the)?) [a-z]+ ([A-Za-z]*-?[A-Za-z0-9-]*\d)\b(?! at \w)", re.IGNORECASE
)
"""A refusal such as "no presenter R-4 at work" does not say that R-4 does not exist."""
CUT = "more characters are not shown"
Record = dict[str, Any]


def contradiction(result: Any, states: Any) -> str:
    """What a returned row says otherwise than the state after the call; empty where nothing does."""
    records = _records(states if isinstance(states, dict) else {})
    for row in _rows(result):
        known = {name: records[value] for name, value in row.items() if isinstance(value, str) and value in records}
        # Of the ids in a row the others are fields of its own record: a rental's row names its rider, too.
        own = [name for name in known if not any(name in record for other, record in known.items() if other != name)]
        if len(own) != 1 or not own[0].endswith("_id"):
            continue
        for field, value in known[own[0]].items():
            if field in row and _plain(value) and _plain(row[field]) and row[field] != value:
                return f"{field} of {row[own[0]]} is {value!r} in the state, yet {row[field]!r} came back."
    return ""


def denied(reason: str, states: Any) -> str:
    """The id that a refusal says does not exist, though the state has it; empty where there is none."""
    records = _records(states if isinstance(states, dict) else {})
    return next((found[1] for found in _DENIES.finditer(reason) if found[1] in records), "")


def stranger(result: Any, arguments: Record) -> str:
    """A returned row that is not of the id that was asked for; empty where all are."""
    asked = {name: value for name, value in arguments.items() if name.endswith("_id") and isinstance(value, str)}
    for row in _rows(result):
        for name, value in asked.items():
            if isinstance(row.get(name), str) and row[name] != value:
                return f"Asked for {name} {value}, a row of {row[name]} came back."
    return ""


def _records(states: Record) -> dict[str, Record]:
    """The records after the call, as far as they are shown, by id; ids that two collections use are left out."""
    found: dict[str, Record] = {}
    twice: set[str] = set()
    before, after = states.get("before"), states.get("after")
    for name, part in before.items() if isinstance(before, dict) else ():
        changed = after.get(name) if isinstance(after, dict) else None
        now = {**part, **(changed if isinstance(changed, dict) else {})} if isinstance(part, dict) else {}
        for key, record in now.items():
            twice |= {key} & found.keys()
            found[key] = record
    return {key: record for key, record in found.items() if isinstance(record, dict) and key not in twice}


def _rows(value: Any) -> Iterator[Record]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from _rows(part)


def _plain(value: Any) -> bool:
    return value is None or (isinstance(value, str | int | float) and CUT not in str(value))
