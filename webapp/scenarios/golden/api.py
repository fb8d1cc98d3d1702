"""Golden states of tasks over the API. What judges a task stands with its revision."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router

from synthesis.contracts import Volatile
from synthesis.runtime import default_sandbox
from webapp.environments.models import Environment
from webapp.environments.schemas import EnvironmentOut
from webapp.environments.totals import lock_environment
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.rest.auth import needs, person
from webapp.rest.etags import demand_match, match_needed, match_taken, require_match
from webapp.rest.idempotency import idempotent
from webapp.rest.types import Id
from webapp.scenarios import queries
from webapp.scenarios.golden import services
from webapp.scenarios.golden.schemas import GoldenIn, GoldenWish, VolatileIn, VolatileRemoval
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.schemas import RevisionOut, TaskOut

router = Router(tags=["golden states"])
HEAVY = ("current__source", "current__record")
TASK, ENVIRONMENT = "GET /tasks/{pk}", "GET /environments/{pk}"
REVISES: dict[str, Any] = {
    "auth": needs("review"), "response": {201: RevisionOut}, "openapi_extra": match_needed(TASK),
}  # fmt: skip


@router.post("/tasks/{pk}/golden", auth=needs("review"), response={202: JobOut}, openapi_extra=match_taken(TASK))
@idempotent
def create_task_golden(request: HttpRequest, pk: Id, wish: GoldenIn) -> Job:
    """Judge a task by the state that its reference leaves: a further revision. Follow the job at /jobs/{id}.

    Of a task that a golden state judges already it is made anew; the places that people declared volatile stay.
    """
    with transaction.atomic():
        known = get_object_or_404(Task.objects.only("environment_id"), pk=pk)
        lock_environment(known.environment_id)
        task = get_object_or_404(queries.whole_tasks(), pk=pk)
        require_match(request, TaskOut.from_orm(task))
        return services.start_golden(person(request), task, wish.equality)


@router.post("/tasks/{pk}/golden/volatile", **REVISES)
@idempotent
def declare_volatile_place(request: HttpRequest, pk: Id, place: VolatileIn) -> TaskRevision:
    """Declare a place of a task's golden state volatile: a further revision, which is audited anew.

    `If-Match` is required.
    """
    user, task = person(request), _matched(request, pk)
    declared = Volatile(**place.model_dump(), by=user.get_username()[:200])
    return services.declare_volatile(default_sandbox(), user, task, declared, _number(task))


@router.post("/tasks/{pk}/golden/volatile/removal", **REVISES)
@idempotent
def remove_volatile_place(request: HttpRequest, pk: Id, removal: VolatileRemoval) -> TaskRevision:
    """Take a volatile place away: its value must be that of the golden state. `If-Match` is required."""
    user, task = person(request), _matched(request, pk)
    return services.remove_volatile(default_sandbox(), user, task, removal.path, _number(task))


@router.post(
    "/environments/{pk}/golden", auth=needs("review"), response={202: JobOut}, openapi_extra=match_taken(ENVIRONMENT)
)
@idempotent
def create_environment_golden(request: HttpRequest, pk: Id, wish: GoldenIn) -> Job:
    """Judge the tasks of an environment by golden states: those that have a reference. Follow the job at /jobs/{id}.

    What people edited or decided on stays current, and the further revision stands beside, as the job's result lists.
    """
    environment = get_object_or_404(Environment.objects.select_related("current").defer(*HEAVY), pk=pk)
    require_match(request, EnvironmentOut.from_orm(environment))
    return services.start_environment_golden(person(request), environment, wish.equality)


@router.post("/golden", auth=needs("review"), response={202: JobOut})
@idempotent
def create_golden(request: HttpRequest, wish: GoldenWish) -> Job:
    """Judge the tasks that a filter leaves by golden states: those that have a reference. Follow the job at /jobs/{id}.

    What people edited or decided on stays current, and the further revision stands beside, as the job's result lists.
    """
    return services.start_filter_golden(person(request), wish.filter.values(), wish.equality)


def _matched(request: HttpRequest, pk: int) -> Task:
    """The task as `If-Match` names it. What is written goes by the number of its revision."""
    task = get_object_or_404(queries.whole_tasks(), pk=pk)
    demand_match(request, TaskOut.from_orm(task), f"GET /tasks/{pk}")
    return task


def _number(task: Task) -> int | None:
    return task.current.number if task.current is not None else None
