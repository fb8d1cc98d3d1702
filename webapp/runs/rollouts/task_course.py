"""Course of one task over a training job: results of its attempts at every step that drew it."""

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


def load_course(job: TrainingJob, row: str) -> tuple[list[CourseRow], bool]:
    """Return the newest steps that drew a row of the dataset, newest first, and whether there are more."""
    counted = Q(reward__isnull=False)
    step_values = (
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
    rows = [_build_row(dict(one)) for one in step_values]
    return rows[:MOST_STEPS], len(rows) > MOST_STEPS


def _build_row(one: Any) -> CourseRow:
    rewards = [reward for reward in one.pop("rewards") or [] if reward is not None]
    dots = [round(4 + 92 * min(1.0, max(0.0, reward)), 1) for reward in rewards]
    shown_dots = dots if len(dots) <= DOTS else [dots[place * len(dots) // DOTS] for place in range(DOTS)]
    return CourseRow(step=one.pop("file__step"), dots=shown_dots, **one)


def build_drawing(rows: list[CourseRow]) -> dict[str, Any]:
    """Return the course as the page's script draws it: means, and from the least to the greatest reward of a step."""
    steps: dict[int, list[CourseRow]] = {}
    for row in rows:
        if row.mean is not None:
            steps.setdefault(row.step, []).append(row)
    columns: dict[str, list[Any]] = {"x": [], "y": [], "low": [], "high": []}
    for step in sorted(steps):
        parts = steps[step]
        weight = sum(part.counted for part in parts)
        columns["x"].append(step)
        columns["y"].append(sum((part.mean or 0.0) * part.counted for part in parts) / weight)
        columns["low"].append(min(part.low for part in parts if part.low is not None))
        columns["high"].append(max(part.high for part in parts if part.high is not None))
    return columns | {"first": columns["x"], "label": "mean reward", "band": "least to greatest attempt"}
