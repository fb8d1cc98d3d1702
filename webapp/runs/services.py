"""Creation of training jobs."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from synthesis.errors import InputError
from webapp.accounts.services import audit
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.services import dataset_of
from webapp.runs import matching
from webapp.runs.candidates import candidates
from webapp.runs.checkpoint_files import first_model
from webapp.runs.launch.job_lookup import RefusedJob, Remark, look_up
from webapp.runs.launch.preflight import Preflight, looked_at
from webapp.runs.models import TrainingJob, TrainingState
from webapp.runs.spec import NewJob
from webapp.runs.topics import tell_job
from webapp.runs.transitions import say
from webapp.runs.wakeups import wake_workers


@transaction.atomic
def create_job(new: NewJob, user: Any) -> TrainingJob:
    """Write a job; workers are woken once the transaction is committed. Raises Refused, which names the fields."""
    asked = look_up(new)
    preflight = looked_at(asked)
    if not preflight.ok or asked.config is None:
        raise RefusedJob(preflight.problems)
    dataset = _frozen("training_file", new.dataset, user)
    evaluation = _frozen("validation_file", new.evaluation, user) if new.evaluation else None
    job = TrainingJob(
        name=new.name,
        method=new.method,
        model=new.model,
        preset=asked.preset,
        changes=asked.changes,
        config=asked.config.model_dump(mode="json"),
        dataset=dataset,
        evaluation=evaluation,
        after=asked.after,
        engine=new.engine,
        calls_allowed=new.calls_allowed,
        metadata=dict(new.metadata),
        estimate=preflight.model_dump(mode="json", include={"steps", "tokens", "memory", "time"}),
        total_steps=preflight.steps or 0,
        created_by=user,
    )
    if asked.user is not None:
        job.user_endpoint, job.user_model = asked.user[0], asked.user[1][:200]
    if asked.judge is not None:
        job.judge_endpoint, job.judge_model = asked.judge[0], asked.judge[1][:200]
    job.state = state_to_begin(job)
    if job.state == TrainingState.QUEUED:
        remark = matching.impediment(first_model(job), job.engine, candidates())
        job.reason = remark.message if remark else ""
    job.save()
    audit(user, "training.create", job, public_id=job.public_id, method=job.method, model=job.model[:200])
    say(job, "info", f"Created fine-tuning job: {job.public_id}")
    for remark in preflight.warnings:
        say(job, "warn", remark.message, code=remark.code)
    tell_job(job.pk, listed=True)
    wake_workers()
    return job


def _frozen(param: str, ident: str, user: Any) -> Dataset:
    try:
        return dataset_of(ident, user)
    except InputError as error:
        raise RefusedJob((Remark(param=param, code="unusable", message=str(error)),)) from error


def state_to_begin(job: TrainingJob) -> TrainingState:
    """The first state of a job: queued, unless data have to be frozen or an earlier job to succeed before."""
    rows = [row for row in (job.dataset, job.evaluation) if row is not None]
    ready = all(row.state == DatasetState.READY for row in rows)
    done = job.after is None or job.after.state == TrainingState.SUCCEEDED
    return TrainingState.QUEUED if ready and done else TrainingState.VALIDATING


def dry_run(new: NewJob, user: Any) -> Preflight:
    """Preflight of a new job; nothing is written."""
    return looked_at(look_up(new))
