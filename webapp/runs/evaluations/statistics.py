"""Statistics of evaluations: means over tasks with 95 % intervals, max@k, and shares of tasks.

Attempts at one task are alike, so the unit is the task: a number is the mean over tasks of what each task gives, and
its interval comes of drawing tasks anew (percentile bootstrap, 2,000 draws, the same ones for the same numbers). Where
every task gave 0, or every one 1, there is nothing to draw from: Wilson's interval for as many tasks bounds it instead,
as it does shares of tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from synthesis.contracts import Frozen
from webapp.runs.comparison.intervals import student

if TYPE_CHECKING:
    import numpy as np

DRAWS = 2_000
CELLS = 1_000_000
"""Draws times tasks that are in memory together."""
LEVEL = 0.95
Z = 1.959963984540054
"""The normal deviate of that level."""
IntervalMethod = Literal["bootstrap", "wilson", "none"]


class Estimate(Frozen):
    """A number over `tasks` tasks, and its 95 % interval; none where a single task says nothing about others."""

    value: float
    low: float | None
    high: float | None
    tasks: int
    interval: IntervalMethod


def mean_over_tasks(values: Sequence[float], *, bounded: bool = True) -> Estimate | None:
    """The mean of one number a task, with its interval. None without a task."""
    return means_over_tasks([values], bounded=bounded)[0]


def means_over_tasks(columns: Sequence[Sequence[float]], *, bounded: bool = True) -> list[Estimate | None]:
    """As `mean_over_tasks` of several numbers. `bounded`: they lie within 0 and 1, as rewards and shares do; others
    have no interval where all tasks gave the same."""
    # A process that shows no results need not hold it.
    import numpy as np

    drawn: dict[int, tuple[np.ndarray, dict[int, int]]] = {}
    for length in {len(column) for column in columns if len(column) > 1}:
        places = [place for place, column in enumerate(columns) if len(column) == length]
        means = _drawn_means(np.array([columns[place] for place in places], dtype=float))
        drawn[length] = means, {place: number for number, place in enumerate(places)}
    estimates: list[Estimate | None] = []
    for place, column in enumerate(columns):
        if len(column) < 2:
            estimates.append(_without(column) if column else None)
            continue
        means, numbers = drawn[len(column)]
        estimates.append(_estimate(column, means[:, numbers[place]], bounded))
    return estimates


def _without(column: Sequence[float]) -> Estimate:
    return Estimate(value=_mean(column), low=None, high=None, tasks=len(column), interval="none")


def _mean(column: Sequence[float]) -> float:
    return math.fsum(column) / len(column)


def _estimate(column: Sequence[float], means: np.ndarray, bounded: bool) -> Estimate:
    import numpy as np

    value, tasks = _mean(column), len(column)
    if bounded and set(column) in ({0.0}, {1.0}):
        low, high = wilson(round(value * tasks), tasks)
        return Estimate(value=value, low=low, high=high, tasks=tasks, interval="wilson")
    if len(set(column)) == 1:
        return _without(column)
    low, high = (float(bound) for bound in np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    return Estimate(value=value, low=low, high=high, tasks=tasks, interval="bootstrap")


def _drawn_means(rows: np.ndarray) -> np.ndarray:
    """(draw, column) -> mean over tasks that were drawn with replacement; `rows` is (column, task)."""
    import numpy as np

    tasks, luck = rows.shape[1], np.random.default_rng(0)
    at_once = max(1, min(DRAWS, CELLS // tasks))
    parts = []
    for start in range(0, DRAWS, at_once):
        draws = min(at_once, DRAWS - start)
        places = luck.integers(0, tasks, size=(draws, tasks)) + np.arange(draws)[:, None] * tasks
        times = np.bincount(places.ravel(), minlength=draws * tasks).reshape(draws, tasks)
        parts.append(times @ rows.T / tasks)
    return np.concatenate(parts)


def wilson(count: float, total: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share: `count` of `total` independent tasks."""
    share, spread = count / total, Z * Z / total
    middle = (share + spread / 2) / (1 + spread)
    reach = Z / (1 + spread) * math.sqrt(share * (1 - share) / total + spread / (4 * total))
    # The ends of none and of all are exact: rounding would leave 3e-18 of them.
    return max(0.0, middle - reach) if count > 0 else 0.0, min(1.0, middle + reach) if count < total else 1.0


def bounded_mean(mean: float, tasks: float, deviation: float | None = None) -> tuple[float, float]:
    """The 95 % interval of a mean of numbers within 0 and 1, one a task, by their standard deviation (divisor n).

    It is Wilson's for as many tasks as would give shares the same variance: where all are 0 or 1 that is how many there
    are, where they lie closer together it is more. Few tasks tell little of a deviation, hence Student's t. Without a
    deviation the mean is taken for a share, the widest that it can be.
    """
    if not deviation or tasks < 2:
        return wilson(mean * tasks, tasks)
    known = tasks * mean * (1 - mean) / deviation**2 * (Z / student(round(tasks) - 1)) ** 2
    return wilson(mean * max(tasks, known), max(tasks, known))


def max_at(rewards: Sequence[float], k: int) -> float:
    """max@k: the mean of the largest of k of these rewards over all choices of k, without replacement (unbiased, as
    pass@k is); 1 <= k <= len(rewards)."""
    ordered, whole = sorted(rewards), math.comb(len(rewards), k)
    return math.fsum(
        reward * (math.comb(place, k - 1) / whole) for place, reward in enumerate(ordered) if place >= k - 1
    )
