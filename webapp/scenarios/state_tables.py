"""Records that a task is about, as small tables: those its reference changes or names, as it finds and leaves them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import ReferenceCall, State
from synthesis.runtime import same_encoded
from synthesis.verifiers.state_changes import by_id, holds_records, id_field, items_of, mapping_of
from webapp.scenarios.state_tree import token

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
    """One field of a record; `after` differs from `before` where `changed`."""

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
        return "" if same_encoded(self.before, self.after) else "changed"


def state_tables(before: State, after: State, calls: Sequence[ReferenceCall]) -> tuple[StateTable, ...]:
    """The collections in which a record changes or is named by an argument, those that change first."""
    named = {text for call in calls for text in _texts(call.arguments)}
    tables: list[tuple[bool, StateTable]] = []
    single: list[_Record] = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, MISSING), after.get(name, MISSING)
        pair = _collections(old, new)
        if pair is None:
            if not same_encoded(old, new):
                single.append(_Record(name, old, new, False))
            continue
        records = [
            _Record(key, pair[0].get(key, MISSING), pair[1].get(key, MISSING), _is_named(key, pair, named))
            for key in dict.fromkeys([*pair[0], *pair[1]])
        ]
        wanted = [record for record in records if record.change or record.named]
        if wanted and len(records) <= MOST_RECORDS:
            tables.append((any(record.change for record in wanted), _table(name, f"/{token(name)}", records, wanted)))
    tables.sort(key=lambda pair: not pair[0])
    found = [table for _, table in tables[:MOST_TABLES]]
    if single:
        rows = tuple(
            StateRow(f"/{token(one.key)}", one.key, one.change, False, (_cell(one.before, one.after),))
            for one in single[:MOST_ROWS]
        )
        found.append(StateTable("single values", "", ("value",), rows, len(single) - len(rows)))
    return tuple(found)


def _collections(old: Any, new: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Both sides of a collection by the key of a record; None where the attribute holds something else."""
    first, second = _by_key(old, new), _by_key(new, old)
    if first is None or second is None:
        return None
    return (first, second) if holds_records(first, second) and any(map(mapping_of, _values(first, second))) else None


def _by_key(value: Any, other: Any) -> dict[str, Any] | None:
    if value is MISSING:
        return {}
    found = mapping_of(value)
    if found is not None:
        return found
    items, others = items_of(value), items_of(other) if other is not MISSING else []
    if items is None:
        return None
    field = id_field(items) or ("" if items else id_field(others or []))
    return by_id(items, field) if field else None if items else {}


def _values(*sides: dict[str, Any]) -> Iterator[Any]:
    return (value for side in sides for value in side.values())


def _is_named(key: str, pair: tuple[dict[str, Any], dict[str, Any]], named: set[str]) -> bool:
    return key in named or any(
        str(value) in named
        for side in pair
        for field, value in (mapping_of(side.get(key)) or {}).items()
        if (field == "id" or field.endswith("_id")) and isinstance(value, str | int)
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        yield str(value)


def _table(name: str, pointer: str, records: Sequence[_Record], wanted: Sequence[_Record]) -> StateTable:
    shown = sorted(wanted, key=lambda record: not record.change)[:MOST_ROWS]
    keys = {record.key for record in shown}
    beside = [record for record in records if record.key not in keys][: max(0, BESIDE - len(shown))]
    picked = keys | {record.key for record in beside}
    lines = [record for record in records if record.key in picked]
    columns = _columns(lines)
    rows = tuple(
        StateRow(
            f"{pointer}/{token(record.key)}",
            _short(record.key),
            record.change,
            record.named,
            tuple(_cell(_field(record.before, column), _field(record.after, column)) for column in columns),
        )
        for record in lines
    )
    return StateTable(name, pointer, columns, rows, len(records) - len(rows))


def _columns(records: Iterable[_Record]) -> tuple[str, ...]:
    """Fields that change in a record that stays, since a narrow pane shows the first; then texts and numbers."""
    changing: dict[str, None] = {}
    plain: dict[str, None] = {}
    other: dict[str, None] = {}
    for record in records:
        old, new = mapping_of(record.before) or {}, mapping_of(record.after) or {}
        for field in [*old, *new]:
            value = old.get(field, new.get(field))
            if str(value) == record.key:
                continue
            if record.change == "changed" and not same_encoded(old.get(field, MISSING), new.get(field, MISSING)):
                changing[field] = None
            (other if isinstance(value, dict | list) else plain)[field] = None
    return tuple(dict.fromkeys([*changing, *plain, *other]))[:MOST_COLUMNS]


def _field(record: Any, name: str) -> Any:
    found = mapping_of(record) if record is not MISSING else None
    return MISSING if found is None else found.get(name, MISSING)


def _cell(before: Any, after: Any) -> StateCell:
    changed = before is not MISSING and after is not MISSING and not same_encoded(before, after)
    return StateCell(_spelled(before), _spelled(after), changed)


def _spelled(value: Any) -> str:
    if value is MISSING:
        return ""
    if value is None:
        return "none"
    entries = items_of(value)
    if entries is not None and (len(entries) > FEW or not all(isinstance(one, str | int) for one in entries)):
        return "1 entry" if len(entries) == 1 else f"{len(entries):,} entries"
    return _short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= CELL_CHARS else f"{text[: CELL_CHARS - 1]}…"
