"""Solve rates of a batch's tasks: the only module that knows where attempts at a task are counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from django.db.models import Avg, Count, Q

from webapp.batches.models import AttemptRole, BatchAttempt

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


def compute_solve_rates(batch: int) -> SolveRates:
    """Return the solve rates of the attempts that teachers made, kept and rejected ones; solvers' attempts were tries
    at a reference."""
    attempts = BatchAttempt.objects.filter(item__batch_id=batch, role=AttemptRole.TEACHER, trajectory__isnull=False)
    solved = Q(trajectory__outcome="solved")
    by_task = attempts.order_by().values("item__parent").annotate(tried=Count("pk"), won=Count("pk", filter=solved))
    by_pair = Counter((row["tried"], row["won"]) for row in by_task.iterator(chunk_size=5_000))
    histogram: Counter[int] = Counter()
    for (tried, won), tasks in by_pair.items():
        histogram[TENTHS * won // tried] += tasks
    return SolveRates(
        tasks=sum(by_pair.values()),
        attempts=sum(tried * tasks for (tried, _), tasks in by_pair.items()),
        solved=sum(won * tasks for (_, won), tasks in by_pair.items()),
        histogram={tenth: histogram[tenth] for tenth in range(TENTHS + 1)},
        **attempts.aggregate(
            mean_reward=Avg("trajectory__reward", filter=Q(trajectory__conversational=False)),
            mean_reward_talk=Avg("trajectory__reward", filter=Q(trajectory__conversational=True)),
        ),
    )
