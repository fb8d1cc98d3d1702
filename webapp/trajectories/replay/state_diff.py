"""Changes of a step in the state, with the values before: a patch has only the new ones.

A list of records that share a unique id is compared by that id, so that removing the first of a thousand records is one
change and not a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import Patch, State
from synthesis.runtime.encoding import make_patch
from webapp.scenarios.state_tree import escape_token, split_pointer
from webapp.trajectories.replay.value_text import LONG, Piece, compare_words, format_compact, format_pretty

SHOWN = 60
VALUE = 1_200
NOTHING: Any = object()


@dataclass
class StateChange:
    """One changed path. `pointer` finds it in the state after (for removed values: in the state before)."""

    op: str
    pointer: str
    old: Any = NOTHING
    new: Any = NOTHING
    names: dict[int, str] = field(default_factory=dict)
    """By depth: the id of the record at a position of a list."""
    selected: bool = False
    full: bool = False

    @property
    def trail(self) -> list[tuple[str, str, str]]:
        """(key, id of the record or nothing, pointer) from the root."""
        steps, at = [], ""
        for depth, part in enumerate(split_pointer(self.pointer)):
            at += "/" + escape_token(part)
            steps.append((part, self.names.get(depth, ""), at))
        return steps

    def _text(self, value: Any) -> str:
        text = format_pretty(value).text if not isinstance(value, str) else format_compact(value)
        most = LONG if self.full else VALUE
        return text if len(text) <= most else f"{text[:most]}…"

    @property
    def has_old(self) -> bool:
        return self.old is not NOTHING

    @property
    def has_new(self) -> bool:
        return self.new is not NOTHING

    @property
    def old_text(self) -> str:
        return self._text(self.old)

    @property
    def new_text(self) -> str:
        return self._text(self.new)

    @property
    def long(self) -> bool:
        """True if a value is cut."""
        return not self.full and any(
            value is not NOTHING and len(format_compact(value)) > VALUE for value in (self.old, self.new)
        )

    @property
    def pieces(self) -> list[Piece]:
        """Both texts merged word by word, if that reads better than two lines."""
        if not (isinstance(self.old, str) and isinstance(self.new, str)):
            return []
        if max(len(self.old), len(self.new)) < 60 or len(self.old) + len(self.new) > 2 * VALUE:
            return []
        return compare_words(self.old, self.new)


def get_value_at(state: Any, pointer: str) -> Any:
    """Return the value at a pointer, or `NOTHING`."""
    value = state
    for part in split_pointer(pointer):
        if isinstance(value, dict):
            value = value.get(part, NOTHING)
        elif isinstance(value, list) and part.isascii() and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return NOTHING
    return value


def find_id_field(rows: list[Any]) -> str:
    """Return the field whose values distinguish the records of a list; empty if there is none."""
    if not rows or not all(isinstance(row, dict) for row in rows):
        return ""
    first = rows[0]
    named = [key for key in first if key in ("id", "key", "uid", "uuid", "code", "name") or key.endswith(("_id", "Id"))]
    for key in sorted(named, key=lambda key: key != "id"):
        values = [row.get(key) for row in rows]
        if all(isinstance(value, str | int) for value in values) and len(set(values)) == len(values):
            return str(key)
    return ""


def list_changes(
    before: State, after: State, patch: Patch, selected: str = "", full: bool = False
) -> list[StateChange]:
    """Return every change of a step, in the order of the state."""
    all_changes: list[StateChange] = []
    compared_lists: set[str] = set()
    for operation in patch:
        path = operation["path"]
        keyed = _find_keyed_list(before, after, path)
        if keyed is None:
            all_changes.append(_build_change(before, after, operation))
        elif keyed[0] not in compared_lists:
            compared_lists.add(keyed[0])
            all_changes += _compare_by_id(before, after, *keyed)
    for change in all_changes:
        change.full = full
        change.selected = bool(selected) and (
            change.pointer == selected
            or change.pointer.startswith(selected + "/")
            or selected.startswith(change.pointer + "/")
        )
    return all_changes


def _build_change(before: State, after: State, operation: dict[str, Any]) -> StateChange:
    path, op = operation["path"], operation["op"]
    change = StateChange(op, path)
    if op != "add":
        change.old = get_value_at(before, path)
    if op != "remove":
        change.new = operation["value"]
    change.names = _list_record_names(before if op == "remove" else after, path)
    return change


def _list_record_names(state: State, path: str) -> dict[int, str]:
    """Return the ids of the records that a path passes."""
    names: dict[int, str] = {}
    value: Any = state
    for depth, part in enumerate(split_pointer(path)):
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
            if isinstance(value, dict):
                key = find_id_field([value])
                names[depth] = str(value[key])[:60] if key else ""
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            break
    return names


def _find_keyed_list(before: State, after: State, path: str) -> tuple[str, str] | None:
    """Return the outermost list of records on a path that changed its length, with the field that identifies them."""
    at = ""
    old, new = before, after
    for part in split_pointer(path):
        if isinstance(old, list) and isinstance(new, list):
            key = find_id_field(old) if len(old) != len(new) else ""
            return (at, key) if key and (not new or find_id_field(new) == key) else None
        if not (isinstance(old, dict) and isinstance(new, dict) and part in old and part in new):
            return None
        old, new = old[part], new[part]
        at += "/" + escape_token(part)
    return None


def _compare_by_id(before: State, after: State, pointer: str, key: str) -> Iterator[StateChange]:
    depth = len(split_pointer(pointer))
    old_rows, new_rows = get_value_at(before, pointer), get_value_at(after, pointer)
    old = {row[key]: (place, row) for place, row in enumerate(old_rows)}
    new = {row[key]: (place, row) for place, row in enumerate(new_rows)}
    for name, (place, row) in old.items():
        if name not in new:
            yield StateChange("remove", f"{pointer}/{place}", row, NOTHING, {depth: str(name)[:60]})
    for name, (place, row) in new.items():
        if name not in old:
            yield StateChange("add", f"{pointer}/{place}", NOTHING, row, {depth: str(name)[:60]})
        elif old[name][1] is not row:
            for operation in make_patch(old[name][1], row):
                path = operation["path"]
                old_value = NOTHING if operation["op"] == "add" else get_value_at(old[name][1], path)
                new_value = operation.get("value", NOTHING)
                yield StateChange(
                    operation["op"], f"{pointer}/{place}{path}", old_value, new_value, {depth: str(name)[:60]}
                )
