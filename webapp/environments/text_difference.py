"""Differences of two texts, found within a budget, so that no text makes a page compute them for minutes.

difflib's search is quadratic, and cubic if equal lines are in another order. Once the budget is spent, the rest is
reported as replaced: still correct, but less fine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import accumulate, takewhile

STEPS = 4_000_000
"""Of the search; ten million take about a second."""
ROWS = 6_000


@dataclass
class DiffBudget:
    """The remaining budget for the differences of one page: steps of the search, and rows that are shown."""

    steps: int = STEPS
    rows: int = ROWS


class BoundedMatcher(SequenceMatcher[str]):
    """Matcher of two sequences of lines or words within a budget: first their common start and end, then the longest
    common stretches; a search that costs more than the budget is left out."""

    b2j: dict[str, list[int]]
    """Of difflib: the places of each line in the new text."""

    def __init__(self, old: Sequence[str], new: Sequence[str], budget: DiffBudget, *, autojunk: bool = True) -> None:
        super().__init__(None, old, new, autojunk)
        self._budget = budget
        self._cost = [0, *accumulate(1 + len(self.b2j.get(line, ())) for line in old)]
        begin = _count_common_start(old, new)
        end = _count_common_start(old[begin:][::-1], new[begin:][::-1])
        self._ends = [Match(0, 0, begin), Match(len(old) - end, len(new) - end, end)]
        self._ends = [match for match in self._ends if match.size]

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        """Return the longest match within these bounds; a match of size 0 once the budget is spent."""
        if self._ends:
            return self._ends.pop(0)
        cost = self._cost[len(self._cost) - 1 if ahi is None else ahi] - self._cost[alo]
        if cost > self._budget.steps:
            return Match(alo, blo, 0)
        self._budget.steps -= cost
        return super().find_longest_match(alo, ahi, blo, bhi)


def _count_common_start(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of lines that both sequences begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
