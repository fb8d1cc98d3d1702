"""Reads on training jobs that pages and the API share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar

from django.db.models import Model, QuerySet

from webapp import paging
from webapp.runs.models import (
    Checkpoint,
    MetricPoint,
    RolloutFile,
    RunRollout,
    StoredFile,
    TrainingAttempt,
    TrainingEvent,
    TrainingJob,
    TrainingState,
)
from webapp.runs.series import keys_of, series

__all__ = [
    "attempts_of", "checkpoints_of", "events_of", "files", "job_of", "jobs", "keys_of", "metrics_at", "page",
    "rollout_steps", "rollouts_of", "series",
]  # fmt: skip
Row = TypeVar("Row", bound=Model)
RolloutOrder = Literal["advantage", "-advantage", "index"]


def jobs(
    state: str = "", method: str = "", dataset: str = "", metadata: Mapping[str, str] | None = None
) -> QuerySet[TrainingJob]:
    """Training jobs, newest first, without what only a job's own page shows. `dataset` is its public id."""
    rows = TrainingJob.objects.select_related("dataset", "evaluation", "after", "worker", "created_by", "user_endpoint")
    rows = rows.defer("estimate", "dataset__manifest", "dataset__selection", "worker__software", "worker__usage")
    if state in TrainingState.values:
        rows = rows.filter(state=state)
    if method:
        rows = rows.filter(method=method)
    if dataset:
        rows = rows.filter(dataset__public_id=dataset)
    if metadata:
        rows = rows.filter(metadata__contains=dict(metadata))
    return rows.order_by("-pk")


def job_of(public_id: str) -> TrainingJob:
    """One job with what it names. Raises TrainingJob.DoesNotExist."""
    rows = TrainingJob.objects.select_related("dataset", "evaluation", "after", "worker", "created_by", "user_endpoint")
    return rows.get(public_id=public_id)


def page(rows: QuerySet[Row], after: str, limit: int, *, newest: bool = True) -> tuple[list[Row], bool]:
    """(rows, whether there are more), newest first, from behind the one with the public id `after`.

    Raises the table's DoesNotExist: there is no such row.
    """
    if after:
        at = rows.model._default_manager.only("pk").get(public_id=after).pk
        rows = rows.filter(pk__lt=at) if newest else rows.filter(pk__gt=at)
    found = list(rows.order_by("-pk" if newest else "pk")[: limit + 1])
    return found[:limit], len(found) > limit


def events_of(job: TrainingJob, level: str = "") -> QuerySet[TrainingEvent]:
    """What a person reads, newest first."""
    rows = TrainingEvent.objects.filter(job=job)
    return (rows.filter(level=level) if level else rows).order_by("-pk")


def checkpoints_of(job: TrainingJob) -> QuerySet[Checkpoint]:
    """Checkpoints that count: not what a resumed job superseded. The last step first."""
    return Checkpoint.objects.filter(job=job, superseded=False).order_by("-step", "-pk")


def attempts_of(job: TrainingJob) -> QuerySet[TrainingAttempt]:
    """Each claim of the job, the last first, with what its process printed last."""
    return TrainingAttempt.objects.filter(job=job).select_related("worker").order_by("-number")


def metrics_at(job: TrainingJob, steps: list[int], names: list[str]) -> dict[int, dict[str, float]]:
    """Numbers of single steps by name."""
    rows = MetricPoint.objects.filter(key__job=job, key__name__in=names, step__in=steps, superseded=False)
    found: dict[int, dict[str, float]] = {}
    for step, name, value in rows.order_by("attempt").values_list("step", "key__name", "value"):
        if value is not None:
            found.setdefault(step, {})[name] = value
    return found


def rollout_steps(job: TrainingJob) -> QuerySet[RolloutFile]:
    """The steps that have rollouts, one row a step."""
    return RolloutFile.objects.filter(job=job, superseded=False).order_by("step")


def rollouts_of(
    job: TrainingJob, step: int, order: RolloutOrder = "-advantage", after: int = 0, limit: int = 50
) -> tuple[list[RunRollout], bool]:
    """(rows of a step, whether there are more) from behind the rollout with the id `after`.

    By advantage those without one stand last. Raises RunRollout.DoesNotExist: `after` is none of this step.
    """
    rows = RunRollout.objects.filter(file__job=job, file__step=step, file__superseded=False)
    rows = rows.select_related("file", "task")
    at = None
    if after:
        behind = rows.get(pk=after)
        at = (None if order == "index" else behind.advantage, behind.pk)
    if order == "index":
        rows = rows.filter(pk__gt=at[1]) if at else rows
        found = list(rows.order_by("pk")[: limit + 1])
    else:
        found = list(paging.window(rows, order, at, False)[: limit + 1])
    return found[:limit], len(found) > limit


def files(purpose: str = "") -> QuerySet[StoredFile]:
    """Uploaded files that were not deleted, newest first."""
    rows = StoredFile.objects.filter(deleted_at=None)
    return (rows.filter(purpose=purpose) if purpose else rows).order_by("-pk")


def in_use(file: StoredFile) -> bool:
    """Whether a dataset was made of a file."""
    return file.datasets.exists()


def waiting_before(job: TrainingJob) -> int:
    """How many queued jobs a worker takes before this one."""
    return TrainingJob.objects.filter(state=TrainingState.QUEUED, pk__lt=job.pk).count()
