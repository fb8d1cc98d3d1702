"""Pass rates over tasks with intervals that treat a task's attempts as alike."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.runs.evaluations.statistics import compute_wilson_interval


@dataclass(frozen=True)
class ClusteredRate:
    """Judged attempts at tasks: sums over the tried tasks of `tried` (n), `solved` (s), and of their products, from
    which the spread between tasks follows."""

    tasks: int = 0
    tried_tasks: int = 0
    tried: int = 0
    solved: int = 0
    tried_squared: int = 0
    solved_squared: int = 0
    crossed: int = 0

    def __add__(self, other: ClusteredRate) -> ClusteredRate:
        mine, theirs = vars(self), vars(other)
        return ClusteredRate(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def rate(self) -> float | None:
        return self.solved / self.tried if self.tried else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the rate: Wilson's, for the effective number of attempts.

        Attempts at one task are alike. Their design effect is the variance of the ratio over tasks against that of
        independent attempts, and at least 1. If all attempts agree it cannot be estimated, and a task counts once. None
        with attempts at fewer than two tasks.
        """
        rate, tasks = self.rate, self.tried_tasks
        if rate is None or tasks < 2:
            return None
        worth = float(tasks)
        if 0 < rate < 1:
            squares = self.solved_squared - 2 * rate * self.crossed + rate**2 * self.tried_squared
            variance = tasks / (tasks - 1) * max(squares, 0.0) / self.tried**2
            effect = max(1.0, variance / (rate * (1 - rate) / self.tried))
            worth = self.tried / effect
        return compute_wilson_interval(rate * worth, worth)
