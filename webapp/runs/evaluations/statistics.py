"""Statistics of evaluations: means over tasks with 95 % intervals, max@k, and shares of tasks.

Attempts at one task are alike, so the unit is the task: a number is the mean over tasks of what each task gives, and
its interval comes of drawing tasks anew (percentile bootstrap, 2,000 draws, the same ones for the same numbers). If
every task gave 0, or every one 1, there is nothing to draw from: Wilson's interval for as many tasks bounds it instead,
as it does shares of tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from synthesis.contracts import Frozen
from webapp.runs.comparison.intervals import get_t_quantile

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
    """Number over `tasks` tasks, and its 95 % interval; none if a single task says nothing about others."""

    value: float
    low: float | None
    high: float | None
    tasks: int
    interval: IntervalMethod


def estimate_mean_over_tasks(values: Sequence[float], *, bounded: bool = True) -> Estimate | None:
    """Return the mean of one number a task, with its interval. None without a task."""
    return estimate_means_over_tasks([values], bounded=bounded)[0]


def estimate_means_over_tasks(columns: Sequence[Sequence[float]], *, bounded: bool = True) -> list[Estimate | None]:
    """Return estimates of several numbers, each as `estimate_mean_over_tasks`. `bounded`: they lie within 0 and 1, as
    rewards and shares do; others have no interval if all tasks gave the same."""
    # Imported here: processes that show no results do not load it.
    import numpy as np

    drawn: dict[int, tuple[np.ndarray, dict[int, int]]] = {}
    for length in {len(column) for column in columns if len(column) > 1}:
        places = [place for place, column in enumerate(columns) if len(column) == length]
        means = _bootstrap_means(np.array([columns[place] for place in places], dtype=float))
        drawn[length] = means, {place: number for number, place in enumerate(places)}
    estimates: list[Estimate | None] = []
    for place, column in enumerate(columns):
        if len(column) < 2:
            estimates.append(_estimate_without_interval(column) if column else None)
            continue
        means, numbers = drawn[len(column)]
        estimates.append(_estimate_interval(column, means[:, numbers[place]], bounded))
    return estimates


def _estimate_without_interval(column: Sequence[float]) -> Estimate:
    return Estimate(value=_compute_mean(column), low=None, high=None, tasks=len(column), interval="none")


def _compute_mean(column: Sequence[float]) -> float:
    return math.fsum(column) / len(column)


def _estimate_interval(column: Sequence[float], means: np.ndarray, bounded: bool) -> Estimate:
    import numpy as np

    value, tasks = _compute_mean(column), len(column)
    if bounded and set(column) in ({0.0}, {1.0}):
        low, high = compute_wilson_interval(round(value * tasks), tasks)
        return Estimate(value=value, low=low, high=high, tasks=tasks, interval="wilson")
    if len(set(column)) == 1:
        return _estimate_without_interval(column)
    low, high = (float(bound) for bound in np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    return Estimate(value=value, low=low, high=high, tasks=tasks, interval="bootstrap")


def _bootstrap_means(rows: np.ndarray) -> np.ndarray:
    """Return (draw, column) -> mean over tasks that were drawn with replacement; `rows` is (column, task)."""
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


def compute_wilson_interval(count: float, total: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share: `count` of `total` independent tasks."""
    share, spread = count / total, Z * Z / total
    middle = (share + spread / 2) / (1 + spread)
    reach = Z / (1 + spread) * math.sqrt(share * (1 - share) / total + spread / (4 * total))
    # The ends of none and of all are exact: rounding would leave 3e-18 of them.
    return max(0.0, middle - reach) if count > 0 else 0.0, min(1.0, middle + reach) if count < total else 1.0


def compute_mean_interval(mean: float, tasks: float, deviation: float | None = None) -> tuple[float, float]:
    """Return the 95 % interval of a mean of numbers within 0 and 1, one a task, by their standard deviation (divisor
    n).

    It is Wilson's for as many tasks as would give shares the same variance: if all are 0 or 1 that is the number of
    tasks, if they lie closer together it is more. The deviation of few tasks is uncertain, hence Student's t. Without a
    deviation the mean is taken for a share, the widest case.
    """
    if not deviation or tasks < 2:
        return compute_wilson_interval(mean * tasks, tasks)
    effective_tasks = tasks * mean * (1 - mean) / deviation**2 * (Z / get_t_quantile(round(tasks) - 1)) ** 2
    return compute_wilson_interval(mean * max(tasks, effective_tasks), max(tasks, effective_tasks))


def compute_max_at_k(rewards: Sequence[float], k: int) -> float:
    """Return max@k: the mean of the largest of k of these rewards over all choices of k, without replacement (unbiased,
    as pass@k is); 1 <= k <= len(rewards)."""
    ordered, whole = sorted(rewards), math.comb(len(rewards), k)
    return math.fsum(
        reward * (math.comb(place, k - 1) / whole) for place, reward in enumerate(ordered) if place >= k - 1
    )
