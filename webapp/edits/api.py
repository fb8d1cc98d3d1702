"""API of edits: drafts, their cases, forecasts of saving them, and saving."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from synthesis.errors import InputError, ProgramError
from synthesis.runtime import get_default_sandbox
from webapp.common.errors import NotFound
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.etags import demand_match, describe_optional_match, describe_required_match, require_match
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import cursor_page
from webapp.common.rest.types import Id, PageOf
from webapp.edits import services
from webapp.edits.case_runs import find_assessment, list_cases, load_person_verdicts, run_cases
from webapp.edits.draft_body import check_state
from webapp.edits.forecasts import is_forecast_valid
from webapp.edits.models import Edit, EditKind, Forecast
from webapp.edits.proposals import propose_program, require_readable
from webapp.edits.schemas import EditBody, EditCasesOut, EditOut, EditQuery, EditStart, ForecastOut
from webapp.environments.models import Tool, Version
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.scenarios.models import Task

router = Router(tags=["edits"])
EDIT = "GET /edits/{pk}"


@router.get("/edits", auth=require_scope("read"), response=PageOf[EditOut])
def list_edits(request: HttpRequest, query: Query[EditQuery]) -> Any:
    """List drafts and saved edits, newest first."""
    rows = Edit.objects.select_related("author")
    rows = rows.filter(state=query.state) if query.state else rows
    return cursor_page(rows.filter(author=get_acting_user(request)) if query.mine else rows, query)


@router.post("/edits", auth=require_scope("review"), response={201: EditOut})
@idempotent
def start_edit(request: HttpRequest, wish: EditStart) -> Any:
    """Start a draft, or return the caller's open draft of the same object."""
    given_names = [name for name in ("tool", "version", "task") if getattr(wish, name) is not None]
    if len(given_names) != 1:
        raise InputError("Name one of tool, version and task.")
    user = get_acting_user(request)
    if wish.tool is not None:
        return 201, services.start_tool_edit(user, get_object_or_404(Tool, pk=wish.tool))
    if wish.version is not None:
        rows = Version.objects.select_related("environment")
        return 201, services.start_program_edit(user, get_object_or_404(rows, pk=wish.version))
    return 201, services.start_task_edit(user, get_object_or_404(Task, pk=wish.task))


@router.get("/edits/{pk}", auth=require_scope("read"), response=EditOut)
def get_edit(request: HttpRequest, pk: Id) -> Edit:
    """Return one draft or saved edit."""
    return services.find_edit(pk)


@router.put("/edits/{pk}", auth=require_scope("review"), response=EditOut, openapi_extra=describe_required_match(EDIT))
def change_edit(request: HttpRequest, pk: Id, wish: EditBody) -> Edit:
    """Replace the caller's draft. `If-Match` is required; 412 if it was written since it was read."""
    body = wish.model_dump(exclude_unset=True)
    state, why = body.pop("state", None), body.pop("why", None)
    if state is not None:
        check_state(state)
    for name in ("verifier", "answer_form", "expected_answer"):
        if body.get(name, ()) is None:
            del body[name]
    with transaction.atomic():
        edit = _lock_matched_edit(request, pk)
        return services.keep_draft(get_acting_user(request), pk, body, edit.serial, state=state, why=why)


def _lock_matched_edit(request: HttpRequest, pk: int) -> Edit:
    """Lock the draft and return it if `If-Match` names it."""
    edit = _lock_edit(pk)
    demand_match(request, EditOut.from_orm(edit), f"GET /edits/{pk}")
    return edit


def _lock_edit(pk: int) -> Edit:
    if not Edit.objects.select_for_update().filter(pk=pk).exists():
        raise NotFound("There is no such edit.")
    return services.find_edit(pk)


@router.post(
    "/edits/{pk}/drop", auth=require_scope("review"), response=EditOut, openapi_extra=describe_required_match(EDIT)
)
def drop_edit(request: HttpRequest, pk: Id) -> Edit:
    """Drop the caller's draft. `If-Match` is required."""
    with transaction.atomic():
        _lock_matched_edit(request, pk)
        return services.drop_edit(get_acting_user(request), pk)


@router.post("/edits/{pk}/cases", auth=require_scope("review"), response=EditCasesOut)
def run_edit_cases(request: HttpRequest, pk: Id) -> Any:
    """Run the tool's cases of the newest assessment on the draft, within seconds. No model is asked."""
    edit = services.find_edit(pk)
    if edit.kind != EditKind.PROGRAM:
        raise InputError("Only a tool or a program has cases.")
    try:
        proposed = propose_program(edit)
    except ProgramError as error:
        raise InputError(str(error)) from error
    require_readable(proposed)
    newest = find_assessment(edit.version)
    people = load_person_verdicts(newest.version_id if newest is not None else 0, edit.tool)
    case_runs = run_cases(get_default_sandbox(), proposed.program, list_cases(newest, edit.tool, people), people)
    cases = [
        {
            "case_id": run.case.pk, "position": run.case.position, "verdict": run.case.verdict, "became": run.word,
            "counts_as": run.counts, "changed": run.changed, "expected": run.expected,
        }
        for run in case_runs.runs
    ]  # fmt: skip
    counts = {name: getattr(case_runs, name) for name in ("mended", "broken", "other", "same", "not_run", "seconds")}
    return {**counts, "cases": cases}


@router.post(
    "/edits/{pk}/forecast",
    auth=require_scope("review"),
    response={202: JobOut},
    openapi_extra=describe_optional_match(EDIT),
)
def start_edit_forecast(request: HttpRequest, pk: Id) -> Any:
    """Compute what saving the draft would do. The job reports the progress."""
    with transaction.atomic():
        require_match(request, EditOut.from_orm(_lock_edit(pk)))
        forecast = services.start_forecast(get_acting_user(request), pk)
        return 202, get_object_or_404(Job, pk=forecast.job_id)


@router.get("/edits/{pk}/forecast", auth=require_scope("read"), response=ForecastOut)
def get_edit_forecast(request: HttpRequest, pk: Id) -> Any:
    """Return the newest forecast of an edit."""
    edit = services.find_edit(pk)
    forecast = services.find_newest_forecast(edit)
    if forecast is None:
        raise NotFound("What saving this edit would do was not worked out yet.")
    return _serialize_forecast(edit, forecast)


def _serialize_forecast(edit: Edit, forecast: Forecast) -> dict[str, Any]:
    names = ("state", "why", "tasks", "stored", "executed", "sampled", "seconds")
    lines = forecast.lines.defer("audit").prefetch_related("runs").order_by("task")
    return {
        "edit_id": edit.pk,
        "holds": is_forecast_valid(forecast, edit),
        "datasets": forecast.facts.get("datasets", {}),
        "golden_states": forecast.facts.get("golden_states", 0),
        "lines": list(lines),
        **{name: getattr(forecast, name) for name in names},
    }


@router.post(
    "/edits/{pk}/save",
    auth=require_scope("review"),
    response={202: JobOut},
    openapi_extra=describe_required_match(EDIT),
)
def save_edit(request: HttpRequest, pk: Id) -> Any:
    """Save the draft by a job: a further version with its tasks, or a further revision. `If-Match` is required."""
    with transaction.atomic():
        edit = _lock_matched_edit(request, pk)
        return 202, services.start_save(get_acting_user(request), pk, edit.serial)


@router.post("/tools/{pk}/repair", auth=require_scope("synthesise"), response={202: JobOut})
def repair_tool(request: HttpRequest, pk: Id) -> Any:
    """Ask the author model for a repair of a tool. Its reply becomes a draft of the caller."""
    return 202, services.start_repair(
        get_acting_user(request), get_object_or_404(Tool.objects.select_related("version"), pk=pk)
    )
