"""Rollouts over the API: start, read, stop, retry."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.etags import require_match
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import PageQuery, cursor_page
from webapp.common.rest.problems import Problem
from webapp.common.rest.types import Id, PageOf
from webapp.jobs.models import Job
from webapp.jobs.services import cancel_job as cancel_job
from webapp.jobs.services import retry_job as retry_job
from webapp.scenarios.models import Task
from webapp.trajectories.models import Rollout
from webapp.trajectories.rollouts import queries, services
from webapp.trajectories.rollouts.schemas import RolloutIn, RolloutLine, RolloutOut, serialize_rollout

router = Router(tags=["rollouts"])


def get_rollout_or_404(job: int) -> Rollout:
    return get_object_or_404(queries.list_rollouts(), job_id=job)


def lock_unchanged_job(request: HttpRequest, job: int) -> int:
    """Lock the rollout's job and return its number. Raises `Problem` (412) if the rollout differs from what `If-Match`
    names."""
    get_object_or_404(Job.objects.select_for_update(of=("self",)).only("pk").filter(rollout__isnull=False), pk=job)
    require_match(request, RolloutOut.model_validate(serialize_rollout(get_rollout_or_404(job))))
    return job


@router.post("/tasks/{pk}/rollouts", auth=require_scope("synthesise"), response={202: RolloutOut})
@idempotent
def create_rollout(request: HttpRequest, pk: Id, body: RolloutIn) -> Any:
    """Let a policy attempt the task's current revision, in the background."""
    task = get_object_or_404(Task.objects.select_related("current").defer("current__record"), pk=pk)
    rollout = services.start_rollout(get_acting_user(request), task, body.spec())
    return Status(202, serialize_rollout(get_rollout_or_404(rollout.job_id)))


@router.get("/tasks/{pk}/rollouts", auth=require_scope("read"), response=PageOf[RolloutLine])
def list_rollouts(request: HttpRequest, pk: Id, query: Query[PageQuery]) -> Any:
    """List the rollouts of a task, newest first."""
    get_object_or_404(Task.objects.only("id"), pk=pk)
    return cursor_page(queries.list_rollouts().filter(task_id=pk), query)


@router.get("/rollouts/{job}", auth=require_scope("read"), response=RolloutOut)
def get_rollout(request: HttpRequest, job: Id) -> Any:
    """Return a rollout and its attempts, by the number of its job."""
    return serialize_rollout(get_rollout_or_404(job))


@router.post("/rollouts/{job}/cancel", auth=require_scope("synthesise"), response=RolloutOut)
@idempotent
def cancel_rollout(request: HttpRequest, job: Id) -> Any:
    """Ask the attempts to stop: running ones end within a step, those that are done stay."""
    with transaction.atomic():
        if not cancel_job(lock_unchanged_job(request, job), get_acting_user(request)):
            raise Problem(409, "The attempts had ended before they could be stopped.")
    return serialize_rollout(get_rollout_or_404(job))


@router.post("/rollouts/{job}/retry", auth=require_scope("synthesise"), response=RolloutOut)
@idempotent
def retry_rollout(request: HttpRequest, job: Id) -> Any:
    """Repeat the attempts that were stopped or that failed for a reason other than the agent."""
    with transaction.atomic():
        if not retry_job(lock_unchanged_job(request, job), get_acting_user(request)):
            raise Problem(409, "Nothing is to be made again: the job runs, or every attempt was made.")
    return serialize_rollout(get_rollout_or_404(job))
