"""Alignment of the steps of several attempts: rows of steps that stand for the same, by longest common subsequences."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


class Likeness(StrEnum):
    """How the steps of a row differ, from not at all."""

    SAME = "same"
    WORDS = "words"
    RESULT = "result"
    STATE = "state"
    ARGUMENTS = "arguments"
    MISSING = "missing"


@dataclass(frozen=True)
class ComparedStep:
    """What alignment needs of a step: `said` stands for its arguments or its text, the rest for what came of it.

    `said`, `result` and `change` are the values or digests of them; `tool` is empty where somebody spoke. A
    call of the simulated user's (`by`) stands for none of the agent's.
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
    """One step of each attempt, None where an attempt has no such step."""

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


def aligned(attempts: Sequence[Sequence[ComparedStep]]) -> list[AlignedRow]:
    """Rows of the steps of attempts, in the order of each: one attempt after the other is put into the rows so far.

    Steps that say the same (tool and arguments, or text) meet first, as many as can; between those, steps of the same
    tool or kind; what is left has a row of its own.
    """
    rows: list[list[ComparedStep | None]] = [[step] for step in attempts[0]] if attempts else []
    for number, attempt in enumerate(attempts[1:], start=1):
        rows = _merged(rows, attempt, number)
    return [AlignedRow(tuple(row)) for row in rows]


def _merged(
    rows: list[list[ComparedStep | None]], attempt: Sequence[ComparedStep], number: int
) -> list[list[ComparedStep | None]]:
    exact = [{step.exact for step in row if step} for row in rows]
    rough = [{step.rough for step in row if step} for row in rows]
    pairs = common(exact, [step.exact for step in attempt])
    merged: list[list[ComparedStep | None]] = []
    row_from = step_from = 0
    for row_at, step_at in [*pairs, (len(rows), len(attempt))]:
        between = common(rough[row_from:row_at], [step.rough for step in attempt[step_from:step_at]])
        near = [(row_from + left, step_from + right) for left, right in between]
        for left, right in [*near, (row_at, step_at)]:
            merged += [[*row, None] for row in rows[row_from:left]]
            merged += [[*[None] * number, step] for step in attempt[step_from:right]]
            if left < len(rows) and right < len(attempt):
                merged.append([*rows[left], attempt[right]])
            row_from, step_from = left + 1, right + 1
    return merged


def common(left: Sequence[AbstractSet[Key]], right: Sequence[Key]) -> list[tuple[int, int]]:
    """(place in `left`, place in `right`) of a longest common subsequence; a set of `left` meets any of its keys.

    What both begin with is taken as it is. The rest is found with one long integer for every key of `right`, whose
    bits are the places of `left` (Hyyrö's bit-parallel algorithm): thousands of equal calls cost no more than others.
    """
    start = 0
    while start < min(len(left), len(right)) and right[start] in left[start]:
        start += 1
    found = [(place, place) for place in range(start)]
    return found + [(start + one, start + two) for one, two in _subsequence(left[start:], right[start:])]


def _subsequence(left: Sequence[AbstractSet[Key]], right: Sequence[Key]) -> list[tuple[int, int]]:
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
    one, two = len(left), len(right)
    while one and two:
        bit = 1 << (one - 1)
        if vectors[two - 1] & bit:
            one -= 1
            continue
        two -= 1
        if not two or vectors[two - 1] & bit:
            one -= 1
            pairs.append((one, two))
    return pairs[::-1]


def stretches(rows: Sequence[AlignedRow]) -> Iterator[list[AlignedRow]]:
    """The rows, those that are the same one after the other together; every other row alone."""
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
