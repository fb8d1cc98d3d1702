"""Readiness of training jobs: queued once their data is frozen and the job before them has succeeded."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Q

from training.config import read_config
from webapp.datasets.models import DatasetState
from webapp.datasets.row_facts import facts_of
from webapp.runs import transitions
from webapp.runs.launch.step_count import steps_of
from webapp.runs.models import TrainingJob, TrainingState

AT_ONCE = 500


def advance(jobs: Any) -> int:
    """Queue those of `jobs` whose datasets are frozen and whose earlier job has succeeded; fail what cannot be."""
    ready = jobs.filter(state=TrainingState.VALIDATING).exclude(_unready()).order_by("pk")
    return sum(_advance(pk) for pk in list(ready.values_list("pk", flat=True)[:AT_ONCE]))


def _unready() -> Q:
    """Nothing to decide yet."""
    freezing = Q(dataset__state=DatasetState.FREEZING) | Q(evaluation__state=DatasetState.FREEZING)
    open_ = [TrainingState.VALIDATING, TrainingState.QUEUED, TrainingState.RUNNING, TrainingState.PAUSED]
    return freezing | Q(after__state__in=open_)


@transaction.atomic
def _advance(pk: int) -> bool:
    job = locked(pk)
    if job is None or job.state != TrainingState.VALIDATING:
        return False
    for name, dataset in (("dataset", job.dataset), ("evaluation", job.evaluation)):
        if dataset is not None and dataset.state == DatasetState.FAILED:
            why = f"{name}: {dataset.public_id} could not be frozen: {dataset.error}"
            transitions.fail(job, "dataset_failed", why, name)
            transitions.save(job)
            return True
        if dataset is not None and dataset.state != DatasetState.READY:
            return False
    if job.after is not None and job.after.state in (TrainingState.FAILED, TrainingState.CANCELLED):
        why = f"after: {job.after.public_id} ended as {job.after.state}. Start this job again after one that succeeded."
        transitions.fail(job, "after_failed", why, "after")
        transitions.save(job)
        return True
    if job.after is not None and (job.after.state != TrainingState.SUCCEEDED or job.after.doubt):
        return False  # a person has to say that the model counts though its worker's reports are not true
    if not job.total_steps:
        # It was not known while the rows were not.
        job.total_steps = steps_of(read_config(job.config), facts_of(job.dataset), job.dataset)[0] or 0
        job.save(update_fields=["total_steps"])
    transitions.queue(job)
    transitions.say(job, "info", "The data is ready; the job waits for a worker.")
    transitions.save(job)
    return True


def locked(pk: int) -> TrainingJob | None:
    """The job's row, locked until the transaction ends; None where another transaction holds it."""
    rows = TrainingJob.objects.select_for_update(of=("self",), no_key=True, skip_locked=True)
    return rows.filter(pk=pk).first()
