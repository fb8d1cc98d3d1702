"""Intervals over seeds: Student's t at 95 %, which holds for the few seeds that a person can afford."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

_T = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157)
"""The 97.5 % points of Student's t for 1 to 9 degrees of freedom."""


def get_t_quantile(freedom: int) -> float:
    """Return the 97.5 % point of Student's t, from 1 degree of freedom; above 9 by its expansion (Fisher, to 0.001)."""
    if freedom <= len(_T):
        return _T[max(0, freedom - 1)]
    return 1.959964 + 2.372271 / freedom + 2.822499 / freedom**2


@dataclass(frozen=True)
class Estimate:
    """Mean over `count` seeds and the ends of its 95 % interval; of one seed there is none."""

    mean: float
    count: int
    low: float | None = None
    high: float | None = None


Bounds = tuple[float, float]
SHARE: Bounds = (0.0, 1.0)
DIFFERENCE: Bounds = (-1.0, 1.0)
"""Where shares, and differences of two, lie."""


def estimate_mean(values: Sequence[float], within: Bounds | None = None) -> Estimate | None:
    """Return the mean of values, one a seed, with its interval clipped to `within`; None without values."""
    if not values:
        return None
    mean = fmean(values)
    if len(values) < 2:
        return Estimate(mean, 1)
    reach = get_t_quantile(len(values) - 1) * stdev(values) / sqrt(len(values))
    low, high = mean - reach, mean + reach
    if within is not None and within[0] <= mean <= within[1]:
        low, high = max(low, within[0]), min(high, within[1])
    return Estimate(mean, len(values), low, high)


def estimate_paired_difference(
    first: Mapping[int, float], second: Mapping[int, float], within: Bounds | None = None
) -> Estimate | None:
    """Return how much more the second has, over the seeds that both have; None if they share none."""
    return estimate_mean([second[seed] - first[seed] for seed in sorted(first.keys() & second.keys())], within)
