"""Rollouts over the API: start, look, stop, make what failed again."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from webapp.jobs.models import Job
from webapp.jobs.services import cancel as cancel_job
from webapp.jobs.services import retry as retry_job
from webapp.rest.auth import needs, person
from webapp.rest.etags import require_match
from webapp.rest.idempotency import idempotent
from webapp.rest.paging import PageQuery, cursor_page
from webapp.rest.problems import Problem
from webapp.rest.types import Id, PageOf
from webapp.scenarios.models import Task
from webapp.trajectories.models import Rollout
from webapp.trajectories.rollouts import queries, services
from webapp.trajectories.rollouts.schemas import RolloutIn, RolloutLine, RolloutOut, rollout_out

router = Router(tags=["rollouts"])


def find(job: int) -> Rollout:
    return get_object_or_404(queries.rows(), job_id=job)


def unchanged(request: HttpRequest, job: int) -> int:
    """The rollout's job, locked. Raises `Problem` (412) where the rollout is not what `If-Match` names."""
    get_object_or_404(Job.objects.select_for_update(of=("self",)).only("pk").filter(rollout__isnull=False), pk=job)
    require_match(request, RolloutOut.model_validate(rollout_out(find(job))))
    return job


@router.post("/tasks/{pk}/rollouts", auth=needs("synthesise"), response={202: RolloutOut})
@idempotent
def create_rollout(request: HttpRequest, pk: Id, body: RolloutIn) -> Any:
    """Let a policy attempt the task's current revision, in the background."""
    task = get_object_or_404(Task.objects.select_related("current").defer("current__record"), pk=pk)
    rollout = services.start_rollout(person(request), task, body.spec())
    return Status(202, rollout_out(find(rollout.job_id)))


@router.get("/tasks/{pk}/rollouts", auth=needs("read"), response=PageOf[RolloutLine])
def list_rollouts(request: HttpRequest, pk: Id, query: Query[PageQuery]) -> Any:
    """The rollouts of a task, newest first."""
    get_object_or_404(Task.objects.only("id"), pk=pk)
    return cursor_page(queries.rows().filter(task_id=pk), query)


@router.get("/rollouts/{job}", auth=needs("read"), response=RolloutOut)
def get_rollout(request: HttpRequest, job: Id) -> Any:
    """A rollout and its attempts, by the number of its job."""
    return rollout_out(find(job))


@router.post("/rollouts/{job}/cancel", auth=needs("synthesise"), response=RolloutOut)
@idempotent
def cancel_rollout(request: HttpRequest, job: Id) -> Any:
    """Ask the attempts to stop: those under way end within a step, those that are done stay."""
    with transaction.atomic():
        if not cancel_job(unchanged(request, job), person(request)):
            raise Problem(409, "The attempts had ended before they could be stopped.")
    return rollout_out(find(job))


@router.post("/rollouts/{job}/retry", auth=needs("synthesise"), response=RolloutOut)
@idempotent
def retry_rollout(request: HttpRequest, job: Id) -> Any:
    """Make those attempts again that say nothing about the agent, or were stopped."""
    with transaction.atomic():
        if not retry_job(unchanged(request, job), person(request)):
            raise Problem(409, "Nothing is to be made again: the job runs, or every attempt was made.")
    return rollout_out(find(job))
