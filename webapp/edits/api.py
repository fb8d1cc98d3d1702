"""Edits over the API: drafts, their cases, what saving them would do, and the saving."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from synthesis.errors import InputError, ProgramError
from synthesis.runtime import default_sandbox
from webapp.edits import services
from webapp.edits.case_runs import assessment_of, cases_of, people_of, run_cases
from webapp.edits.draft_body import check_state
from webapp.edits.forecasts import holds
from webapp.edits.models import Edit, EditKind, Forecast
from webapp.edits.proposals import proposed_program, require_readable
from webapp.edits.schemas import EditBody, EditCasesOut, EditOut, EditQuery, EditStart, ForecastOut
from webapp.environments.models import Tool, Version
from webapp.errors import NotFound
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.rest.auth import needs, person
from webapp.rest.etags import demand_match, match_needed, match_taken, require_match
from webapp.rest.idempotency import idempotent
from webapp.rest.paging import cursor_page
from webapp.rest.types import Id, PageOf
from webapp.scenarios.models import Task

router = Router(tags=["edits"])
EDIT = "GET /edits/{pk}"


@router.get("/edits", auth=needs("read"), response=PageOf[EditOut])
def list_edits(request: HttpRequest, query: Query[EditQuery]) -> Any:
    """Drafts and saved edits, newest first."""
    rows = Edit.objects.select_related("author")
    rows = rows.filter(state=query.state) if query.state else rows
    return cursor_page(rows.filter(author=person(request)) if query.mine else rows, query)


@router.post("/edits", auth=needs("review"), response={201: EditOut})
@idempotent
def start_edit(request: HttpRequest, wish: EditStart) -> Any:
    """Begin a draft, or find the caller's open one of the same."""
    named = [name for name in ("tool", "version", "task") if getattr(wish, name) is not None]
    if len(named) != 1:
        raise InputError("Name one of tool, version and task.")
    user = person(request)
    if wish.tool is not None:
        return 201, services.start_tool_edit(user, get_object_or_404(Tool, pk=wish.tool))
    if wish.version is not None:
        rows = Version.objects.select_related("environment")
        return 201, services.start_program_edit(user, get_object_or_404(rows, pk=wish.version))
    return 201, services.start_task_edit(user, get_object_or_404(Task, pk=wish.task))


@router.get("/edits/{pk}", auth=needs("read"), response=EditOut)
def get_edit(request: HttpRequest, pk: Id) -> Edit:
    """One draft, or what became of it."""
    return services.find_edit(pk)


@router.put("/edits/{pk}", auth=needs("review"), response=EditOut, openapi_extra=match_needed(EDIT))
def change_edit(request: HttpRequest, pk: Id, wish: EditBody) -> Edit:
    """Write the caller's draft anew. `If-Match` is required; 412 where it was written since it was read."""
    body = wish.model_dump(exclude_unset=True)
    state, why = body.pop("state", None), body.pop("why", None)
    if state is not None:
        check_state(state)
    for name in ("verifier", "answer_form", "expected_answer"):
        if body.get(name, ()) is None:
            del body[name]
    with transaction.atomic():
        edit = _matched(request, pk)
        return services.keep_draft(person(request), pk, body, edit.serial, state=state, why=why)


def _matched(request: HttpRequest, pk: int) -> Edit:
    """The draft, locked, as `If-Match` names it."""
    edit = _locked(pk)
    demand_match(request, EditOut.from_orm(edit), f"GET /edits/{pk}")
    return edit


def _locked(pk: int) -> Edit:
    if not Edit.objects.select_for_update().filter(pk=pk).exists():
        raise NotFound("There is no such edit.")
    return services.find_edit(pk)


@router.post("/edits/{pk}/drop", auth=needs("review"), response=EditOut, openapi_extra=match_needed(EDIT))
def drop_edit(request: HttpRequest, pk: Id) -> Edit:
    """Put the caller's draft away. `If-Match` is required."""
    with transaction.atomic():
        _matched(request, pk)
        return services.drop_edit(person(request), pk)


@router.post("/edits/{pk}/cases", auth=needs("review"), response=EditCasesOut)
def run_edit_cases(request: HttpRequest, pk: Id) -> Any:
    """Run the tool's cases of the newest assessment on the draft, within seconds. No model is asked."""
    edit = services.find_edit(pk)
    if edit.kind != EditKind.PROGRAM:
        raise InputError("Only a tool or a program has cases.")
    try:
        proposed = proposed_program(edit)
    except ProgramError as error:
        raise InputError(str(error)) from error
    require_readable(proposed)
    newest = assessment_of(edit.version)
    people = people_of(newest.version_id if newest is not None else 0, edit.tool)
    done = run_cases(default_sandbox(), proposed.program, cases_of(newest, edit.tool, people), people)
    cases = [
        {
            "case_id": run.case.pk, "position": run.case.position, "verdict": run.case.verdict, "became": run.word,
            "counts_as": run.counts, "changed": run.changed, "expected": run.expected,
        }
        for run in done.runs
    ]  # fmt: skip
    counts = {name: getattr(done, name) for name in ("mended", "broken", "other", "same", "not_run", "seconds")}
    return {**counts, "cases": cases}


@router.post("/edits/{pk}/forecast", auth=needs("review"), response={202: JobOut}, openapi_extra=match_taken(EDIT))
def start_edit_forecast(request: HttpRequest, pk: Id) -> Any:
    """Work out what saving the draft would do. The job says how far that is."""
    with transaction.atomic():
        require_match(request, EditOut.from_orm(_locked(pk)))
        forecast = services.start_forecast(person(request), pk)
        return 202, get_object_or_404(Job, pk=forecast.job_id)


@router.get("/edits/{pk}/forecast", auth=needs("read"), response=ForecastOut)
def get_edit_forecast(request: HttpRequest, pk: Id) -> Any:
    """The newest forecast of an edit."""
    edit = services.find_edit(pk)
    forecast = services.newest_forecast(edit)
    if forecast is None:
        raise NotFound("What saving this edit would do was not worked out yet.")
    return _told(edit, forecast)


def _told(edit: Edit, forecast: Forecast) -> dict[str, Any]:
    names = ("state", "why", "tasks", "stored", "executed", "sampled", "seconds")
    lines = forecast.lines.defer("audit").prefetch_related("runs").order_by("task")
    return {
        "edit_id": edit.pk,
        "holds": holds(forecast, edit),
        "datasets": forecast.facts.get("datasets", {}),
        "golden_states": forecast.facts.get("golden_states", 0),
        "lines": list(lines),
        **{name: getattr(forecast, name) for name in names},
    }


@router.post("/edits/{pk}/save", auth=needs("review"), response={202: JobOut}, openapi_extra=match_needed(EDIT))
def save_edit(request: HttpRequest, pk: Id) -> Any:
    """Save the draft by a job: a further version with its tasks, or a further revision. `If-Match` is required."""
    with transaction.atomic():
        edit = _matched(request, pk)
        return 202, services.start_save(person(request), pk, edit.serial)


@router.post("/tools/{pk}/repair", auth=needs("synthesise"), response={202: JobOut})
def repair_tool(request: HttpRequest, pk: Id) -> Any:
    """Ask the author model for a repair of a tool. What it writes is a draft of the caller's."""
    return 202, services.start_repair(person(request), get_object_or_404(Tool.objects.select_related("version"), pk=pk))
