"""Comparison of the rows that a call returned with the records of the state."""

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


def find_contradiction(result: Any, states: Any) -> str:
    """Return how a returned row contradicts the state after the call; empty if none does."""
    records = _map_records(states if isinstance(states, dict) else {})
    for row in _iter_rows(result):
        row_records = {
            name: records[value] for name, value in row.items() if isinstance(value, str) and value in records
        }
        # The other ids in a row are fields of its own record: a rental's row also names its rider.
        own_names = [
            name
            for name in row_records
            if not any(name in record for other, record in row_records.items() if other != name)
        ]
        if len(own_names) != 1 or not own_names[0].endswith("_id"):
            continue
        for field, value in row_records[own_names[0]].items():
            if field in row and _is_plain(value) and _is_plain(row[field]) and row[field] != value:
                return f"{field} of {row[own_names[0]]} is {value!r} in the state, yet {row[field]!r} came back."
    return ""


def find_denied_id(reason: str, states: Any) -> str:
    """Return the id that a refusal calls nonexistent, although the state has it; empty if there is none."""
    records = _map_records(states if isinstance(states, dict) else {})
    return next((found[1] for found in _DENIES.finditer(reason) if found[1] in records), "")


def find_foreign_row(result: Any, arguments: Record) -> str:
    """Return a sentence on a returned row of another id than requested; empty if there is none."""
    requested_ids = {
        name: value for name, value in arguments.items() if name.endswith("_id") and isinstance(value, str)
    }
    for row in _iter_rows(result):
        for name, value in requested_ids.items():
            if isinstance(row.get(name), str) and row[name] != value:
                return f"Asked for {name} {value}, a row of {row[name]} came back."
    return ""


def _map_records(states: Record) -> dict[str, Record]:
    """Return the shown records after the call, by id; ids that two collections use are omitted."""
    by_id: dict[str, Record] = {}
    twice: set[str] = set()
    before, after = states.get("before"), states.get("after")
    for name, part in before.items() if isinstance(before, dict) else ():
        changed = after.get(name) if isinstance(after, dict) else None
        current = {**part, **(changed if isinstance(changed, dict) else {})} if isinstance(part, dict) else {}
        for key, record in current.items():
            twice |= {key} & by_id.keys()
            by_id[key] = record
    return {key: record for key, record in by_id.items() if isinstance(record, dict) and key not in twice}


def _iter_rows(value: Any) -> Iterator[Record]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from _iter_rows(part)


def _is_plain(value: Any) -> bool:
    return value is None or (isinstance(value, str | int | float) and CUT not in str(value))
