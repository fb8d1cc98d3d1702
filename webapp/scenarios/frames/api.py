"""Frames of tasks over the API. A task's frame itself stands with its revision."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router
from pydantic import ValidationError

from synthesis.contracts import Allowance
from webapp.environments.models import Environment
from webapp.environments.totals import lock_environment
from webapp.errors import Unusable
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.rest.auth import needs, person
from webapp.rest.etags import require_match
from webapp.rest.idempotency import idempotent
from webapp.rest.types import Id
from webapp.scenarios import queries
from webapp.scenarios.frames import services
from webapp.scenarios.frames.schemas import FrameRemoval, FrameRestoration, FrameWidening
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.schemas import RevisionOut, TaskOut

router = Router(tags=["frames"])


@router.post("/tasks/{pk}/frame", auth=needs("review"), response={202: JobOut})
@idempotent
def create_task_frame(request: HttpRequest, pk: Id) -> Job:
    """Make the frame of a task that has none from its reference. Follow the job at /jobs/{id}."""
    return services.start_frame(person(request), get_object_or_404(Task.objects.select_related("current"), pk=pk))


@router.post("/tasks/{pk}/frame/widening", auth=needs("review"), response={201: RevisionOut})
@idempotent
def widen_task_frame(request: HttpRequest, pk: Id, widening: FrameWidening) -> TaskRevision:
    """Allow a task's right ways to change more: a further revision, which is audited anew."""
    user = person(request)
    places = [_allowance(place.path, place.most, widening.reason, user.get_username()) for place in widening.places]
    with transaction.atomic():
        return services.widen_task(user, _matched(request, pk), places)


@router.post("/tasks/{pk}/frame/restoration", auth=needs("review"), response={201: RevisionOut})
@idempotent
def restore_task_frame(request: HttpRequest, pk: Id, wish: FrameRestoration) -> TaskRevision:
    """Give a task the frame of an earlier revision, none included: a further revision, which is audited anew."""
    with transaction.atomic():
        return services.restore_frame(person(request), _matched(request, pk), wish.revision)


@router.post("/tasks/{pk}/frame/removal", auth=needs("review"), response={201: RevisionOut})
@idempotent
def remove_task_frame(request: HttpRequest, pk: Id, removal: FrameRemoval) -> TaskRevision:
    """Leave a task's frame out from now on: a further revision, which is audited anew."""
    with transaction.atomic():
        return services.drop_frame(person(request), _matched(request, pk), removal.reason)


@router.post("/environments/{pk}/frames", auth=needs("review"), response={202: JobOut})
@idempotent
def create_environment_frames(request: HttpRequest, pk: Id) -> Job:
    """Make frames for all tasks of an environment that have a reference and no frame. Follow the job at /jobs/{id}."""
    environment = get_object_or_404(Environment.objects.only("pk", "name"), pk=pk)
    return services.start_environment_frames(person(request), environment)


def _matched(request: HttpRequest, pk: int) -> Task:
    """The task, its environment locked, where `If-Match` names it as it is or is not sent. Call it in a transaction."""
    task = get_object_or_404(queries.whole_tasks(), pk=pk)
    if "If-Match" in request.headers:
        lock_environment(task.environment_id)
        task = get_object_or_404(queries.whole_tasks(), pk=pk)
        require_match(request, TaskOut.from_orm(task))
    return task


def _allowance(path: str, most: int | None, reason: str, by: str) -> Allowance:
    try:
        return Allowance(path=path, most=most, source="person", reason=reason, by=by)
    except ValidationError as error:
        raise Unusable(f"{path}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
