"""Creation of training jobs."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from synthesis.errors import InputError
from webapp.accounts.services import write_audit_entry
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.services import get_dataset_for_job
from webapp.runs.checkpoint_files import get_first_model
from webapp.runs.models import TrainingJob, TrainingState
from webapp.runs.preflight import matching
from webapp.runs.preflight.candidates import list_candidates
from webapp.runs.preflight.job_checks import Preflight, check_resolved_job
from webapp.runs.preflight.job_lookup import resolve_job
from webapp.runs.preflight.remarks import RefusedJob, Remark
from webapp.runs.spec import NewJob
from webapp.runs.topics import publish_job
from webapp.runs.transitions import log_event
from webapp.runs.wakeups import wake_workers


@transaction.atomic
def create_job(new: NewJob, user: Any) -> TrainingJob:
    """Write a job; workers are woken once the transaction is committed. Raises RefusedJob, which names the fields."""
    resolved = resolve_job(new)
    checks = check_resolved_job(resolved)
    if not checks.ok or resolved.config is None:
        raise RefusedJob(checks.problems)
    dataset = _get_dataset("training_file", new.dataset, user)
    evaluation = _get_dataset("validation_file", new.evaluation, user) if new.evaluation else None
    job = TrainingJob(
        name=new.name,
        method=new.method,
        model=new.model,
        preset=resolved.preset,
        changes=resolved.changes,
        config=resolved.config.model_dump(mode="json"),
        dataset=dataset,
        evaluation=evaluation,
        after=resolved.after,
        engine=new.engine,
        calls_allowed=new.calls_allowed,
        metadata=dict(new.metadata),
        estimate=checks.model_dump(mode="json", include={"steps", "tokens", "memory", "time"}),
        total_steps=checks.steps or 0,
        created_by=user,
    )
    if resolved.user is not None:
        job.user_endpoint, job.user_model = resolved.user[0], resolved.user[1][:200]
    if resolved.judge is not None:
        job.judge_endpoint, job.judge_model = resolved.judge[0], resolved.judge[1][:200]
    job.state = get_first_state(job)
    if job.state == TrainingState.QUEUED:
        remark = matching.find_impediment(get_first_model(job), job.engine, list_candidates())
        job.reason = remark.message if remark else ""
    job.save()
    write_audit_entry(user, "training.create", job, public_id=job.public_id, method=job.method, model=job.model[:200])
    log_event(job, "info", f"Created fine-tuning job: {job.public_id}")
    for remark in checks.warnings:
        log_event(job, "warn", remark.message, code=remark.code)
    publish_job(job.pk, listed=True)
    wake_workers()
    return job


def _get_dataset(param: str, ident: str, user: Any) -> Dataset:
    try:
        return get_dataset_for_job(ident, user)
    except InputError as error:
        raise RefusedJob((Remark(param=param, code="unusable", message=str(error)),)) from error


def get_first_state(job: TrainingJob) -> TrainingState:
    """Return the first state of a job: queued, unless data have to be frozen or an earlier job to succeed before."""
    rows = [row for row in (job.dataset, job.evaluation) if row is not None]
    ready = all(row.state == DatasetState.READY for row in rows)
    done = job.after is None or job.after.state == TrainingState.SUCCEEDED
    return TrainingState.QUEUED if ready and done else TrainingState.VALIDATING


def preflight_job(new: NewJob, user: Any) -> Preflight:
    """Return the preflight of a new job; nothing is written."""
    return check_resolved_job(resolve_job(new))
