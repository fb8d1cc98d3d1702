"""Frames of tasks over the API. A task's frame itself stands with its revision."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router
from pydantic import ValidationError

from synthesis.contracts import Allowance
from webapp.environments.models import Environment
from webapp.environments.schemas import EnvironmentOut
from webapp.environments.totals import lock_environment
from webapp.errors import Unusable
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.rest.auth import needs, person
from webapp.rest.etags import demand_match, match_needed, match_taken, require_match
from webapp.rest.idempotency import idempotent
from webapp.rest.types import Id
from webapp.scenarios import queries
from webapp.scenarios.frames import services
from webapp.scenarios.frames.schemas import FrameRemoval, FrameRestoration, FramesWish, FrameWidening, PlaceIn
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.schemas import RevisionOut, TaskOut

router = Router(tags=["frames"])
HEAVY = ("current__source", "current__record")
TASK, ENVIRONMENT = "GET /tasks/{pk}", "GET /environments/{pk}"
REVISES: dict[str, Any] = {
    "auth": needs("review"), "response": {201: RevisionOut}, "openapi_extra": match_needed(TASK),
}  # fmt: skip


@router.post("/tasks/{pk}/frame", auth=needs("review"), response={202: JobOut}, openapi_extra=match_taken(TASK))
@idempotent
def create_task_frame(request: HttpRequest, pk: Id) -> Job:
    """Make the frame of a task that has none from its reference. Follow the job at /jobs/{id}."""
    with transaction.atomic():
        task = _locked(pk)
        require_match(request, TaskOut.from_orm(task))
        return services.start_frame(person(request), task)


@router.post("/tasks/{pk}/frame/widening", **REVISES)
@idempotent
def widen_task_frame(request: HttpRequest, pk: Id, widening: FrameWidening) -> TaskRevision:
    """Allow a task's right ways to change more: a further revision, which is audited anew. `If-Match` is required."""
    user = person(request)
    places = [_allowance(place, widening.reason, user.get_username()) for place in widening.places]
    with transaction.atomic():
        return services.widen_task(user, _matched(request, pk), places)


@router.post("/tasks/{pk}/frame/restoration", **REVISES)
@idempotent
def restore_task_frame(request: HttpRequest, pk: Id, wish: FrameRestoration) -> TaskRevision:
    """Give a task the frame of an earlier revision, none included: a further revision, which is audited anew.

    `If-Match` is required.
    """
    with transaction.atomic():
        return services.restore_frame(person(request), _matched(request, pk), wish.revision)


@router.post("/tasks/{pk}/frame/removal", **REVISES)
@idempotent
def remove_task_frame(request: HttpRequest, pk: Id, removal: FrameRemoval) -> TaskRevision:
    """Leave a task's frame out from now on: a further revision, which is audited anew. `If-Match` is required."""
    with transaction.atomic():
        return services.drop_frame(person(request), _matched(request, pk), removal.reason)


@router.post(
    "/environments/{pk}/frames", auth=needs("review"), response={202: JobOut}, openapi_extra=match_taken(ENVIRONMENT)
)
@idempotent
def create_environment_frames(request: HttpRequest, pk: Id) -> Job:
    """Make frames for all tasks of an environment that have a reference and no frame, or one that pins nothing.

    What people edited or decided on stays current, and the revision with the frame stands beside, as the job's result
    lists. Follow the job at /jobs/{id}.
    """
    environment = get_object_or_404(Environment.objects.select_related("current").defer(*HEAVY), pk=pk)
    require_match(request, EnvironmentOut.from_orm(environment))
    return services.start_environment_frames(person(request), environment)


@router.post("/frames", auth=needs("review"), response={202: JobOut})
@idempotent
def create_frames(request: HttpRequest, wish: FramesWish) -> Job:
    """Pin the frames that pin nothing, of the tasks that a filter leaves. Follow the job at /jobs/{id}.

    What people edited or decided on stays current, and the pinned revision stands beside, as the job's result lists.
    """
    return services.start_filter_frames(person(request), wish.filter.values(), makes=wish.makes)


def _matched(request: HttpRequest, pk: int) -> Task:
    """The task, its environment locked, as `If-Match` names it. Call it in a transaction."""
    task = _locked(pk)
    demand_match(request, TaskOut.from_orm(task), f"GET /tasks/{pk}")
    return task


def _locked(pk: int) -> Task:
    known = get_object_or_404(Task.objects.only("environment_id"), pk=pk)
    lock_environment(known.environment_id)
    return get_object_or_404(queries.whole_tasks(), pk=pk)


def _allowance(place: PlaceIn, reason: str, by: str) -> Allowance:
    given = {**place.model_dump(), "values": tuple(place.values)}
    try:
        return Allowance(**given, source="person", reason=reason, by=by)
    except ValidationError as error:
        raise Unusable(f"{place.path}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
