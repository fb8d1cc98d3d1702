"""What a step changed in the state, with the values before: a patch holds the new ones only.

A list of records that share a unique id is compared by that id, so that removing the first of a thousand
records is one change and not a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import Patch, State
from synthesis.runtime.encoding import make_patch
from webapp.scenarios.state_tree import parts_of, token
from webapp.trajectories.replay.value_text import LONG, Piece, compact, pretty, words

SHOWN = 60
VALUE = 1_200
NOTHING: Any = object()


@dataclass
class StateChange:
    """One changed path. `pointer` finds it in the state after (before, for what was removed)."""

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
        for depth, part in enumerate(parts_of(self.pointer)):
            at += "/" + token(part)
            steps.append((part, self.names.get(depth, ""), at))
        return steps

    def _text(self, value: Any) -> str:
        text = pretty(value).text if not isinstance(value, str) else compact(value)
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
        """Whether a value is cut."""
        return not self.full and any(
            value is not NOTHING and len(compact(value)) > VALUE for value in (self.old, self.new)
        )

    @property
    def pieces(self) -> list[Piece]:
        """Both texts as one, word by word, where that reads better than two lines."""
        if not (isinstance(self.old, str) and isinstance(self.new, str)):
            return []
        if max(len(self.old), len(self.new)) < 60 or len(self.old) + len(self.new) > 2 * VALUE:
            return []
        return words(self.old, self.new)


def value_at(state: Any, pointer: str) -> Any:
    """The value at a pointer, or `NOTHING`."""
    value = state
    for part in parts_of(pointer):
        if isinstance(value, dict):
            value = value.get(part, NOTHING)
        elif isinstance(value, list) and part.isascii() and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return NOTHING
    return value


def id_field(rows: list[Any]) -> str:
    """The field whose values tell the records of a list apart; empty when there is none."""
    if not rows or not all(isinstance(row, dict) for row in rows):
        return ""
    first = rows[0]
    named = [key for key in first if key in ("id", "key", "uid", "uuid", "code", "name") or key.endswith(("_id", "Id"))]
    for key in sorted(named, key=lambda key: key != "id"):
        values = [row.get(key) for row in rows]
        if all(isinstance(value, str | int) for value in values) and len(set(values)) == len(values):
            return str(key)
    return ""


def changes(before: State, after: State, patch: Patch, selected: str = "", full: bool = False) -> list[StateChange]:
    """Every change of a step, in the order of the state."""
    all_changes: list[StateChange] = []
    done: set[str] = set()
    for operation in patch:
        path = operation["path"]
        keyed = _keyed_list(before, after, path)
        if keyed is None:
            all_changes.append(_plain(before, after, operation))
        elif keyed[0] not in done:
            done.add(keyed[0])
            all_changes += _by_id(before, after, *keyed)
    for change in all_changes:
        change.full = full
        change.selected = bool(selected) and (
            change.pointer == selected
            or change.pointer.startswith(selected + "/")
            or selected.startswith(change.pointer + "/")
        )
    return all_changes


def _plain(before: State, after: State, operation: dict[str, Any]) -> StateChange:
    path, op = operation["path"], operation["op"]
    change = StateChange(op, path)
    if op != "add":
        change.old = value_at(before, path)
    if op != "remove":
        change.new = operation["value"]
    change.names = _names(before if op == "remove" else after, path)
    return change


def _names(state: State, path: str) -> dict[int, str]:
    """Ids of the records that a path goes through."""
    names: dict[int, str] = {}
    value: Any = state
    for depth, part in enumerate(parts_of(path)):
        if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
            if isinstance(value, dict):
                key = id_field([value])
                names[depth] = str(value[key])[:60] if key else ""
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            break
    return names


def _keyed_list(before: State, after: State, path: str) -> tuple[str, str] | None:
    """The outermost list of records on a path that changed its length, with the field that names them."""
    at = ""
    old, new = before, after
    for part in parts_of(path):
        if isinstance(old, list) and isinstance(new, list):
            key = id_field(old) if len(old) != len(new) else ""
            return (at, key) if key and (not new or id_field(new) == key) else None
        if not (isinstance(old, dict) and isinstance(new, dict) and part in old and part in new):
            return None
        old, new = old[part], new[part]
        at += "/" + token(part)
    return None


def _by_id(before: State, after: State, pointer: str, key: str) -> Iterator[StateChange]:
    depth = len(parts_of(pointer))
    old_rows, new_rows = value_at(before, pointer), value_at(after, pointer)
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
                was = NOTHING if operation["op"] == "add" else value_at(old[name][1], path)
                now = operation.get("value", NOTHING)
                yield StateChange(operation["op"], f"{pointer}/{place}{path}", was, now, {depth: str(name)[:60]})
