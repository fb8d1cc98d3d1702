"""Views of drafts: begun from a tool, a program or a task, typed in, tried, and saved."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect, HttpResponseClientRefresh

from synthesis.errors import InfrastructureError, InputError, ProgramError
from synthesis.runtime import default_sandbox
from webapp.accounts.access import access
from webapp.edits import services
from webapp.edits.case_marks import DeskMarks, desk_marks
from webapp.edits.case_runs import CaseRuns, assessment_of, cases_of, flaky_cases, people_of, run_cases
from webapp.edits.forms import body_of, typed
from webapp.edits.models import Edit, EditKind, EditState
from webapp.edits.page import against, edit_context
from webapp.edits.proposals import proposed_program
from webapp.edits.stale_edit import stale_sides
from webapp.edits.verifier_part import list_script_faults
from webapp.environments.models import Tool, Version
from webapp.error_responses import http_terms
from webapp.errors import ChangedMeanwhile, Conflict
from webapp.htmx import wants_fragment
from webapp.paging import keyset
from webapp.query_params import LARGEST_ID, Params
from webapp.scenarios.models import Task, TaskRevision

EDITS_A_PAGE = 50


@access("read")
@require_safe
@never_cache
def listing(request: HttpRequest) -> HttpResponse:
    """Drafts and saved edits, newest first; one's own by choice."""
    params = Params(request.GET)
    state, mine = params.choice("state", EditState.values), params.flag("mine")
    rows = Edit.objects.select_related("environment", "task", "author", "saved_version", "saved_revision")
    rows = rows.defer("body", "saved_version__record", "saved_version__source", "saved_revision__record")
    rows = rows.filter(state=state) if state else rows
    rows = rows.filter(author=request.user) if mine else rows  # type: ignore[misc]
    page = keyset(request, rows, "-id", EDITS_A_PAGE)
    return render(request, "edits/list.html", {"page": page, "state": state, "mine": mine, "states": EditState.choices})


@access("read")
@require_safe
@never_cache
def own_draft(request: HttpRequest) -> HttpResponse:
    """The part of a desk that says which unsaved draft the user has of the tool (`?tool=`) or task (`?task=`)."""
    params = Params(request.GET)
    draft = services.find_own_draft(request.user, tool=params.id("tool"), task=params.id("task"))
    return render(request, "edits/own_draft.html", {"draft": draft})


@access("review")
@require_POST
def start_tool(request: HttpRequest, pk: int) -> HttpResponse:
    """Open the person's draft of a tool: its page, or in the place of the source on the desk of a failing tool."""
    tool = get_object_or_404(Tool.objects.select_related("version"), pk=pk)
    back = _environment(tool.version)
    if not wants_fragment(request, "tool-source"):
        return _opened(request, lambda: services.start_tool_edit(request.user, tool), back)
    try:
        row = services.find_edit(services.start_tool_edit(request.user, tool).pk)
    except Conflict as error:
        messages.error(request, str(error))
        return HttpResponseClientRedirect(back)
    return render(request, "edits/desk_pane.html", edit_context(request.user, row) | {"desk_version": tool.version_id})


@access("review")
@require_POST
def start_program(request: HttpRequest, pk: int) -> HttpResponse:
    """Open the person's draft of a whole program."""
    version = get_object_or_404(Version.objects.select_related("environment"), pk=pk)
    return _opened(request, lambda: services.start_program_edit(request.user, version), _environment(version))


@access("review")
@require_POST
def start_task(request: HttpRequest, pk: int) -> HttpResponse:
    """Open the person's draft of a task: its page, or in the place of what it changes on the task's desk."""
    task = get_object_or_404(Task, pk=pk)
    back = reverse("scenarios:task", args=[pk])
    if not wants_fragment(request, "task-asked"):
        return _opened(request, lambda: services.start_task_edit(request.user, task), back)
    try:
        row = services.find_edit(services.start_task_edit(request.user, task).pk)
    except Conflict as error:
        messages.error(request, str(error))
        return HttpResponseClientRedirect(back)
    return render(request, "edits/task_pane.html", edit_context(request.user, row) | {"in_place": True})


@access("review")
@require_POST
def restore_task(request: HttpRequest, pk: int) -> HttpResponse:
    """A draft that gives a task what an earlier revision had."""
    revision = get_object_or_404(TaskRevision.objects.select_related("scenario"), pk=pk)
    back = reverse("scenarios:task", args=[revision.task_id])
    return _opened(request, lambda: services.start_task_restore(request.user, revision), back)


@access("review")
@require_POST
def restore_program(request: HttpRequest, pk: int) -> HttpResponse:
    """A draft that gives an environment the program of an earlier version."""
    version = get_object_or_404(Version.objects.select_related("environment__current"), pk=pk)
    return _opened(request, lambda: services.start_version_restore(request.user, version), _environment(version))


def _environment(version: Version) -> str:
    return reverse("environments:detail", args=[version.environment_id])


def _opened(request: HttpRequest, start: Any, back: str) -> HttpResponse:
    try:
        return redirect("edits:edit", start().pk)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect(back)


@access("read")
@require_safe
@never_cache
def edit(request: HttpRequest, pk: int) -> HttpResponse:
    """One draft: what is typed, what it changes, and what may be done with it."""
    row = services.find_edit(pk)
    more: dict[str, Any] = {}
    other = Params(request.GET).id("against")
    if other is not None and row.kind == EditKind.PROGRAM:
        found = services.find_edit(other)
        more = {"against": found, "against_part": against(row, found)}
    return _page(request, row, **more)


def _page(
    request: HttpRequest, row: Edit, *, given: dict[str, Any] | None = None, status: int = 200, **more: Any
) -> HttpResponse:
    template = "edits/program.html" if row.kind == EditKind.PROGRAM else "edits/task.html"
    return render(request, template, edit_context(request.user, row, given=given) | more, status=status)


@access("review")
@require_POST
def keep(request: HttpRequest, pk: int) -> HttpResponse:
    """Keep what is typed as the draft, then do what the button says."""
    row, params = services.find_edit(pk), Params(request.POST)
    given, act = typed(row, request.POST), "case" if "case" in request.POST else params.text("act", 20)
    replaced = params.number("replace")
    serial = (params.number("serial") or 0) if replaced is None else replaced
    if act in ("add_check", "verifier_kind") and wants_fragment(request, "checks"):
        return render(request, "edits/task/checks.html", edit_context(request.user, row, given=given))
    if act.startswith("form_") and wants_fragment(request, "answer-form"):
        return render(request, "edits/task/answer_form.html", edit_context(request.user, row, given=given))
    if act in ("add_check", "verifier_kind") or act.startswith("form_"):
        return _page(request, row, given=given)
    try:
        body, state = body_of(row, given)
        row = services.keep_draft(request.user, pk, body, serial, state=state, why=given["why"])
        if act in ("cases", "failing", "flaky", "case"):
            return _cases(request, row, act)
        return _acted(request, row, act)
    except (InputError, InfrastructureError) as error:
        for target, template in (("case-results", "edits/case_results.html"), ("edit-kept", "edits/kept.html")):
            if wants_fragment(request, target):
                # What others changed meanwhile is not overwritten: the form keeps the serial that it was refused for.
                told = {"edit": row, "refused": str(error), "fragment": not isinstance(error, ChangedMeanwhile)}
                told |= _typed_faults(given)
                told |= {"part_alone": True, "overtaken": _is_overtaken(error), "wrong_rows": given.get("form_rows")}
                if target == "case-results":
                    told["marks"] = _marks(request, row, None)
                return render(request, template, told)
        return _refused(request, pk, error, given, serial)


def _typed_faults(given: dict[str, Any]) -> dict[str, Any]:
    """What is wrong with the script that was typed, to be shown at its fields."""
    verifier = given.get("verifier", {})
    return {"script_faults": list_script_faults(verifier)} if verifier.get("kind") == "script" else {}


def _is_overtaken(error: Exception) -> bool:
    """Whether another tab of the author has written the draft since."""
    return isinstance(error, ChangedMeanwhile) and "serial" in error.facts


def _refused(
    request: HttpRequest,
    pk: int,
    error: InputError | InfrastructureError,
    given: dict[str, Any] | None,
    serial: int = 0,
) -> HttpResponse:
    """Show the draft's page with what was typed and why it was refused; 412 shows mine, theirs and their base.

    If another tab has written the draft since, the form keeps the serial that it was refused for: keeping it again is
    refused again until the user loads the newer draft or chooses to replace it.
    """
    row = services.find_edit(pk)
    sides = {"sides": stale_sides(row, given)} if isinstance(error, ChangedMeanwhile) else {}
    status = http_terms(error).status
    overtaken = {"overtaken": True, "sent_serial": serial} if given is not None and _is_overtaken(error) else {}
    return _page(request, row, given=given, status=status, refused=str(error), **sides, **overtaken)


@access("review")
@require_POST
def save(request: HttpRequest, pk: int) -> HttpResponse:
    """Save the draft as it stands on the page that says what saving would do."""
    try:
        services.start_save(request.user, pk, Params(request.POST).number("serial") or 0)
    except ChangedMeanwhile as error:
        return _refused(request, pk, error, None)
    except InputError as error:
        messages.error(request, str(error))
    return redirect("edits:edit", pk)


def _acted(request: HttpRequest, row: Edit, act: str) -> HttpResponse:
    if act == "forecast":
        services.start_forecast(request.user, row.pk)
        return redirect("edits:forecast", row.pk)
    if act == "save":
        services.start_save(request.user, row.pk, row.serial)
        item = Params(request.POST).id("item")
        if item is not None and wants_fragment(request, "edit-kept"):
            return HttpResponseClientRedirect(f"{reverse('review:item', args=[item])}?saving={row.pk}")
        back = reverse("edits:edit", args=[row.pk])
        return HttpResponseClientRedirect(back) if wants_fragment(request, "edit-kept") else redirect(back)
    if wants_fragment(request, "edit-kept"):
        return render(request, "edits/kept.html", _fragment(request, row) | {"kept": True})
    messages.success(request, "The draft is kept. Nothing of it counts until it is saved.")
    return redirect("edits:edit", row.pk)


def _fragment(request: HttpRequest, row: Edit) -> dict[str, Any]:
    """What the part of a draft's page needs that shows its cases, and what the draft changes."""
    return edit_context(request.user, row) | {"fragment": True}


def _cases(request: HttpRequest, row: Edit, act: str) -> HttpResponse:
    """Run the tool's cases on the draft. Raises InputError, InfrastructureError."""
    if row.kind != EditKind.PROGRAM:
        raise InputError("Only a tool has cases.")
    try:
        proposed = proposed_program(row)
    except ProgramError as error:
        raise InputError(str(error)) from error
    if proposed.fatal:
        raise InputError(" ".join(proposed.fatal))
    assessment = assessment_of(row.version)
    people = people_of(assessment.version_id if assessment is not None else 0, row.tool)
    cases = cases_of(assessment, row.tool, people, failing=act == "failing")
    if act == "case":
        one = Params(request.POST).id("case")
        cases = [case for case in cases if case.pk == one]
    found: dict[str, Any] = {"edit": row, "assessment": assessment, "act": act, "case_count": len(cases)}
    if act == "flaky":
        found["flaky"], found["repeated"] = flaky_cases(default_sandbox(), proposed.program, cases)
        found["unrepeated"] = len(cases) - found["repeated"]
    else:
        found["results"] = run_cases(default_sandbox(), proposed.program, cases, people)
    if wants_fragment(request, "case-results"):
        found["marks"] = _marks(request, row, found.get("results"))
        return render(request, "edits/case_results.html", _fragment(request, row) | found)
    return _page(request, row, **found)


def _marks(request: HttpRequest, row: Edit, results: CaseRuns | None) -> DeskMarks | None:
    """What the run marks on the cases of the desk that it was asked from; None where it was asked from no desk."""
    shown = Params(request.POST).id("marks")
    return desk_marks(row, shown, results) if shown is not None and row.tool else None


@access("read")
@require_safe
@never_cache
def saving(request: HttpRequest, pk: int) -> HttpResponse:
    """What becomes of an edit that was saved from a desk, as a part of the desk.

    A page that waited (`waited`), or shows a revision (`shown`, its id) that is not the current one, is shown anew.
    """
    row = services.find_edit(pk)
    asked = Params(request.GET)
    shown = asked.number("shown", high=LARGEST_ID)
    is_behind = row.task is not None and shown not in (None, row.task.current_id or 0)
    if row.state == EditState.SAVED and (asked.flag("waited") or is_behind):
        return HttpResponseClientRefresh()
    return render(request, "edits/saving_note.html", edit_context(request.user, row))


@access("review")
@require_POST
def drop(request: HttpRequest, pk: int) -> HttpResponse:
    """Put a draft away."""
    return _changed(request, pk, services.drop_edit, "The draft is put away. You can take it up again here.")


@access("review")
@require_POST
def take_up(request: HttpRequest, pk: int) -> HttpResponse:
    """Open a dropped draft again."""
    return _changed(request, pk, services.take_up, "The draft is open again.")


@access("review")
@require_POST
def copy(request: HttpRequest, pk: int) -> HttpResponse:
    """A draft of one's own with the same content."""
    return _changed(request, pk, services.copy_edit, "This copy is yours to change.")


@access("review")
@require_POST
def renew(request: HttpRequest, pk: int) -> HttpResponse:
    """Put a draft on what is current now."""
    return _changed(
        request, pk, services.renew_base, "The draft stands on what is current now. Look at what it changes."
    )


def _changed(request: HttpRequest, pk: int, act: Any, words: str) -> HttpResponse:
    try:
        row = act(request.user, pk)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("edits:edit", pk)
    messages.success(request, words)
    return redirect("edits:edit", row.pk)


@access("synthesise")
@require_POST
def repair(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask the author model for a repair of a tool; what it writes is a draft of the person's own."""
    tool = get_object_or_404(Tool.objects.select_related("version"), pk=pk)
    try:
        job = services.start_repair(request.user, tool)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect(_environment(tool.version))
    messages.success(request, "The author model is asked. Its repair will be a draft that you can compare and change.")
    return redirect("jobs:detail", job.pk)
