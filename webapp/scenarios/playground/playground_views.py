"""Pages of the playground: a live episode of the user's own, stored as rows and shown call by call."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from synthesis.contracts import Validation
from synthesis.errors import EnvariumError, InfrastructureError, ProgramEnded, SandboxUnavailable
from webapp.accounts.access import require_scope
from webapp.common.query_params import LARGEST_ID, Params
from webapp.environments.models import Version
from webapp.scenarios.models import Playground, Scenario
from webapp.scenarios.playground import page
from webapp.scenarios.playground import services as service
from webapp.scenarios.state_panel import render_state

UNAVAILABLE = (
    "The sandbox cannot start on this server, so no tool can run: {error} "
    "Ask an operator to look at /healthz, which names the layer that is missing. Nothing was changed."
)


def describe_error(error: EnvariumError) -> str:
    if isinstance(error, SandboxUnavailable):
        return UNAVAILABLE.format(error=error)
    if isinstance(error, ProgramEnded):
        return f"The program ended while it started: {error}. Nothing was changed; try again or look at its source."
    if isinstance(error, InfrastructureError):
        return f"The sandbox failed: {error} Nothing was changed; try again."
    return str(error)


def read_sent_number(request: HttpRequest, name: str) -> int:
    """Return a number of the submitted form; 0 if it is none."""
    return Params(request.POST).number(name, high=LARGEST_ID) or 0


def get_playground(pk: int) -> Playground:
    rows = Playground.objects.select_related("version__environment", "scenario", "user", "start").defer(
        "version__source", "version__record", "version__state_schema", "version__introduction", "start__body"
    )
    return get_object_or_404(rows, pk=pk)


def get_own_playground(request: HttpRequest, pk: int) -> Playground:
    """Return the playground if it belongs to this person: a user cannot act in the playground of another one."""
    rows = Playground.objects.select_related("version", "scenario", "user", "start").defer("start__body")
    return get_object_or_404(rows, pk=pk, user=request.user)


@require_scope("review")
@require_safe
def show_start_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show where to start: the scenarios of a version, an empty state, and the user's latest playgrounds on it."""
    version = get_object_or_404(Version.objects.select_related("environment").defer("source", "record"), pk=pk)
    scenarios = Scenario.objects.filter(version=version).only("name", "task_count", "created_at").order_by("id")
    mine = Playground.objects.filter(user=cast(Any, request.user), version=version).select_related("scenario")
    context = {
        "version": version,
        "environment": version.environment,
        "scenarios": list(scenarios[:200]),
        "mine": list(mine.order_by("-id")[:20]),
    }
    return render(request, "scenarios/try.html", context)


@require_scope("review")
@require_POST
def start_playground(request: HttpRequest) -> HttpResponse:
    """Create a playground on a version, from a scenario's initial state or an empty one."""
    version = get_object_or_404(Version.objects.defer("record"), pk=read_sent_number(request, "version"))
    scenario = None
    if request.POST.get("scenario"):
        rows = Scenario.objects.filter(version=version)
        scenario = get_object_or_404(rows, pk=read_sent_number(request, "scenario"))
    try:
        row = service.create_playground(request.user, version, scenario)
    except EnvariumError as error:
        messages.error(request, describe_error(error))
        return redirect("scenarios:try", version.pk)
    return redirect("scenarios:playground", row.pk)


@require_scope("read")
@require_safe
def show_playground(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_playground(pk)
    return render(request, "scenarios/playground.html", page.build_playground_context(request, row))


def redirect_to_playground(
    row: Playground, *, at: int | None = None, tool: str = "", anchor: str = "", **more: str
) -> HttpResponse:
    parameters = {"tool": tool, **more} | ({"at": str(at)} if at is not None else {})
    query = urlencode({key: value for key, value in parameters.items() if value})
    url = reverse("scenarios:playground", args=[row.pk])
    return redirect(f"{url}{'?' if query else ''}{query}{'#' if anchor else ''}{anchor}")


@require_scope("review")
@require_POST
def run_tool_call(request: HttpRequest, pk: int) -> HttpResponse:
    """Run one call. If the submitted arguments are wrong, show them again with the errors; nothing runs then."""
    row = get_own_playground(request, pk)
    tool = page.find_tool(row, request.POST.get("tool", ""))
    if tool is None:
        messages.error(request, "Choose a tool of this environment.")
        return redirect_to_playground(row)
    validation = cast(Validation, "source" if request.POST.get("validation") == "source" else "schema")
    form = page.read_form(request.POST, tool)
    if form.failed:
        context = page.build_playground_context(request, row, tool=tool, form=form, validation=validation)
        return render(request, "scenarios/playground.html", context, status=422)
    try:
        call = service.run_call(row, read_sent_number(request, "serial"), tool.name, form.arguments, validation)
    except EnvariumError as error:
        row.refresh_from_db()
        messages.error(request, describe_error(error))
        context = page.build_playground_context(request, row, tool=tool, form=form, validation=validation)
        return render(request, "scenarios/playground.html", context, status=409)
    return redirect_to_playground(row, at=call.index, tool=tool.name, anchor="result", raw="1" if form.raw else "")


@require_scope("review")
@require_POST
def undo_call(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_own_playground(request, pk)
    try:
        call = service.undo_call(row, read_sent_number(request, "serial"))
    except EnvariumError as error:
        messages.error(request, describe_error(error))
        return redirect_to_playground(row)
    if call is not None:
        messages.success(request, f"Call {call.index} ({call.tool}) is taken back. Redo runs it again.")
    return redirect_to_playground(row, tool=call.tool if call else "")


@require_scope("review")
@require_POST
def redo_call(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_own_playground(request, pk)
    try:
        call = service.redo_call(row, read_sent_number(request, "serial"))
    except EnvariumError as error:
        messages.error(request, describe_error(error))
        return redirect_to_playground(row)
    return (
        redirect_to_playground(row, at=call.index, tool=call.tool, anchor="result")
        if call
        else redirect_to_playground(row)
    )


@require_scope("review")
@require_POST
def reset_playground(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_own_playground(request, pk)
    try:
        fresh = service.reset_playground(row)
    except EnvariumError as error:
        messages.error(request, describe_error(error))
        return redirect_to_playground(row)
    messages.success(request, "Back at the beginning, in a new playground. The old one is kept with its history.")
    return redirect_to_playground(fresh, tool=request.POST.get("tool", "")[:200])


@require_scope("read")
@require_safe
def show_state(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the state after call `at`, branch by branch."""
    row = get_playground(pk)
    at = page.get_position(request, row)
    shown_state, _ = page.load_states_around(row, at)
    return render_state(
        request,
        shown_state,
        reverse("scenarios:playground_state", args=[pk]),
        title=f"State after call {at}" if at else "State at the start",
        back=f"{reverse('scenarios:playground', args=[pk])}?at={at}",
        changed=page.list_changed_paths(row, at),
        extra=f"at={at}",
    )


@require_scope("read")
@require_safe
def download_calls(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the calls with results and patches as a JSON file."""
    row = get_playground(pk)
    fields = ("index", "tool", "arguments", "validation", "ok", "result", "error", "patch", "duration_us", "state_hash")
    body = {
        "environment": row.version.environment.key,
        "version": row.version.content_hash,
        "initial_state": row.initial_id,
        "seed": row.seed,
        "now": row.now,
        "calls": list(row.calls.values(*fields)),
    }
    response = JsonResponse(body, json_dumps_params={"indent": 1})
    response["Content-Disposition"] = f'attachment; filename="envarium-playground-{pk}.json"'
    return response
