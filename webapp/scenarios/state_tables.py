"""Small tables of the records that a task is about: those its reference changes or names, before and after it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import ReferenceCall, State
from synthesis.runtime import is_same_encoded
from synthesis.verifiers.state_changes import find_id_field, get_items, get_mapping, holds_records, map_by_id
from webapp.scenarios.state_tree import escape_token

MOST_TABLES, MOST_ROWS, MOST_COLUMNS = 6, 12, 6
BESIDE = 5
"""A table of fewer records of interest is filled up to so many with others, which show what they were chosen from."""
MOST_RECORDS = 20_000
"""Collections of more records are not drawn."""
CELL_CHARS = 60
FEW = 3
"""A list of more entries, or of records, is counted and not spelled."""
MISSING: Any = object()


@dataclass(frozen=True)
class StateCell:
    """One field of a record; `after` differs from `before` if `changed`."""

    before: str
    after: str
    changed: bool

    @property
    def text(self) -> str:
        return self.after or self.before


@dataclass(frozen=True)
class StateRow:
    """One record. `change` is `added`, `removed` or `changed`, and else empty."""

    pointer: str
    key: str
    change: str
    named: bool
    cells: tuple[StateCell, ...]

    @property
    def words(self) -> str:
        return self.change or ("named" if self.named else "stays")


@dataclass(frozen=True)
class StateTable:
    """A collection of the state, or its single values (`pointer` is empty). `more` counts records left out."""

    title: str
    pointer: str
    columns: tuple[str, ...]
    rows: tuple[StateRow, ...]
    more: int = 0


@dataclass(frozen=True)
class _Record:
    key: str
    before: Any
    after: Any
    named: bool

    @property
    def change(self) -> str:
        if self.before is MISSING:
            return "added"
        if self.after is MISSING:
            return "removed"
        return "" if is_same_encoded(self.before, self.after) else "changed"


def build_state_tables(before: State, after: State, calls: Sequence[ReferenceCall]) -> tuple[StateTable, ...]:
    """Return the collections in which a record changes or is named by an argument, those that change first."""
    named_texts = {text for call in calls for text in _iterate_texts(call.arguments)}
    tables: list[tuple[bool, StateTable]] = []
    single: list[_Record] = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, MISSING), after.get(name, MISSING)
        pair = _pair_collections(old, new)
        if pair is None:
            if not is_same_encoded(old, new):
                single.append(_Record(name, old, new, False))
            continue
        records = [
            _Record(key, pair[0].get(key, MISSING), pair[1].get(key, MISSING), _is_named(key, pair, named_texts))
            for key in dict.fromkeys([*pair[0], *pair[1]])
        ]
        shown_records = [record for record in records if record.change or record.named]
        if shown_records and len(records) <= MOST_RECORDS:
            tables.append(
                (
                    any(record.change for record in shown_records),
                    _build_table(name, f"/{escape_token(name)}", records, shown_records),
                )
            )
    tables.sort(key=lambda pair: not pair[0])
    shown_tables = [table for _, table in tables[:MOST_TABLES]]
    if single:
        rows = tuple(
            StateRow(f"/{escape_token(one.key)}", one.key, one.change, False, (_build_cell(one.before, one.after),))
            for one in single[:MOST_ROWS]
        )
        shown_tables.append(StateTable("single values", "", ("value",), rows, len(single) - len(rows)))
    return tuple(shown_tables)


def _pair_collections(old: Any, new: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return both sides of a collection by the key of a record; None if the attribute holds something else."""
    first, second = _index_by_key(old, new), _index_by_key(new, old)
    if first is None or second is None:
        return None
    return (
        (first, second)
        if holds_records(first, second) and any(map(get_mapping, _iterate_values(first, second)))
        else None
    )


def _index_by_key(value: Any, other: Any) -> dict[str, Any] | None:
    if value is MISSING:
        return {}
    mapping = get_mapping(value)
    if mapping is not None:
        return mapping
    items, others = get_items(value), get_items(other) if other is not MISSING else []
    if items is None:
        return None
    field = find_id_field(items) or ("" if items else find_id_field(others or []))
    return map_by_id(items, field) if field else None if items else {}


def _iterate_values(*sides: dict[str, Any]) -> Iterator[Any]:
    return (value for side in sides for value in side.values())


def _is_named(key: str, pair: tuple[dict[str, Any], dict[str, Any]], named: set[str]) -> bool:
    return key in named or any(
        str(value) in named
        for side in pair
        for field, value in (get_mapping(side.get(key)) or {}).items()
        if (field == "id" or field.endswith("_id")) and isinstance(value, str | int)
    )


def _iterate_texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _iterate_texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _iterate_texts(part)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield str(value)


def _build_table(name: str, pointer: str, records: Sequence[_Record], wanted: Sequence[_Record]) -> StateTable:
    shown_records = sorted(wanted, key=lambda record: not record.change)[:MOST_ROWS]
    keys = {record.key for record in shown_records}
    other_records = [record for record in records if record.key not in keys][: max(0, BESIDE - len(shown_records))]
    picked = keys | {record.key for record in other_records}
    lines = [record for record in records if record.key in picked]
    columns = _choose_columns(lines)
    rows = tuple(
        StateRow(
            f"{pointer}/{escape_token(record.key)}",
            _shorten_text(record.key),
            record.change,
            record.named,
            tuple(
                _build_cell(_get_field(record.before, column), _get_field(record.after, column)) for column in columns
            ),
        )
        for record in lines
    )
    return StateTable(name, pointer, columns, rows, len(records) - len(rows))


def _choose_columns(records: Iterable[_Record]) -> tuple[str, ...]:
    """Return the columns: fields that change in a remaining record first, since a narrow pane shows these; then texts
    and numbers."""
    changing: dict[str, None] = {}
    plain: dict[str, None] = {}
    other: dict[str, None] = {}
    for record in records:
        old, new = get_mapping(record.before) or {}, get_mapping(record.after) or {}
        for field in [*old, *new]:
            value = old.get(field, new.get(field))
            if str(value) == record.key:
                continue
            if record.change == "changed" and not is_same_encoded(old.get(field, MISSING), new.get(field, MISSING)):
                changing[field] = None
            (other if isinstance(value, dict | list) else plain)[field] = None
    return tuple(dict.fromkeys([*changing, *plain, *other]))[:MOST_COLUMNS]


def _get_field(record: Any, name: str) -> Any:
    mapping = get_mapping(record) if record is not MISSING else None
    return MISSING if mapping is None else mapping.get(name, MISSING)


def _build_cell(before: Any, after: Any) -> StateCell:
    changed = before is not MISSING and after is not MISSING and not is_same_encoded(before, after)
    return StateCell(_format_value(before), _format_value(after), changed)


def _format_value(value: Any) -> str:
    if value is MISSING:
        return ""
    if value is None:
        return "none"
    entries = get_items(value)
    if entries is not None and (len(entries) > FEW or not all(isinstance(one, str | int) for one in entries)):
        return "1 entry" if len(entries) == 1 else f"{len(entries):,} entries"
    return _shorten_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _shorten_text(text: str) -> str:
    return text if len(text) <= CELL_CHARS else f"{text[: CELL_CHARS - 1]}…"
