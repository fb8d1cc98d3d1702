"""Pass rates of a task: pass@k over its judged attempts, in total and by policy and setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import comb

from django.db.models import Avg, Count, Q, QuerySet

from webapp.trajectories.models import Trajectory
from webapp.trajectories.totals import SCORED

KS = (1, 2, 3, 4, 8, 10, 16, 32)
"""The k that pages show, if there are attempts for them; 10 is Agent-World's (Figure 4 f), the others are ours."""


def compute_pass_at(solved: int, tried: int, ks: Iterable[int] = KS) -> list[tuple[int, float]]:
    """Return (k, unbiased pass@k) for each k with enough attempts: 1 - C(n-c, k) / C(n, k)."""
    return [(k, 1 - comb(tried - solved, k) / comb(tried, k)) for k in ks if 0 < k <= tried]


@dataclass(frozen=True)
class PassRate:
    """Attempts of one kind at a task's revision. `tried` are judged; those that this site or the simulated user spoilt,
    or that a person stopped, are `uncounted`."""

    policy: str
    conversational: bool
    tried: int
    solved: int
    uncounted: int
    reward: float | None
    """The mean of those that have one."""
    calls: float | None

    @property
    def at(self) -> list[tuple[int, float]]:
        return compute_pass_at(self.solved, self.tried)


@dataclass(frozen=True)
class PassRates:
    """Rates of one revision: by policy and setting, and in total."""

    lines: list[PassRate]

    @property
    def tried(self) -> int:
        return sum(line.tried for line in self.lines)

    @property
    def solved(self) -> int:
        return sum(line.solved for line in self.lines)

    @property
    def uncounted(self) -> int:
        return sum(line.uncounted for line in self.lines)

    @property
    def at(self) -> list[tuple[int, float]]:
        return compute_pass_at(self.solved, self.tried)


def load_pass_rates(revision: int) -> PassRates:
    """Return the rates of the ended attempts at a revision, in one query."""
    rows = Trajectory.objects.filter(revision=revision, live=False).order_by("policy", "conversational")
    counted = rows.values_list("policy", "conversational").annotate(
        tried=Count("pk", filter=SCORED),
        solved=Count("pk", filter=SCORED & Q(outcome="solved")),
        uncounted=Count("pk", filter=~SCORED),
        mean=Avg("reward", filter=SCORED),
        calls=Avg("call_count", filter=SCORED),
    )
    return PassRates([PassRate(*line) for line in counted])


def compute_mean_pass_at(attempts: QuerySet[Trajectory]) -> dict[str, float]:
    """Return the mean of pass@k over the tasks of these attempts, by k up to the smallest number of tries of a task.

    A task without a judged attempt is left out.
    """
    judged = attempts.filter(SCORED).order_by().values("revision")
    counted = judged.annotate(tried=Count("pk"), solved=Count("pk", filter=Q(outcome="solved")))
    return average_pass_at([(row["solved"], row["tried"]) for row in counted])


def average_pass_at(counts: list[tuple[int, int]]) -> dict[str, float]:
    """Return the same as `compute_mean_pass_at`, from (solved, tried) by task."""
    least = min((tried for _, tried in counts), default=0)
    sums: Counter[int] = Counter()
    for solved, tried in counts:
        sums.update(dict(compute_pass_at(solved, tried, range(1, least + 1))))
    return {str(k): round(sums[k] / len(counts), 6) for k in range(1, least + 1)}
