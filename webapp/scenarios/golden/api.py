"""API of the golden states of tasks. The verifier of a task is part of its revision."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router

from synthesis.contracts import Volatile
from synthesis.runtime import get_default_sandbox
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
from webapp.scenarios.golden import services
from webapp.scenarios.golden.schemas import GoldenIn, GoldenWish, VolatileIn, VolatileRemoval
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.schemas import RevisionOut, TaskOut

router = Router(tags=["golden states"])
HEAVY = ("current__source", "current__record")
TASK, ENVIRONMENT = "GET /tasks/{pk}", "GET /environments/{pk}"
REVISES: dict[str, Any] = {
    "auth": require_scope("review"), "response": {201: RevisionOut}, "openapi_extra": describe_required_match(TASK),
}  # fmt: skip


@router.post(
    "/tasks/{pk}/golden",
    auth=require_scope("review"),
    response={202: JobOut},
    openapi_extra=describe_optional_match(TASK),
)
@idempotent
def create_task_golden(request: HttpRequest, pk: Id, wish: GoldenIn) -> Job:
    """Judge a task by the state that its reference leaves: a further revision. Follow the job at /jobs/{id}.

    If a golden state judges the task already, it is made anew; the places that people declared volatile remain.
    """
    with transaction.atomic():
        task_stub = get_object_or_404(Task.objects.only("environment_id"), pk=pk)
        lock_environment(task_stub.environment_id)
        task = get_object_or_404(queries.whole_tasks(), pk=pk)
        require_match(request, TaskOut.from_orm(task))
        return services.start_golden(get_acting_user(request), task, wish.equality)


@router.post("/tasks/{pk}/golden/volatile", **REVISES)
@idempotent
def declare_volatile_place(request: HttpRequest, pk: Id, place: VolatileIn) -> TaskRevision:
    """Declare a place of a task's golden state volatile: a further revision, which is audited anew.

    `If-Match` is required.
    """
    user, task = get_acting_user(request), _get_matched_task(request, pk)
    declared = Volatile(**place.model_dump(), by=user.get_username()[:200])
    return services.declare_volatile(get_default_sandbox(), user, task, declared, _get_revision_number(task))


@router.post("/tasks/{pk}/golden/volatile/removal", **REVISES)
@idempotent
def remove_volatile_place(request: HttpRequest, pk: Id, removal: VolatileRemoval) -> TaskRevision:
    """Take a volatile place away: its value must be that of the golden state. `If-Match` is required."""
    user, task = get_acting_user(request), _get_matched_task(request, pk)
    return services.remove_volatile(get_default_sandbox(), user, task, removal.path, _get_revision_number(task))


@router.post(
    "/environments/{pk}/golden",
    auth=require_scope("review"),
    response={202: JobOut},
    openapi_extra=describe_optional_match(ENVIRONMENT),
)
@idempotent
def create_environment_golden(request: HttpRequest, pk: Id, wish: GoldenIn) -> Job:
    """Judge the tasks of an environment that have a reference by golden states. Follow the job at /jobs/{id}.

    A task that people edited or decided on keeps its current revision, and the further revision is stored beside it, as
    the job's result lists.
    """
    environment = get_object_or_404(Environment.objects.select_related("current").defer(*HEAVY), pk=pk)
    require_match(request, EnvironmentOut.from_orm(environment))
    return services.start_environment_golden(get_acting_user(request), environment, wish.equality)


@router.post("/golden", auth=require_scope("review"), response={202: JobOut})
@idempotent
def create_golden(request: HttpRequest, wish: GoldenWish) -> Job:
    """Judge the tasks that a filter selects and that have a reference by golden states. Follow the job at /jobs/{id}.

    A task that people edited or decided on keeps its current revision, and the further revision is stored beside it, as
    the job's result lists.
    """
    return services.start_filter_golden(get_acting_user(request), wish.filter.values(), wish.equality)


def _get_matched_task(request: HttpRequest, pk: int) -> Task:
    """Return the task that `If-Match` names. Writes check the number of its revision."""
    task = get_object_or_404(queries.whole_tasks(), pk=pk)
    demand_match(request, TaskOut.from_orm(task), f"GET /tasks/{pk}")
    return task


def _get_revision_number(task: Task) -> int | None:
    return task.current.number if task.current is not None else None
