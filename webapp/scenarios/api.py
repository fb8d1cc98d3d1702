"""Scenarios and tasks over the API."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import File, Form, Query, Router
from ninja.files import UploadedFile

from webapp.accounts.services import write_audit_entry
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import PageQuery, cursor_page
from webapp.common.rest.types import Id, PageOf, Position, describe_file_answer
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.jobs.uploads import require_no_atif
from webapp.scenarios import queries
from webapp.scenarios.exporter import build_export_response
from webapp.scenarios.models import Scenario, Task, TaskRevision
from webapp.scenarios.schemas import (
    RevisionLine,
    RevisionOut,
    ScenarioLine,
    ScenarioQuery,
    StateOut,
    TaskFilterQuery,
    TaskLine,
    TaskOut,
    TaskQuery,
)
from webapp.scenarios.services import start_envscaler_import
from webapp.scenarios.states import load_state

router = Router(tags=["scenarios and tasks"])
SCENARIO_LINE = ("environment_id", "version_id", "initial_id", "name", "task_count", "created_at")


@router.get("/scenarios", auth=require_scope("read"), response=PageOf[ScenarioLine])
def list_scenarios(request: HttpRequest, query: Query[ScenarioQuery]) -> Any:
    """List scenarios, newest first."""
    rows = Scenario.objects.only(*SCENARIO_LINE)
    return cursor_page(rows.filter(environment=query.environment) if query.environment else rows, query)


@router.get("/scenarios/{pk}", auth=require_scope("read"), response=ScenarioLine)
def get_scenario(request: HttpRequest, pk: Id) -> Scenario:
    """Return one scenario. Its initial state is at /scenarios/{pk}/state."""
    return get_object_or_404(Scenario.objects.only(*SCENARIO_LINE), pk=pk)


@router.get("/scenarios/{pk}/state", auth=require_scope("read"), response=StateOut)
def get_scenario_state(request: HttpRequest, pk: Id) -> Any:
    """Return the initial state."""
    row = get_object_or_404(Scenario.objects.only("initial_id"), pk=pk)
    return {"hash": row.initial_id, "state": load_state(row.initial_id)}


@router.get("/tasks", auth=require_scope("read"), response=PageOf[TaskLine])
def list_tasks(request: HttpRequest, query: Query[TaskQuery]) -> Any:
    """List tasks, filtered and ordered as on their page."""
    return cursor_page(queries.filter_tasks(query.values()), query, query.sort)


@router.get(
    "/tasks/export",
    auth=require_scope("read"),
    openapi_extra=describe_file_answer("application/json", "EnvScaler scenarios"),
)
def export_tasks(request: HttpRequest, query: Query[TaskFilterQuery]) -> StreamingHttpResponse:
    """Export the tasks that the filters select, as a list of EnvScaler scenarios."""
    write_audit_entry(get_acting_user(request), "tasks.export", **query.values())
    return build_export_response(queries.filter_tasks(query.values()), "envarium-tasks.json")


@router.get("/tasks/{pk}", auth=require_scope("read"), response=TaskOut)
def get_task(request: HttpRequest, pk: Id) -> Task:
    """Return one task with its current revision: instruction, checks and findings."""
    return get_object_or_404(queries.whole_tasks(), pk=pk)


@router.get("/tasks/{pk}/revisions", auth=require_scope("read"), response=PageOf[RevisionLine])
def list_task_revisions(request: HttpRequest, pk: Id, query: Query[PageQuery]) -> Any:
    """List the revisions of a task, newest first."""
    task = get_object_or_404(Task.objects.only("id"), pk=pk)
    return cursor_page(task.revisions.defer("record", "instruction"), query)


@router.get("/tasks/{pk}/revisions/{number}", auth=require_scope("read"), response=RevisionOut)
def get_task_revision(request: HttpRequest, pk: Id, number: Position) -> TaskRevision:
    """Return one revision with its instruction, checks and findings."""
    rows = TaskRevision.objects.defer("record").prefetch_related("checks", "findings", "passes")
    return get_object_or_404(rows, task_id=pk, number=number)


@router.post("/imports/environments", auth=require_scope("synthesise"), response={202: JobOut})
@idempotent
def import_environments(
    request: HttpRequest,
    environments: File[UploadedFile],
    scenarios: File[UploadedFile | None] = None,
    frames: Form[bool] = False,
) -> Job:
    """Import EnvScaler environments, with their scenarios if a second file is sent. Follow the job at /jobs/{id}.

    With `frames` a task whose reference is known gets its frame: any other change by an agent makes the reward 0.
    """
    require_no_atif("environments", environments, "environments")
    require_no_atif("scenarios", scenarios, "scenarios")
    return start_envscaler_import(get_acting_user(request), environments, scenarios, frames=frames)
