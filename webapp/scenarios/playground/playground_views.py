"""Trying tools: a live episode of one's own, kept as rows and shown call by call."""

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
from webapp.accounts.access import access
from webapp.environments.models import Version
from webapp.query_params import LARGEST_ID, Params
from webapp.scenarios.models import Playground, Scenario
from webapp.scenarios.playground import page
from webapp.scenarios.playground import services as service
from webapp.scenarios.state_views import state_response

UNAVAILABLE = (
    "The sandbox cannot start on this server, so no tool can run: {error} "
    "Ask an operator to look at /healthz, which names the layer that is missing. Nothing was changed."
)


def said(error: EnvariumError) -> str:
    if isinstance(error, SandboxUnavailable):
        return UNAVAILABLE.format(error=error)
    if isinstance(error, ProgramEnded):
        return f"The program ended while it started: {error}. Nothing was changed; try again or look at its source."
    if isinstance(error, InfrastructureError):
        return f"The sandbox failed: {error} Nothing was changed; try again."
    return str(error)


def sent_number(request: HttpRequest, name: str) -> int:
    """A number of the form that was sent; 0 where it is none."""
    return Params(request.POST).number(name, high=LARGEST_ID) or 0


def find(pk: int) -> Playground:
    rows = Playground.objects.select_related("version__environment", "scenario", "user", "start").defer(
        "version__source", "version__record", "version__state_schema", "version__introduction", "start__body"
    )
    return get_object_or_404(rows, pk=pk)


def own(request: HttpRequest, pk: int) -> Playground:
    """The playground, if it is this person's: nobody acts in another one's."""
    rows = Playground.objects.select_related("version", "scenario", "user", "start").defer("start__body")
    return get_object_or_404(rows, pk=pk, user=request.user)


@access("review")
@require_safe
def try_version(request: HttpRequest, pk: int) -> HttpResponse:
    """Where to start: the scenarios of a version, an empty state, and one's latest playgrounds on it."""
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


@access("review")
@require_POST
def try_new(request: HttpRequest) -> HttpResponse:
    """A new playground on a version, from a scenario's initial state or an empty one."""
    version = get_object_or_404(Version.objects.defer("record"), pk=sent_number(request, "version"))
    scenario = None
    if request.POST.get("scenario"):
        rows = Scenario.objects.filter(version=version)
        scenario = get_object_or_404(rows, pk=sent_number(request, "scenario"))
    try:
        row = service.create(request.user, version, scenario)
    except EnvariumError as error:
        messages.error(request, said(error))
        return redirect("scenarios:try", version.pk)
    return redirect("scenarios:playground", row.pk)


@access("read")
@require_safe
def playground(request: HttpRequest, pk: int) -> HttpResponse:
    row = find(pk)
    return render(request, "scenarios/playground.html", page.context(request, row))


def back(row: Playground, *, at: int | None = None, tool: str = "", anchor: str = "", **more: str) -> HttpResponse:
    wanted = {"tool": tool, **more} | ({"at": str(at)} if at is not None else {})
    query = urlencode({key: value for key, value in wanted.items() if value})
    url = reverse("scenarios:playground", args=[row.pk])
    return redirect(f"{url}{'?' if query else ''}{query}{'#' if anchor else ''}{anchor}")


@access("review")
@require_POST
def run(request: HttpRequest, pk: int) -> HttpResponse:
    """Run one call. What is wrong with the arguments as typed comes back with them, and nothing runs."""
    row = own(request, pk)
    tool = page.find_tool(row, request.POST.get("tool", ""))
    if tool is None:
        messages.error(request, "Choose a tool of this environment.")
        return back(row)
    validation = cast(Validation, "source" if request.POST.get("validation") == "source" else "schema")
    form = page.read_form(request.POST, tool)
    if form.failed:
        context = page.context(request, row, tool=tool, form=form, validation=validation)
        return render(request, "scenarios/playground.html", context, status=422)
    try:
        call = service.run_call(row, sent_number(request, "serial"), tool.name, form.arguments, validation)
    except EnvariumError as error:
        row.refresh_from_db()
        messages.error(request, said(error))
        context = page.context(request, row, tool=tool, form=form, validation=validation)
        return render(request, "scenarios/playground.html", context, status=409)
    return back(row, at=call.index, tool=tool.name, anchor="result", raw="1" if form.raw else "")


@access("review")
@require_POST
def undo(request: HttpRequest, pk: int) -> HttpResponse:
    row = own(request, pk)
    try:
        call = service.undo(row, sent_number(request, "serial"))
    except EnvariumError as error:
        messages.error(request, said(error))
        return back(row)
    if call is not None:
        messages.success(request, f"Call {call.index} ({call.tool}) is taken back. Redo runs it again.")
    return back(row, tool=call.tool if call else "")


@access("review")
@require_POST
def redo(request: HttpRequest, pk: int) -> HttpResponse:
    row = own(request, pk)
    try:
        call = service.redo(row, sent_number(request, "serial"))
    except EnvariumError as error:
        messages.error(request, said(error))
        return back(row)
    return back(row, at=call.index, tool=call.tool, anchor="result") if call else back(row)


@access("review")
@require_POST
def reset(request: HttpRequest, pk: int) -> HttpResponse:
    row = own(request, pk)
    try:
        fresh = service.reset(row)
    except EnvariumError as error:
        messages.error(request, said(error))
        return back(row)
    messages.success(request, "Back at the beginning, in a new playground. The old one is kept with its history.")
    return back(fresh, tool=request.POST.get("tool", "")[:200])


@access("read")
@require_safe
def state(request: HttpRequest, pk: int) -> HttpResponse:
    """The state after call `at`, branch by branch."""
    row = find(pk)
    at = page.position(request, row)
    shown_state, _ = page.state_after(row, at)
    return state_response(
        request,
        shown_state,
        reverse("scenarios:playground_state", args=[pk]),
        title=f"State after call {at}" if at else "State at the start",
        back=f"{reverse('scenarios:playground', args=[pk])}?at={at}",
        changed=page.changed_paths(row, at),
        extra=f"at={at}",
    )


@access("read")
@require_safe
def calls(request: HttpRequest, pk: int) -> HttpResponse:
    """The calls with results and patches, as a JSON file."""
    row = find(pk)
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
