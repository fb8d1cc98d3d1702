"""Queries on training jobs that pages and the API share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from django.db.models import Q, QuerySet

from webapp.common import paging
from webapp.runs.curves.series import list_keys, load_series
from webapp.runs.models import (
    OPEN_STATES,
    Checkpoint,
    MetricPoint,
    RolloutFile,
    RunRollout,
    TrainingAttempt,
    TrainingEvent,
    TrainingJob,
    TrainingState,
)

__all__ = [
    "describe_blocking_jobs",
    "filter_jobs",
    "get_job",
    "get_metrics_at_steps",
    "list_attempts",
    "list_checkpoints",
    "list_dataset_jobs",
    "list_events",
    "list_keys",
    "list_rollout_files",
    "list_rollouts",
    "load_series",
]  # fmt: skip
RolloutOrder = Literal["advantage", "-advantage", "index"]


def filter_jobs(
    state: str = "", method: str = "", dataset: str = "", metadata: Mapping[str, str] | None = None
) -> QuerySet[TrainingJob]:
    """Return training jobs, newest first, without what only a job's own page shows. `dataset` is its public id."""
    rows = TrainingJob.objects.select_related("dataset", "evaluation", "after", "created_by")
    rows = rows.defer("estimate", "dataset__manifest", "dataset__selection")
    if state in TrainingState.values:
        rows = rows.filter(state=state)
    if method:
        rows = rows.filter(method=method)
    if dataset:
        rows = rows.filter(dataset__public_id=dataset)
    if metadata:
        rows = rows.filter(metadata__contains=dict(metadata))
    return rows.order_by("-pk")


def get_job(public_id: str) -> TrainingJob:
    """Return a job with the rows that it names. Raises TrainingJob.DoesNotExist."""
    rows = TrainingJob.objects.select_related("dataset", "evaluation", "after", "created_by")
    return rows.get(public_id=public_id)


def list_events(job: TrainingJob, level: str = "") -> QuerySet[TrainingEvent]:
    """Return events of a job, newest first."""
    rows = TrainingEvent.objects.filter(job=job)
    return (rows.filter(level=level) if level else rows).order_by("-pk")


def list_checkpoints(job: TrainingJob) -> QuerySet[Checkpoint]:
    """Return checkpoints of a job without those that a resumed one superseded, the last step first."""
    return Checkpoint.objects.filter(job=job, superseded=False).order_by("-step", "-pk")


def list_attempts(job: TrainingJob) -> QuerySet[TrainingAttempt]:
    """Return attempts of a job, the last first, with the end of their output."""
    return TrainingAttempt.objects.filter(job=job).order_by("-number")


def get_metrics_at_steps(job: TrainingJob, steps: list[int], names: list[str]) -> dict[int, dict[str, float]]:
    """Return numbers of single steps by name."""
    rows = MetricPoint.objects.filter(key__job=job, key__name__in=names, step__in=steps, superseded=False)
    numbers: dict[int, dict[str, float]] = {}
    for step, name, value in rows.order_by("attempt").values_list("step", "key__name", "value"):
        if value is not None:
            numbers.setdefault(step, {})[name] = value
    return numbers


def list_rollout_files(job: TrainingJob) -> QuerySet[RolloutFile]:
    """Return the steps that have rollouts, one row a step."""
    return RolloutFile.objects.filter(job=job, superseded=False).order_by("step")


def list_rollouts(
    job: TrainingJob, step: int, order: RolloutOrder = "-advantage", after: int = 0, limit: int = 50
) -> tuple[list[RunRollout], bool]:
    """Return rollouts of a step from behind the one with the id `after`, and whether there are more.

    By advantage those without one are last. Raises RunRollout.DoesNotExist: `after` is none of this step.
    """
    rows = RunRollout.objects.filter(file__job=job, file__step=step, file__superseded=False)
    rows = rows.select_related("file", "task")
    at = None
    if after:
        behind = rows.get(pk=after)
        at = (None if order == "index" else behind.advantage, behind.pk)
    if order == "index":
        rows = rows.filter(pk__gt=at[1]) if at else rows
        rollouts = list(rows.order_by("pk")[: limit + 1])
    else:
        rollouts = list(paging.select_window(rows, order, at, False)[: limit + 1])
    return rollouts[:limit], len(rollouts) > limit


def count_waiting_before(job: TrainingJob) -> int:
    """Return how many queued jobs a worker takes before this one."""
    return TrainingJob.objects.filter(state=TrainingState.QUEUED, pk__lt=job.pk).count()


def list_dataset_jobs(dataset: str) -> QuerySet[TrainingJob]:
    """Return jobs that learn from the dataset with this public id, or are evaluated on it; newest first."""
    rows = TrainingJob.objects.filter(Q(dataset__public_id=dataset) | Q(evaluation__public_id=dataset))
    return rows.select_related("dataset").defer("config", "changes", "result").order_by("-id")


def describe_blocking_jobs(datasets: Collection[int]) -> dict[int, str]:
    """Return those of some datasets that cannot be archived, since an open job uses them, and why; one query."""
    used = Q(dataset__in=datasets) | Q(evaluation__in=datasets)
    rows = TrainingJob.objects.filter(used, state__in=OPEN_STATES).order_by("-pk")
    words = "The job {} still uses this dataset. Cancel it or wait for its end, then archive this."
    return {
        dataset: words.format(public_id)
        for public_id, *both in rows.values_list("public_id", "dataset", "evaluation")
        for dataset in both
        if dataset in datasets
    }
