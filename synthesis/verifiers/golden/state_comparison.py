"""The comparison of an end state with the golden one, and the places in which they differ.

An end is equal if and only if, in normal form and with the golden state's ids, it is the golden state in normal form.
The description of a difference never decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from synthesis.contracts import OutsideChange, State
from synthesis.contracts.verifier_kinds import GoldenVerifier
from synthesis.runtime import is_same_encoded
from synthesis.verifiers.frame import MOST_TOLD, PATH_CHARS
from synthesis.verifiers.frames.framed_end import format_shown_value
from synthesis.verifiers.frames.pinned_values import NO_NAMES, Names, get_value
from synthesis.verifiers.golden.id_bijection import match_ids
from synthesis.verifiers.golden.normal_form import TOKEN, NormalForm, rename_ids
from synthesis.verifiers.state_changes import Keys, StateChange, find_state_changes, format_path


class GoldenState:
    """A golden state with which ends of one task are compared."""

    def __init__(self, golden: GoldenVerifier, start: State) -> None:
        self._golden, self._start = golden, start
        self._form = NormalForm(start, golden.state, golden.volatile)
        self._normal = self._form.normalize(golden.state)
        self._right = _rename_state_ids(self._normal.state, NO_NAMES, self._normal.tails, start)
        self._added = {
            (*change.keys, key)
            for change in find_state_changes(start, golden.state)
            if change.kind == "added"
            for key, _ in change.items
        }

    def differences(self, end: State) -> tuple[OutsideChange, ...]:
        """Return the differences of an end from the golden state, `MOST_TOLD` at most; empty if and only if it equals
        it."""
        if self._golden.equality == "plain":
            return self._list_differences(self._golden.state, end)
        if is_same_encoded(self._golden.state, end):
            return ()
        normal = self._form.normalize(end)
        names = _build_unique_names(match_ids(self._start, self._normal, normal), self._normal.ids, normal.ids)
        return self._list_differences(self._right, _rename_state_ids(normal.state, names, normal.tails, self._start))

    def _list_differences(self, right: State, end: State) -> tuple[OutsideChange, ...]:
        if is_same_encoded(right, end):
            return ()
        differences: list[OutsideChange] = []
        for change in find_state_changes(right, end):
            differences += self._describe_change(change)
            if len(differences) >= MOST_TOLD:
                break
        return tuple(differences[:MOST_TOLD]) or tuple(self._whole(right, end))

    def _describe_change(self, change: StateChange) -> Iterator[OutsideChange]:
        path = self._path(change.keys)
        if change.kind == "changed":
            words = {"expected": _format_shown(change.old), "found": _format_shown(change.new)}
            yield OutsideChange(path=path, kind="value", **words)
        elif change.kind == "removed":
            # The golden state has it: a record that was added to it, or one that existed before.
            missing = sum(not key or self._is_added((*change.keys, key)) for key, _ in change.items)
            if missing:
                yield OutsideChange(path=path, kind="missing", count=missing)
            if missing < change.count:
                yield OutsideChange(path=path, kind="removed", count=change.count - missing)
        elif change.kind == "added":
            yield OutsideChange(path=path, kind="added", count=change.count)
        else:
            yield OutsideChange(path=path, kind="reordered")

    def _is_added(self, keys: Keys) -> bool:
        return (*keys[:-1], _strip_token(keys[-1])) in self._added

    def _path(self, keys: Keys) -> str:
        """Return a path as frames spell it: `+` for a record that was to be added."""
        parts = []
        for length, key in enumerate(keys, 1):
            is_new = (*map(_strip_token, keys[: length - 1]), _strip_token(key)) in self._added
            parts.append("/+" if is_new else format_path((_strip_token(key),)))
        return "".join(parts)[:PATH_CHARS]

    def _whole(self, right: State, end: State) -> Iterator[OutsideChange]:
        """Yield differences that are no change of records, such as another class of an object."""
        for key in {**right, **end}:
            one, other = get_value(right, (key,)), get_value(end, (key,))
            if not is_same_encoded(one, other):
                words = {"expected": _format_shown(one), "found": _format_shown(other)}
                yield OutsideChange(path=format_path((key,))[:PATH_CHARS], kind="value", **words)


class _LastGolden:
    """The golden state that was used last: many ends are compared with one."""

    def __init__(self) -> None:
        self._last: tuple[GoldenVerifier, State, GoldenState] | None = None

    def prepare(self, golden: GoldenVerifier, start: State) -> GoldenState:
        """Return the golden state ready for comparisons. Neither it nor the start may be changed afterwards."""
        last = self._last
        if last is None or last[0] is not golden or last[1] is not start:
            last = self._last = golden, start, GoldenState(golden, start)
        return last[2]


_prepared = _LastGolden().prepare


def golden_differences(golden: GoldenVerifier, start: State, end: State) -> tuple[OutsideChange, ...]:
    """Return the differences of an end state from the golden one, `MOST_TOLD` at most; empty if and only if it equals
    it.

    `start` is the state that both come from: it determines which records were added. All are encoded.
    """
    return _prepared(golden, start).differences(end)


def _build_unique_names(matched: dict[str, str], right: list[Any], own: list[Any]) -> Names:
    """Return the matched ids as names.

    Every other new id of the end, and every one that the golden state alone has, gets a unique name: two things never
    get the same name.
    """
    names = {new.name: matched.get(new.name, f"{TOKEN}more{place}") for place, new in enumerate(own)}
    alone = [new.name for new in right if new.name not in names]
    return Names({**names, **{name: f"{TOKEN}alone{place}" for place, name in enumerate(alone)}})


def _rename_state_ids(state: State, names: Names, tails: dict[int, int], start: State) -> State:
    made: State = rename_ids(state, names, tails, start)
    return made


def _strip_token(key: str) -> str:
    """Return the key that a token denotes."""
    return key.partition(":")[2] if key[:1] == TOKEN and ":" in key else key


def _format_shown(value: Any) -> str:
    return format_shown_value(_to_readable(value)).replace(TOKEN, "")


def _to_readable(value: Any) -> Any:
    """Return a value in normal form with its roles and ids in words."""
    if isinstance(value, str):
        return _strip_token(value)
    if isinstance(value, list):
        return [_to_readable(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and "$volatile" in value:
        return f"any {value['$volatile'][0]}"
    return {_strip_token(key): _to_readable(item) for key, item in value.items()}


__all__ = ["GoldenState", "golden_differences"]
