"""API of the frames of tasks. A task's frame itself is part of its revision."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router
from pydantic import ValidationError

from synthesis.contracts import Allowance
from webapp.common.errors import Unusable
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.etags import demand_match, describe_optional_match, describe_required_match, require_match
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.types import Id
from webapp.environments.models import Environment
from webapp.environments.schemas import EnvironmentOut
from webapp.environments.totals import lock_environment
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.scenarios import queries
from webapp.scenarios.frames import services
from webapp.scenarios.frames.schemas import FrameRemoval, FrameRestoration, FramesWish, FrameWidening, PlaceIn
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.schemas import RevisionOut, TaskOut

router = Router(tags=["frames"])
HEAVY = ("current__source", "current__record")
TASK, ENVIRONMENT = "GET /tasks/{pk}", "GET /environments/{pk}"
REVISES: dict[str, Any] = {
    "auth": require_scope("review"), "response": {201: RevisionOut}, "openapi_extra": describe_required_match(TASK),
}  # fmt: skip


@router.post(
    "/tasks/{pk}/frame",
    auth=require_scope("review"),
    response={202: JobOut},
    openapi_extra=describe_optional_match(TASK),
)
@idempotent
def create_task_frame(request: HttpRequest, pk: Id) -> Job:
    """Make the frame of a task that has none from its reference. Follow the job at /jobs/{id}."""
    with transaction.atomic():
        task = _lock_task(pk)
        require_match(request, TaskOut.from_orm(task))
        return services.start_frame(get_acting_user(request), task)


@router.post("/tasks/{pk}/frame/widening", **REVISES)
@idempotent
def widen_task_frame(request: HttpRequest, pk: Id, widening: FrameWidening) -> TaskRevision:
    """Allow a task's right ways to change more: a further revision, which is audited anew. `If-Match` is required."""
    user = get_acting_user(request)
    places = [_build_allowance(place, widening.reason, user.get_username()) for place in widening.places]
    with transaction.atomic():
        return services.widen_task(user, _lock_matched_task(request, pk), places)


@router.post("/tasks/{pk}/frame/restoration", **REVISES)
@idempotent
def restore_task_frame(request: HttpRequest, pk: Id, wish: FrameRestoration) -> TaskRevision:
    """Give a task the frame of an earlier revision, none included: a further revision, which is audited anew.

    `If-Match` is required.
    """
    with transaction.atomic():
        return services.restore_frame(get_acting_user(request), _lock_matched_task(request, pk), wish.revision)


@router.post("/tasks/{pk}/frame/removal", **REVISES)
@idempotent
def remove_task_frame(request: HttpRequest, pk: Id, removal: FrameRemoval) -> TaskRevision:
    """Leave a task's frame out from now on: a further revision, which is audited anew. `If-Match` is required."""
    with transaction.atomic():
        return services.drop_frame(get_acting_user(request), _lock_matched_task(request, pk), removal.reason)


@router.post(
    "/environments/{pk}/frames",
    auth=require_scope("review"),
    response={202: JobOut},
    openapi_extra=describe_optional_match(ENVIRONMENT),
)
@idempotent
def create_environment_frames(request: HttpRequest, pk: Id) -> Job:
    """Make frames for all tasks of an environment that have a reference and no frame, or one that pins nothing.

    A task that people edited or decided on keeps its current revision, and the revision with the frame is stored beside
    it, as the job's result lists. Follow the job at /jobs/{id}.
    """
    environment = get_object_or_404(Environment.objects.select_related("current").defer(*HEAVY), pk=pk)
    require_match(request, EnvironmentOut.from_orm(environment))
    return services.start_environment_frames(get_acting_user(request), environment)


@router.post("/frames", auth=require_scope("review"), response={202: JobOut})
@idempotent
def create_frames(request: HttpRequest, wish: FramesWish) -> Job:
    """Pin the frames that pin nothing, of the tasks that a filter selects. Follow the job at /jobs/{id}.

    A task that people edited or decided on keeps its current revision, and the pinned revision is stored beside it, as
    the job's result lists.
    """
    return services.start_filter_frames(get_acting_user(request), wish.filter.values(), makes=wish.makes)


def _lock_matched_task(request: HttpRequest, pk: int) -> Task:
    """Lock the task's environment and return the task that `If-Match` names. Call it in a transaction."""
    task = _lock_task(pk)
    demand_match(request, TaskOut.from_orm(task), f"GET /tasks/{pk}")
    return task


def _lock_task(pk: int) -> Task:
    task = get_object_or_404(Task.objects.only("environment_id"), pk=pk)
    lock_environment(task.environment_id)
    return get_object_or_404(queries.whole_tasks(), pk=pk)


def _build_allowance(place: PlaceIn, reason: str, by: str) -> Allowance:
    fields = {**place.model_dump(), "values": tuple(place.values)}
    try:
        return Allowance(**fields, source="person", reason=reason, by=by)
    except ValidationError as error:
        raise Unusable(f"{place.path}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
