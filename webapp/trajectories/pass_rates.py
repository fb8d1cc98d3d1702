"""Pass rates of a task: pass@k over its judged attempts, in whole and by policy and setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import comb

from django.db.models import Avg, Count, Q, QuerySet

from webapp.trajectories.models import Trajectory
from webapp.trajectories.totals import SCORED

KS = (1, 2, 3, 4, 8, 16, 32)
"""The k that pages show, where there are attempts for them (ours)."""


def pass_at(solved: int, tried: int, ks: Iterable[int] = KS) -> list[tuple[int, float]]:
    """(k, unbiased pass@k) for each k that there are attempts for: 1 - C(n-c, k) / C(n, k)."""
    return [(k, 1 - comb(tried - solved, k) / comb(tried, k)) for k in ks if 0 < k <= tried]


@dataclass(frozen=True)
class PassRate:
    """Attempts at a task's revision that are alike. `tried` are judged; those that something of ours or the simulated
    user spoilt, or somebody stopped, are `uncounted`."""

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
        return pass_at(self.solved, self.tried)


@dataclass(frozen=True)
class PassRates:
    """Of one revision: by policy and setting, and all together."""

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
        return pass_at(self.solved, self.tried)


def pass_rates(revision: int) -> PassRates:
    """Of the attempts at a revision that are over, in one query."""
    rows = Trajectory.objects.filter(revision=revision, live=False).order_by("policy", "conversational")
    counted = rows.values_list("policy", "conversational").annotate(
        tried=Count("pk", filter=SCORED),
        solved=Count("pk", filter=SCORED & Q(outcome="solved")),
        uncounted=Count("pk", filter=~SCORED),
        mean=Avg("reward", filter=SCORED),
        calls=Avg("call_count", filter=SCORED),
    )
    return PassRates([PassRate(*line) for line in counted])


def mean_pass_at(attempts: QuerySet[Trajectory]) -> dict[str, float]:
    """Mean of pass@k over the tasks of these attempts, by k up to the most that each of the tasks was tried.

    A task that nobody could be judged at has no part in it.
    """
    judged = attempts.filter(SCORED).order_by().values("revision")
    counted = judged.annotate(tried=Count("pk"), solved=Count("pk", filter=Q(outcome="solved")))
    return mean_of([(row["solved"], row["tried"]) for row in counted])


def mean_of(counts: list[tuple[int, int]]) -> dict[str, float]:
    """As `mean_pass_at`, of (solved, tried) by task."""
    least = min((tried for _, tried in counts), default=0)
    sums: Counter[int] = Counter()
    for solved, tried in counts:
        sums.update(dict(pass_at(solved, tried, range(1, least + 1))))
    return {str(k): round(sums[k] / len(counts), 6) for k in range(1, least + 1)}
