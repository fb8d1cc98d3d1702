"""Course of one task over a training job: how its attempts went at every step that drew it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Avg, Count, Max, Min, Q

from webapp.runs.models import RunRollout, TrainingJob
from webapp.runs.rollouts.step_summary import DOTS

MOST_STEPS = 500


@dataclass(frozen=True)
class CourseRow:
    """The attempts at the task in one step. `dots` are their rewards as places on a line of 100."""

    step: int
    setting: str
    count: int
    counted: int
    solved: int
    mean: float | None
    low: float | None
    high: float | None
    turns: float | None
    dots: list[float]
    address: str = ""
    """Of its attempts side by side."""

    @property
    def flat(self) -> bool:
        return self.counted > 1 and self.low == self.high


def course(job: TrainingJob, row: str) -> tuple[list[CourseRow], bool]:
    """The newest steps that drew a row of the dataset, newest first, and whether there are more."""
    counted = Q(reward__isnull=False)
    found = (
        RunRollout.objects.filter(row=row, file__job=job, file__superseded=False)
        .order_by()
        .values("file__step", "setting")
        .annotate(
            count=Count("id"),
            counted=Count("reward"),
            solved=Count("id", filter=Q(outcome="solved")),
            mean=Avg("reward"),
            low=Min("reward"),
            high=Max("reward"),
            turns=Avg("turns"),
            rewards=ArrayAgg("reward", filter=counted, order_by="reward"),
        )
        .order_by("-file__step", "setting")[: MOST_STEPS + 1]
    )
    rows = [_row(dict(one)) for one in found]
    return rows[:MOST_STEPS], len(rows) > MOST_STEPS


def _row(one: Any) -> CourseRow:
    rewards = [reward for reward in one.pop("rewards") or [] if reward is not None]
    dots = [round(4 + 92 * min(1.0, max(0.0, reward)), 1) for reward in rewards]
    kept = dots if len(dots) <= DOTS else [dots[place * len(dots) // DOTS] for place in range(DOTS)]
    return CourseRow(step=one.pop("file__step"), dots=kept, **one)


def drawn(rows: list[CourseRow]) -> dict[str, Any]:
    """The course as the page's script draws it: means, and from the least to the greatest reward of a step."""
    steps: dict[int, list[CourseRow]] = {}
    for row in rows:
        if row.mean is not None:
            steps.setdefault(row.step, []).append(row)
    told: dict[str, list[Any]] = {"x": [], "y": [], "low": [], "high": []}
    for step in sorted(steps):
        parts = steps[step]
        weight = sum(part.counted for part in parts)
        told["x"].append(step)
        told["y"].append(sum((part.mean or 0.0) * part.counted for part in parts) / weight)
        told["low"].append(min(part.low for part in parts if part.low is not None))
        told["high"].append(max(part.high for part in parts if part.high is not None))
    return told | {"first": told["x"], "label": "mean reward", "band": "least to greatest attempt"}
