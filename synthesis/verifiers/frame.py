"""The frame of a task: what a right way to do it may change in the state. Any other change breaks the task.

It follows from the executed reference: the fields that it changes of existing records, and how many records it adds to
and removes from each collection. What stands in these fields and in new records is for checks to judge. The author,
other solved runs and people widen it, each with a reason. Compared on the host; programs and checks never see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from synthesis.contracts import Allowance, AllowanceSource, Frame, OutsideChange, State
from synthesis.errors import InputError
from synthesis.verifiers.state_changes import Keys, StateChange, path_of, state_changes

MOST_TOLD = 20
"""So many changes outside a frame are named."""
PATH_CHARS = 300
ENDS = {"added": "+", "removed": "-", "reordered": "#"}
_COUNTING = frozenset({"next", "last", "new", "counter", "counters", "count", "counts", "seq", "sequence", "serial"})
_COUNTING |= {"id", "ids", "number", "numbers", "no", "index"}


def frame_of(start: State, end: State) -> Frame:
    """The frame that an executed reference spans: exactly the changes that it made. States are encoded.

    Raises InputError where it changes more than a frame can hold, or the names of fields are too long for one.
    """
    try:
        return Frame(allowances=tuple(_allowance(change) for change in state_changes(start, end)))
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise InputError(f"No frame can be made of what the reference changes: {reason}"[:500]) from None


def widen(frame: Frame, more: Iterable[Allowance]) -> Frame:
    """The frame with further allowances. One that allows nothing more than another of its place is left out."""
    kept = {allowance.path: allowance for allowance in frame.allowances}
    for allowance in more:
        known = kept.get(allowance.path)
        if known is None or _wider(allowance.most, known.most):
            kept[allowance.path] = allowance
    return Frame(allowances=tuple(kept.values()))


def widenings(
    frame: Frame, start: State, end: State, *, source: AllowanceSource, reason: str, by: str = ""
) -> tuple[Allowance, ...]:
    """What a frame would have to allow besides for another executed run to stay inside."""
    return tuple(
        _allowance(change).model_copy(update={"source": source, "reason": reason, "by": by})
        for change in _outside(frame, state_changes(start, end))
    )


def outside_changes(frame: Frame | None, start: State, end: State) -> tuple[OutsideChange, ...]:
    """What changed that the frame does not allow, `MOST_TOLD` at most; without a frame nothing is outside."""
    if frame is None:
        return ()
    found = _outside(frame, state_changes(start, end))[:MOST_TOLD]
    return tuple(
        OutsideChange(path=path_of(change.keys)[:PATH_CHARS], kind=change.kind, count=change.count) for change in found
    )


def read_place(text: str, **more: str) -> Allowance:
    """A place as it is written in one line: a path, and `most N` behind it where records are counted.

    `more` are the other fields of the allowance. Raises InputError.
    """
    path, _, most = (part.strip() for part in text.strip().partition(" most "))
    try:
        return Allowance.model_validate({"path": path, "most": int(most) if most else None, **more})
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
    except ValueError:
        reason = "behind “most” stands a whole number"
    raise InputError(f"{text[:PATH_CHARS]}: {reason}")


def spelled_place(allowance: Allowance) -> str:
    """What `read_place` reads."""
    return allowance.path if allowance.most is None else f"{allowance.path} most {allowance.most}"


def place_of(change: OutsideChange) -> str:
    """The place that would have to be allowed for a change to be inside, as `read_place` reads it."""
    end = ENDS.get(change.kind)
    if end is None:
        return change.path
    return f"{change.path}/{end}" + (f" most {change.count}" if change.kind != "reordered" else "")


def declared_free(frame: Frame | None) -> Frame:
    """Of a frame what somebody declared free without bound, so that no change there is wrong."""
    given = frame.allowances if frame is not None else ()
    return Frame(allowances=tuple(item for item in given if item.source != "reference" and item.most is None))


def frame_key(frame: Frame) -> list[list[str | int | None]]:
    """What of a frame decides rewards: its places, in a fixed order, without who allowed them and why."""
    return [[item.path, item.most] for item in sorted(frame.allowances, key=lambda item: item.path)]


def _allowance(change: StateChange) -> Allowance:
    end = ENDS.get(change.kind)
    if end is None:
        return Allowance(path=path_of(change.keys))
    most = None if change.kind == "reordered" else change.count
    return Allowance(path=f"{path_of(change.keys)}/{end}", most=most)


def _wider(most: int | None, known: int | None) -> bool:
    return known is not None and (most is None or most > known)


@dataclass
class _Places:
    """Allowances by place: exact ones at once, those with a `*` one after the other."""

    exact: dict[str, int | None] = field(default_factory=dict)
    patterns: list[tuple[list[str], int | None]] = field(default_factory=list)
    growing: set[str] = field(default_factory=set)
    """Names of the collections that records may be added to."""

    def most(self, path: str) -> int | None:
        """How many are allowed at a path: 0 where nothing says so, None for any number."""
        counts = [self.exact[path]] if path in self.exact else []
        if self.patterns:
            parts = path.split("/")
            counts += [most for pattern, most in self.patterns if _fits(pattern, parts)]
        return None if None in counts else max((count for count in counts if count is not None), default=0)

    def covers(self, keys: Keys) -> bool:
        """Whether a place, or one above it, is allowed whole."""
        return any(self.most(path_of(keys[:length])) is None for length in range(1, len(keys) + 1))


def _fits(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    if len(pattern) != len(parts):
        return False
    pairs = zip(pattern, parts, strict=True)
    return all(one == other or (one == "*" and other not in ENDS.values()) for one, other in pairs)


def _places(frame: Frame) -> _Places:
    places = _Places()
    for allowance in frame.allowances:
        parts = allowance.path.split("/")
        if "*" in parts:
            places.patterns.append((parts, allowance.most))
        else:
            places.exact[allowance.path] = allowance.most
        if parts[-1] == "+":
            places.growing |= {part for part in parts[1:-1] if part != "*"}
    return places


def _outside(frame: Frame, changes: Sequence[StateChange]) -> list[StateChange]:
    places = _places(frame)
    return [change for change in changes if not _allowed(places, change)]


def _allowed(places: _Places, change: StateChange) -> bool:
    if places.covers(change.keys):
        return True
    if change.kind == "changed":
        return change.grows and _counts(change.keys, places.growing)
    most = places.most(f"{path_of(change.keys)}/{ENDS[change.kind]}")
    return most is None or change.count <= most


def _counts(keys: Keys, growing: set[str]) -> bool:
    """Whether a number of the state itself is the counter of a collection that may grow, going by its name.

    `next_order` counts `orders`, `counters/order` too, and `next_id` whatever grows.
    """
    words = set(re.findall(r"[a-z]+", " ".join(keys).lower())) if len(keys) <= 2 else set()
    if not words & _COUNTING:
        return False
    counted = {_stem(word) for word in words - _COUNTING}
    names = {_stem(word) for name in growing for word in [name.lower(), *re.findall(r"[a-z]+", name.lower())]}
    return bool(growing) and (not counted or bool(counted & names))


def _stem(word: str) -> str:
    for end, other in (("ies", "y"), ("ses", "s"), ("xes", "x"), ("s", "")):
        if word.endswith(end) and len(word) > len(end) + 1:
            return word.removesuffix(end) + other
    return word
