"""Alignment of the steps of several attempts: rows of corresponding steps, by longest common subsequences."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


class Likeness(StrEnum):
    """Differences between the steps of a row, in increasing order."""

    SAME = "same"
    WORDS = "words"
    RESULT = "result"
    STATE = "state"
    ARGUMENTS = "arguments"
    MISSING = "missing"


@dataclass(frozen=True)
class ComparedStep:
    """The data of a step that alignment needs: `said` identifies its arguments or its text, the rest its outcome.

    `said`, `result` and `change` are the values or digests of them; `tool` is empty for a message. A call of the
    simulated user (`by`) corresponds to none of the agent's.
    """

    index: int
    kind: str
    tool: str = ""
    said: str = ""
    result: str = ""
    change: str = ""
    by: str = "agent"

    @property
    def exact(self) -> tuple[str, str, str]:
        return (*self.rough, self.said)

    @property
    def rough(self) -> tuple[str, str]:
        return (f"call by {self.by}", self.tool) if self.tool else (self.kind, "")


@dataclass(frozen=True)
class AlignedRow:
    """One step of each attempt, None if an attempt has no such step."""

    steps: tuple[ComparedStep | None, ...]

    @property
    def there(self) -> list[ComparedStep]:
        return [step for step in self.steps if step is not None]

    @property
    def calls(self) -> bool:
        return any(step.tool for step in self.there)

    @property
    def likeness(self) -> Likeness:
        """The greatest difference of the row's steps."""
        there = self.there
        if len(there) < len(self.steps):
            return Likeness.MISSING
        if len({step.exact for step in there}) > 1:
            return Likeness.ARGUMENTS if self.calls else Likeness.WORDS
        if len({step.result for step in there}) > 1:
            return Likeness.RESULT
        return Likeness.STATE if len({step.change for step in there}) > 1 else Likeness.SAME


def align_steps(attempts: Sequence[Sequence[ComparedStep]]) -> list[AlignedRow]:
    """Return rows of the steps of attempts, in the order of each: one attempt after the other is merged into the rows
    so far.

    Equal steps (tool and arguments, or text) are matched first, as many as possible; between those, steps of the same
    tool or kind; each remaining step has a row of its own.
    """
    rows: list[list[ComparedStep | None]] = [[step] for step in attempts[0]] if attempts else []
    for number, attempt in enumerate(attempts[1:], start=1):
        rows = _merge_attempt(rows, attempt, number)
    return [AlignedRow(tuple(row)) for row in rows]


def _merge_attempt(
    rows: list[list[ComparedStep | None]], attempt: Sequence[ComparedStep], number: int
) -> list[list[ComparedStep | None]]:
    exact = [{step.exact for step in row if step} for row in rows]
    rough = [{step.rough for step in row if step} for row in rows]
    pairs = find_common_subsequence(exact, [step.exact for step in attempt])
    merged: list[list[ComparedStep | None]] = []
    row_from = step_from = 0
    for row_at, step_at in [*pairs, (len(rows), len(attempt))]:
        between = find_common_subsequence(rough[row_from:row_at], [step.rough for step in attempt[step_from:step_at]])
        near = [(row_from + left, step_from + right) for left, right in between]
        for left, right in [*near, (row_at, step_at)]:
            merged += [[*row, None] for row in rows[row_from:left]]
            merged += [[*[None] * number, step] for step in attempt[step_from:right]]
            if left < len(rows) and right < len(attempt):
                merged.append([*rows[left], attempt[right]])
            row_from, step_from = left + 1, right + 1
    return merged


def find_common_subsequence(left: Sequence[AbstractSet[Key]], right: Sequence[Key]) -> list[tuple[int, int]]:
    """Return (place in `left`, place in `right`) of a longest common subsequence; a set of `left` matches any of its
    keys.

    A common beginning is taken as it is. The rest is found with one long integer for every key of `right`, whose bits
    are the places of `left` (Hyyrö's bit-parallel algorithm): thousands of equal calls cost no more than others.
    """
    start = 0
    while start < min(len(left), len(right)) and right[start] in left[start]:
        start += 1
    pairs = [(place, place) for place in range(start)]
    return pairs + [(start + one, start + two) for one, two in _find_subsequence(left[start:], right[start:])]


def _find_subsequence(left: Sequence[AbstractSet[Key]], right: Sequence[Key]) -> list[tuple[int, int]]:
    places: dict[Key, int] = {}
    for place, keys in enumerate(left):
        for key in keys:
            places[key] = places.get(key, 0) | 1 << place
    every = (1 << len(left)) - 1
    vector, vectors = every, []
    for key in right:
        hits = vector & places.get(key, 0)
        vector = ((vector + hits) | (vector - hits)) & every
        vectors.append(vector)
    pairs = []
    left_end, right_end = len(left), len(right)
    while left_end and right_end:
        bit = 1 << (left_end - 1)
        if vectors[right_end - 1] & bit:
            left_end -= 1
            continue
        right_end -= 1
        if not right_end or vectors[right_end - 1] & bit:
            left_end -= 1
            pairs.append((left_end, right_end))
    return pairs[::-1]


def group_stretches(rows: Sequence[AlignedRow]) -> Iterator[list[AlignedRow]]:
    """Yield the rows, with consecutive equal ones as one list; every other row alone."""
    run: list[AlignedRow] = []
    for row in rows:
        if row.likeness == Likeness.SAME:
            run.append(row)
            continue
        if run:
            yield run
        run = []
        yield [row]
    if run:
        yield run
