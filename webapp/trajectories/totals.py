"""What a trajectory adds to its task, its environment and the tree, kept in the transaction that writes it.

before = standing(row)      # an unsaved row stands for nothing
row.save()
settle(before, row)         # last
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from django.db.models import F

from webapp.environments.totals import count
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory

NO_REWARD = ("infra_error", "cancelled")
"""Outcomes that say nothing about the agent: they have no part in a pass rate."""


@dataclass(frozen=True)
class Standing:
    task: int = 0
    environment: int = 0
    numbers: Counter[str] = field(default_factory=Counter)


def standing(row: Trajectory) -> Standing:
    """Where a stored row is counted, and as what."""
    if row.pk is None:
        return Standing()
    scored = row.reward is not None and row.outcome not in NO_REWARD
    numbers = {"trajectories": 1, "scored": int(scored), "solved": int(scored and row.outcome == "solved")}
    return Standing(row.task_id, row.environment_id, Counter(numbers))


def settle(before: Standing, row: Trajectory) -> None:
    """Count a saved row as it is now instead of as it was `before`.

    Environment, tree, task: who counts an environment's tasks locks them in this order too.
    """
    after = standing(row)
    changes = {before.environment: Counter[str](), after.environment: Counter[str]()}
    changes[before.environment].subtract(before.numbers)
    changes[after.environment].update(after.numbers)
    for environment, numbers in sorted(changes.items()):
        count(environment, **numbers)
    if before.task != after.task:
        Task.objects.filter(pk=before.task).update(trajectory_count=F("trajectory_count") - 1)
        Task.objects.filter(pk=after.task).update(trajectory_count=F("trajectory_count") + 1)
