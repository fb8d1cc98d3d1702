"""Solve rates of a batch's tasks: the one place that knows where attempts at a task are counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Avg, Count, Q

from synthesis.contracts import SOLVED_AT
from webapp.batches.models import BatchItem, ItemState

ATTEMPTED = (ItemState.KEPT, ItemState.REJECTED)
TENTHS = 10


@dataclass
class SolveRates:
    """Attempts at kept tasks. `histogram` counts tasks by the tenth (0 to 10) of their attempts that solved them."""

    tasks: int = 0
    attempts: int = 0
    solved: int = 0
    histogram: dict[int, int] = field(default_factory=dict)
    mean_reward: float | None = None
    mean_reward_talk: float | None = None


def solve_rates(batch: int) -> SolveRates:
    """From the attempts that teachers made, kept and rejected ones: those of solvers are not stored."""
    rows = BatchItem.objects.filter(batch_id=batch, level="trajectory", state__in=ATTEMPTED)
    solved = Q(product__trajectory__outcome="solved") | Q(attempt__outcome="solved")
    known = rows.filter(Q(product__trajectory__isnull=False) | Q(attempt__isnull=False))
    by_task = known.order_by().values("parent").annotate(tried=Count("pk"), won=Count("pk", filter=solved))
    by_pair = Counter((row["tried"], row["won"]) for row in by_task.iterator(chunk_size=5_000))
    histogram: Counter[int] = Counter()
    for (tried, won), tasks in by_pair.items():
        histogram[int(TENTHS * won / tried + SOLVED_AT - 1 + 1e-9)] += tasks
    return SolveRates(
        tasks=sum(by_pair.values()),
        attempts=sum(tried * tasks for (tried, _), tasks in by_pair.items()),
        solved=sum(won * tasks for (_, won), tasks in by_pair.items()),
        histogram={tenth: histogram[tenth] for tenth in range(TENTHS + 1)},
        **_rewards(known),
    )


def _rewards(known: Any) -> dict[str, float | None]:
    """Mean rewards by setting; `talk-…` are the conversations."""
    means: dict[str, float | None] = {}
    for name, prefix in (("mean_reward", "/work-"), ("mean_reward_talk", "/talk-")):
        rows = known.filter(path__contains=prefix)
        sums = rows.aggregate(
            kept=Avg("product__trajectory__reward"),
            kept_count=Count("product__trajectory__reward"),
            left=Avg("attempt__reward"),
            left_count=Count("attempt__reward"),
        )
        count = sums["kept_count"] + sums["left_count"]
        total = (sums["kept"] or 0.0) * sums["kept_count"] + (sums["left"] or 0.0) * sums["left_count"]
        means[name] = total / count if count else None
    return means
