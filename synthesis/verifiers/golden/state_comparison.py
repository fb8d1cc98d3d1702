"""Whether an end state equals the golden one, and in which places it does not.

An end is equal if and only if, in normal form and told in the golden state's ids, it is the golden state in normal
form. What is told of a difference never decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from synthesis.contracts import OutsideChange, State
from synthesis.contracts.verifier_kinds import GoldenVerifier
from synthesis.runtime import same_encoded
from synthesis.verifiers.frame import MOST_TOLD, PATH_CHARS
from synthesis.verifiers.frames.framed_end import shown_value
from synthesis.verifiers.frames.pinned_values import NO_NAMES, Names, value_at
from synthesis.verifiers.golden.id_bijection import match_ids
from synthesis.verifiers.golden.normal_form import TOKEN, NormalForm, renamed
from synthesis.verifiers.state_changes import Keys, StateChange, path_of, state_changes


class GoldenState:
    """A golden state that ends of one task are held against."""

    def __init__(self, golden: GoldenVerifier, start: State) -> None:
        self._golden, self._start = golden, start
        self._form = NormalForm(start, golden.state, golden.volatile)
        self._normal = self._form.normalize(golden.state)
        self._right = _renamed_state(self._normal.state, NO_NAMES, self._normal.tails, start)
        self._added = {
            (*change.keys, key)
            for change in state_changes(start, golden.state)
            if change.kind == "added"
            for key, _ in change.items
        }

    def differences(self, end: State) -> tuple[OutsideChange, ...]:
        """In what an end differs from the golden state, `MOST_TOLD` at most; empty if and only if it equals it."""
        if self._golden.equality == "plain":
            return self._told(self._golden.state, end)
        if same_encoded(self._golden.state, end):
            return ()
        normal = self._form.normalize(end)
        names = _one_to_one(match_ids(self._start, self._normal, normal), self._normal.ids, normal.ids)
        return self._told(self._right, _renamed_state(normal.state, names, normal.tails, self._start))

    def _told(self, right: State, end: State) -> tuple[OutsideChange, ...]:
        if same_encoded(right, end):
            return ()
        found: list[OutsideChange] = []
        for change in state_changes(right, end):
            found += self._spelled(change)
            if len(found) >= MOST_TOLD:
                break
        return tuple(found[:MOST_TOLD]) or tuple(self._whole(right, end))

    def _spelled(self, change: StateChange) -> Iterator[OutsideChange]:
        path = self._path(change.keys)
        if change.kind == "changed":
            told = {"expected": _shown(change.old), "found": _shown(change.new)}
            yield OutsideChange(path=path, kind="value", **told)
        elif change.kind == "removed":
            # What the golden state has: a record that was added to it, or one that was there before.
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
        return (*keys[:-1], _bare(keys[-1])) in self._added

    def _path(self, keys: Keys) -> str:
        """A path as frames spell it: `+` for a record that was to be added."""
        parts = []
        for length, key in enumerate(keys, 1):
            is_new = (*map(_bare, keys[: length - 1]), _bare(key)) in self._added
            parts.append("/+" if is_new else path_of((_bare(key),)))
        return "".join(parts)[:PATH_CHARS]

    def _whole(self, right: State, end: State) -> Iterator[OutsideChange]:
        """Differences that no change of records tells, such as another class of an object."""
        for key in {**right, **end}:
            one, other = value_at(right, (key,)), value_at(end, (key,))
            if not same_encoded(one, other):
                told = {"expected": _shown(one), "found": _shown(other)}
                yield OutsideChange(path=path_of((key,))[:PATH_CHARS], kind="value", **told)


class _LastGolden:
    """The golden state that was asked about last: many ends are held against one."""

    def __init__(self) -> None:
        self._last: tuple[GoldenVerifier, State, GoldenState] | None = None

    def prepare(self, golden: GoldenVerifier, start: State) -> GoldenState:
        """The golden state made ready for comparisons. Neither it nor the start may be changed afterwards."""
        last = self._last
        if last is None or last[0] is not golden or last[1] is not start:
            last = self._last = golden, start, GoldenState(golden, start)
        return last[2]


_prepared = _LastGolden().prepare


def golden_differences(golden: GoldenVerifier, start: State, end: State) -> tuple[OutsideChange, ...]:
    """In what an end state differs from the golden one, `MOST_TOLD` at most; empty if and only if it equals it. `start`
    is the state that both come from: it tells which records were added. All are encoded."""
    return _prepared(golden, start).differences(end)


def _one_to_one(matched: dict[str, str], right: list[Any], own: list[Any]) -> Names:
    """The matched ids as names. Every other new id of the end, and every one that the golden state alone has, gets a
    name that stands nowhere else: two things never come to be called the same."""
    names = {new.name: matched.get(new.name, f"{TOKEN}more{place}") for place, new in enumerate(own)}
    alone = [new.name for new in right if new.name not in names]
    return Names({**names, **{name: f"{TOKEN}alone{place}" for place, name in enumerate(alone)}})


def _renamed_state(state: State, names: Names, tails: dict[int, int], start: State) -> State:
    made: State = renamed(state, names, tails, start)
    return made


def _bare(key: str) -> str:
    """The key that a token stands for."""
    return key.partition(":")[2] if key[:1] == TOKEN and ":" in key else key


def _shown(value: Any) -> str:
    return shown_value(_readable(value)).replace(TOKEN, "")


def _readable(value: Any) -> Any:
    """A value in normal form with the roles and ids that it holds in words."""
    if isinstance(value, str):
        return _bare(value)
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and "$volatile" in value:
        return f"any {value['$volatile'][0]}"
    return {_bare(key): _readable(item) for key, item in value.items()}


__all__ = ["GoldenState", "golden_differences"]
