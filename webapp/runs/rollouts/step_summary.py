"""Summary of one training step: its numbers, its groups of attempts by task, the filter of its list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Avg, Count, F, Max, Min, Q, QuerySet, StdDev
from django.http import QueryDict

from training.metrics import NAMES
from webapp.common.query_params import Params
from webapp.runs.models import RolloutFile, RunRollout, TrainingJob
from webapp.runs.queries import get_metrics_at_steps, list_rollout_files
from webapp.scenarios.models import Task

GROUPS = 100
CHOICES = 300
DOTS = 32
OUTCOMES = ("solved", "failed", "truncated", "agent_error", "program_error", "infra_error", "cancelled")
FIELDS = ("environment", "outcome", "masked", "row")


@dataclass(frozen=True)
class AttemptFilter:
    """Filter of a step's attempts. `masked`: yes or no; `row` is a task's row; `quarantined`: only those that
    differed."""

    environment: str = ""
    outcome: str = ""
    masked: str = ""
    row: str = ""
    quarantined: bool = False

    @property
    def any(self) -> bool:
        return self.quarantined or any(getattr(self, name) for name in FIELDS)


@dataclass(frozen=True)
class GroupRow:
    """The attempts at one task. `dots` are their rewards in order, as places on a line of 100."""

    row: str
    environment: str
    setting: str
    task: Task | None
    count: int
    counted: int
    mean: float | None
    low: float | None
    high: float | None
    deviation: float | None
    dots: list[float]

    @property
    def flat(self) -> bool:
        """True if all rewards are equal: the group teaches nothing."""
        return self.counted > 1 and self.low == self.high


def parse_filter(query: QueryDict) -> AttemptFilter:
    """Return the filter that an address names."""
    params = Params(query)
    chosen = {name: params.text(name) for name in FIELDS}
    chosen |= {"outcome": params.choice("outcome", OUTCOMES), "masked": params.choice("masked", ("yes", "no"))}
    return AttemptFilter(**chosen, quarantined=params.flag("quarantined"))


def find_rollout_file(job: TrainingJob, step: int) -> RolloutFile | None:
    """Return the step's rollout file; of two attempts that tried the step, the later one's."""
    return list_rollout_files(job).filter(step=step).order_by("-attempt").first()


def find_neighbour_steps(job: TrainingJob, step: int) -> tuple[int | None, int | None]:
    """Return the nearest steps before and after that have rollouts."""
    steps = list_rollout_files(job).values_list("step", flat=True)
    return steps.filter(step__lt=step).order_by("-step").first(), steps.filter(step__gt=step).order_by("step").first()


def filter_rollouts(file: RolloutFile, chosen: AttemptFilter) -> QuerySet[RunRollout]:
    rows = RunRollout.objects.filter(file=file).select_related("task")
    for name in ("environment", "outcome", "row"):
        if value := getattr(chosen, name):
            rows = rows.filter(**{name: value})
    if chosen.masked:
        rows = rows.exclude(masked="") if chosen.masked == "yes" else rows.filter(masked="")
    return rows.exclude(quarantined="") if chosen.quarantined else rows


def list_environments(file: RolloutFile) -> list[str]:
    rows = RunRollout.objects.filter(file=file).exclude(environment="").order_by("environment")
    return list(rows.values_list("environment", flat=True).distinct()[:CHOICES])


def list_groups(file: RolloutFile, chosen: AttemptFilter) -> tuple[list[GroupRow], bool]:
    """Return groups by task, the largest deviation of rewards first, and whether there are more."""
    rows = filter_rollouts(file, chosen).select_related(None).order_by()
    group_rows = (
        rows.values("row", "environment", "setting", "task_id")
        .annotate(
            count=Count("id"),
            counted=Count("reward"),
            mean=Avg("reward"),
            low=Min("reward"),
            high=Max("reward"),
            deviation=StdDev("reward", sample=True, filter=Q(reward__isnull=False)),
            rewards=ArrayAgg("reward", filter=Q(reward__isnull=False), order_by="reward"),
        )
        .order_by(F("deviation").desc(nulls_last=True), "row", "setting")[: GROUPS + 1]
    )
    group_values = list(group_rows)
    tasks = Task.objects.only("pk", "title").in_bulk([group["task_id"] for group in group_values if group["task_id"]])
    built_groups = [_build_group(group, tasks) for group in group_values[:GROUPS]]
    return built_groups, len(group_values) > GROUPS


def _build_group(group: Any, tasks: dict[int, Task]) -> GroupRow:
    rewards = [reward for reward in group.pop("rewards") or [] if reward is not None]
    dots = [round(4 + 92 * min(1.0, max(0.0, reward)), 1) for reward in rewards]
    shown_dots = dots if len(dots) <= DOTS else [dots[place * len(dots) // DOTS] for place in range(DOTS)]
    return GroupRow(task=tasks.get(group.pop("task_id")), dots=shown_dots, **group)


def list_numbers(job: TrainingJob, step: int) -> list[tuple[str, float, str]]:
    """Return numbers of the whole step as (label, number, unit)."""
    by_name = get_metrics_at_steps(job, [step], list(NAMES)).get(step, {})
    return [(NAMES[name].label, by_name[name], NAMES[name].unit) for name in NAMES if name in by_name]
