"""Intervals over seeds: Student's t at 95 %, which holds for the few seeds that a person can afford."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

_T = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157)
"""The 97.5 % points of Student's t for 1 to 9 degrees of freedom: at most ten jobs are compared."""


@dataclass(frozen=True)
class Estimate:
    """A mean over `count` seeds and the ends of its 95 % interval; of one seed there is none."""

    mean: float
    count: int
    low: float | None = None
    high: float | None = None


def estimate(values: Sequence[float]) -> Estimate | None:
    """The mean of values, one a seed, with its interval; None without values."""
    if not values:
        return None
    mean = fmean(values)
    if len(values) < 2:
        return Estimate(mean, 1)
    reach = _T[min(len(values) - 2, len(_T) - 1)] * stdev(values) / sqrt(len(values))
    return Estimate(mean, len(values), mean - reach, mean + reach)


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Estimate | None:
    """How much more the second has, over the seeds that both have; None where they share none."""
    return estimate([second[seed] - first[seed] for seed in sorted(first.keys() & second.keys())])
