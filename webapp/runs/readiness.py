"""Readiness of training jobs: queued once their data is frozen and the job before them has succeeded."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Q

from training.config import read_config
from webapp.datasets.models import DatasetState
from webapp.datasets.row_facts import load_facts
from webapp.runs import transitions
from webapp.runs.models import TrainingJob, TrainingState
from webapp.runs.preflight.step_count import count_steps

AT_ONCE = 500


def queue_ready_jobs(jobs: Any) -> int:
    """Queue those of `jobs` whose datasets are frozen and whose earlier job has succeeded; fail those that never can
    be.

    Return how many changed.
    """
    ready = jobs.filter(state=TrainingState.VALIDATING).exclude(_build_unready_filter()).order_by("pk")
    return sum(_decide_job(pk) for pk in list(ready.values_list("pk", flat=True)[:AT_ONCE]))


def _build_unready_filter() -> Q:
    """Return the filter of jobs that nothing can be decided about yet."""
    freezing = Q(dataset__state=DatasetState.FREEZING) | Q(evaluation__state=DatasetState.FREEZING)
    open_ = [TrainingState.VALIDATING, TrainingState.QUEUED, TrainingState.RUNNING, TrainingState.PAUSED]
    return freezing | Q(after__state__in=open_)


@transaction.atomic
def _decide_job(pk: int) -> bool:
    job = lock_job(pk)
    if job is None or job.state != TrainingState.VALIDATING:
        return False
    for name, dataset in (("dataset", job.dataset), ("evaluation", job.evaluation)):
        if dataset is not None and dataset.state == DatasetState.FAILED:
            why = f"{name}: {dataset.public_id} could not be frozen: {dataset.error}"
            transitions.fail_job(job, "dataset_failed", why, name)
            transitions.save_transition(job)
            return True
        if dataset is not None and dataset.state != DatasetState.READY:
            return False
    if job.after is not None and job.after.state in (TrainingState.FAILED, TrainingState.CANCELLED):
        why = f"after: {job.after.public_id} ended as {job.after.state}. Start this job again after one that succeeded."
        transitions.fail_job(job, "after_failed", why, "after")
        transitions.save_transition(job)
        return True
    if job.after is not None and (job.after.state != TrainingState.SUCCEEDED or job.after.doubt):
        return False  # a person has to say that the model counts though its worker's reports are not true
    if not job.total_steps:
        # The number of steps depends on the rows, which were not frozen when the job was created.
        job.total_steps = count_steps(read_config(job.config), load_facts(job.dataset), job.dataset)[0] or 0
        job.save(update_fields=["total_steps"])
    transitions.queue_job(job)
    transitions.log_event(job, "info", "The data is ready; the job waits for a worker.")
    transitions.save_transition(job)
    return True


def lock_job(pk: int) -> TrainingJob | None:
    """Return the job's row, locked until the transaction ends; None if another transaction holds it."""
    rows = TrainingJob.objects.select_for_update(of=("self",), no_key=True, skip_locked=True)
    return rows.filter(pk=pk).first()
