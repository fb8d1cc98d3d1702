"""Mean, median and distribution of many numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count as from_number
from statistics import fmean, median

BINS = 12


@dataclass(frozen=True)
class Bin:
    """Number of values from `low` to `high`, both included. `share` is relative to the fullest bin, from 0 to 100.

    `url` lists them, if a list can.
    """

    low: int
    high: int
    count: int
    share: float
    url: str = ""

    @property
    def label(self) -> str:
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,}\u2013{self.high:,}"


@dataclass(frozen=True)
class Spread:
    """Summary of `count` numbers. There is none of no number at all: what was not measured is absent, not 0."""

    count: int
    mean: float
    median: float
    low: int
    high: int
    bins: list[Bin]


def compute_spread(numbers: Iterable[int]) -> Spread | None:
    values = list(numbers)
    if not values:
        return None
    return Spread(len(values), fmean(values), float(median(values)), min(values), max(values), build_bins(values))


def build_bins(numbers: Iterable[int], at_most: int = BINS) -> list[Bin]:
    """Return at most `at_most` bins (and one more if the first begins lower) of equal, round width, with the empty ones
    between.

    Widths are 1, 2, 5, 10, 20, 50 and so on, and every bin begins at a multiple of its width.
    """
    counted = Counter(numbers)
    low, high = min(counted), max(counted)
    width = next(step for step in _iterate_widths() if (high - low) // step < at_most)
    grouped: Counter[int] = Counter()
    for number, times in counted.items():
        grouped[number // width] += times
    most = max(grouped.values())
    places = range(low // width, high // width + 1)
    return [Bin(at * width, at * width + width - 1, grouped[at], 100 * grouped[at] / most) for at in places]


def add_bin_links(found: Iterable[Bin], url_of: Callable[[Bin], str]) -> list[Bin]:
    """Return the same bins, each that is not empty with its address."""
    return [replace(one, url=url_of(one)) if one.count else one for one in found]


def _iterate_widths() -> Iterable[int]:
    return (round_one * 10**power for power in from_number() for round_one in (1, 2, 5))
