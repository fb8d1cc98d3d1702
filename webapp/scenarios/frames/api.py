"""Frames of tasks over the API. A task's frame itself stands with its revision."""

from __future__ import annotations

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router
from pydantic import ValidationError

from synthesis.contracts import Allowance
from webapp.environments.models import Environment
from webapp.errors import Unusable
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.rest.auth import needs, person
from webapp.rest.idempotency import idempotent
from webapp.rest.types import Id
from webapp.scenarios.frames import services
from webapp.scenarios.frames.schemas import FrameRemoval, FrameRestoration, FrameWidening
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.schemas import RevisionOut

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
    return services.widen_task(user, get_object_or_404(Task, pk=pk), places)


@router.post("/tasks/{pk}/frame/restoration", auth=needs("review"), response={201: RevisionOut})
@idempotent
def restore_task_frame(request: HttpRequest, pk: Id, wish: FrameRestoration) -> TaskRevision:
    """Give a task the frame of an earlier revision, none included: a further revision, which is audited anew."""
    return services.restore_frame(person(request), get_object_or_404(Task, pk=pk), wish.revision)


@router.post("/tasks/{pk}/frame/removal", auth=needs("review"), response={201: RevisionOut})
@idempotent
def remove_task_frame(request: HttpRequest, pk: Id, removal: FrameRemoval) -> TaskRevision:
    """Leave a task's frame out from now on: a further revision, which is audited anew."""
    return services.drop_frame(person(request), get_object_or_404(Task, pk=pk), removal.reason)


@router.post("/environments/{pk}/frames", auth=needs("review"), response={202: JobOut})
@idempotent
def create_environment_frames(request: HttpRequest, pk: Id) -> Job:
    """Make frames for all tasks of an environment that have a reference and no frame. Follow the job at /jobs/{id}."""
    environment = get_object_or_404(Environment.objects.only("pk", "name"), pk=pk)
    return services.start_environment_frames(person(request), environment)


def _allowance(path: str, most: int | None, reason: str, by: str) -> Allowance:
    try:
        return Allowance(path=path, most=most, source="person", reason=reason, by=by)
    except ValidationError as error:
        raise Unusable(f"{path}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
