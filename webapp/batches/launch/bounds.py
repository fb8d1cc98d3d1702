"""Bounds of figures that are estimated: a low and a high end."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 2.0
"""Standard deviations to either end: nineteen of twenty figures lie between, were they spread as chance spreads."""
LEAST_SPREAD = 0.2
"""Of a mean: figures seen so far that are all the same do not promise that the next one is."""


@dataclass(frozen=True)
class Bounds:
    low: float
    high: float

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(self.low + other.low, self.high + other.high)

    def times(self, low: float, high: float) -> Bounds:
        return Bounds(self.low * low, self.high * high)

    def by(self, other: Bounds) -> Bounds:
        return self.times(other.low, other.high)

    def whole(self) -> Bounds:
        return Bounds(math.floor(self.low), math.ceil(self.high))


NOTHING = Bounds(0.0, 0.0)


def sum_bounds(bounds: Sequence[Bounds]) -> Bounds:
    return sum(bounds, NOTHING)


def bound_mean(figures: Sequence[float], seen: int, wanted: int, idle: int = 0) -> Bounds:
    """Return bounds of the mean over the items of `wanted` themes, given figures of items of `seen` themes.

    Items of one theme are alike, so themes count, not items. `idle` items had no such figure, which lowers the low end
    alone: the high one is for a batch of which everything is kept.
    """
    unsure = WIDTH * math.sqrt(1 / max(1, wanted) + 1 / max(1, seen))
    least, below = _get_mean_and_spread([*figures, *(0.0 for _ in range(idle))])
    most, above = _get_mean_and_spread(figures)
    return Bounds(max(0.0, least - unsure * below), most + unsure * above)


def _get_mean_and_spread(figures: Sequence[float]) -> tuple[float, float]:
    mean = statistics.fmean(figures)
    return mean, max(statistics.pstdev(figures), LEAST_SPREAD * mean)
