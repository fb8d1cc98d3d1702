"""Views of drafts: started from a tool, a program or a task, edited, tried, and saved."""

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
from synthesis.runtime import get_default_sandbox
from webapp.accounts.access import require_scope
from webapp.common.error_responses import to_http_terms
from webapp.common.errors import ChangedMeanwhile, Conflict
from webapp.common.htmx import wants_fragment
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import LARGEST_ID, Params
from webapp.edits import services
from webapp.edits.case_marks import DeskMarks, build_desk_marks
from webapp.edits.case_runs import (
    CaseRuns,
    find_assessment,
    find_flaky_cases,
    list_cases,
    load_person_verdicts,
    run_cases,
)
from webapp.edits.forms import read_typed_draft
from webapp.edits.models import Edit, EditKind, EditState
from webapp.edits.page import build_draft_diff, build_edit_context
from webapp.edits.proposals import propose_program
from webapp.edits.stale_edit import build_stale_sides
from webapp.edits.typed_draft import build_draft_body
from webapp.edits.verifier_part import list_script_faults
from webapp.environments.models import Tool, Version
from webapp.scenarios.models import Task, TaskRevision

EDITS_A_PAGE = 50


@require_scope("read")
@require_safe
@never_cache
def list_edits(request: HttpRequest) -> HttpResponse:
    """List drafts and saved edits, newest first; optionally only the user's own."""
    params = Params(request.GET)
    state, mine = params.choice("state", EditState.values), params.flag("mine")
    rows = Edit.objects.select_related("environment", "task", "author", "saved_version", "saved_revision")
    rows = rows.defer("body", "saved_version__record", "saved_version__source", "saved_revision__record")
    rows = rows.filter(state=state) if state else rows
    rows = rows.filter(author=request.user) if mine else rows  # type: ignore[misc]
    page = paginate_by_keyset(request, rows, "-id", EDITS_A_PAGE)
    return render(request, "edits/list.html", {"page": page, "state": state, "mine": mine, "states": EditState.choices})


@require_scope("read")
@require_safe
@never_cache
def show_own_draft(request: HttpRequest) -> HttpResponse:
    """Show the part of a desk with the user's unsaved draft of the tool (`?tool=`) or task (`?task=`)."""
    params = Params(request.GET)
    draft = services.find_own_draft(request.user, tool=params.id("tool"), task=params.id("task"))
    return render(request, "edits/own_draft.html", {"draft": draft})


@require_scope("review")
@require_POST
def start_tool_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Open the person's draft of a tool: its page, or in place of the source on the desk of a failing tool."""
    tool = get_object_or_404(Tool.objects.select_related("version"), pk=pk)
    back = _get_environment_url(tool.version)
    if not wants_fragment(request, "tool-source"):
        return _open_draft(request, lambda: services.start_tool_edit(request.user, tool), back)
    try:
        row = services.find_edit(services.start_tool_edit(request.user, tool).pk)
    except Conflict as error:
        messages.error(request, str(error))
        return HttpResponseClientRedirect(back)
    return render(
        request, "edits/desk_pane.html", build_edit_context(request.user, row) | {"desk_version": tool.version_id}
    )


@require_scope("review")
@require_POST
def start_program_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Open the person's draft of a whole program."""
    version = get_object_or_404(Version.objects.select_related("environment"), pk=pk)
    return _open_draft(
        request, lambda: services.start_program_edit(request.user, version), _get_environment_url(version)
    )


@require_scope("review")
@require_POST
def start_task_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Open the person's draft of a task: its page, or in place of the changed part on the task's desk."""
    task = get_object_or_404(Task, pk=pk)
    back = reverse("scenarios:task", args=[pk])
    if not wants_fragment(request, "task-asked"):
        return _open_draft(request, lambda: services.start_task_edit(request.user, task), back)
    try:
        row = services.find_edit(services.start_task_edit(request.user, task).pk)
    except Conflict as error:
        messages.error(request, str(error))
        return HttpResponseClientRedirect(back)
    return render(request, "edits/task_pane.html", build_edit_context(request.user, row) | {"in_place": True})


@require_scope("review")
@require_POST
def restore_task(request: HttpRequest, pk: int) -> HttpResponse:
    """Start a draft that restores an earlier revision of a task."""
    revision = get_object_or_404(TaskRevision.objects.select_related("scenario"), pk=pk)
    back = reverse("scenarios:task", args=[revision.task_id])
    return _open_draft(request, lambda: services.start_task_restore(request.user, revision), back)


@require_scope("review")
@require_POST
def restore_program(request: HttpRequest, pk: int) -> HttpResponse:
    """Start a draft that restores the program of an earlier version of an environment."""
    version = get_object_or_404(Version.objects.select_related("environment__current"), pk=pk)
    return _open_draft(
        request, lambda: services.start_version_restore(request.user, version), _get_environment_url(version)
    )


def _get_environment_url(version: Version) -> str:
    return reverse("environments:detail", args=[version.environment_id])


def _open_draft(request: HttpRequest, start: Any, back: str) -> HttpResponse:
    try:
        return redirect("edits:edit", start().pk)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect(back)


@require_scope("read")
@require_safe
@never_cache
def show_edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one draft: its text, its changes, and the possible actions."""
    row = services.find_edit(pk)
    more: dict[str, Any] = {}
    other = Params(request.GET).id("against")
    if other is not None and row.kind == EditKind.PROGRAM:
        other_edit = services.find_edit(other)
        more = {"against": other_edit, "against_part": build_draft_diff(row, other_edit)}
    return _render_edit_page(request, row, **more)


def _render_edit_page(
    request: HttpRequest, row: Edit, *, given: dict[str, Any] | None = None, status: int = 200, **more: Any
) -> HttpResponse:
    template = "edits/program.html" if row.kind == EditKind.PROGRAM else "edits/task.html"
    return render(request, template, build_edit_context(request.user, row, given=given) | more, status=status)


@require_scope("review")
@require_POST
def keep_draft(request: HttpRequest, pk: int) -> HttpResponse:
    """Keep what is typed as the draft, then perform the action of the button."""
    row, params = services.find_edit(pk), Params(request.POST)
    given, act = read_typed_draft(row, request.POST), "case" if "case" in request.POST else params.text("act", 20)
    replaced = params.number("replace")
    serial = (params.number("serial") or 0) if replaced is None else replaced
    if act in ("add_check", "verifier_kind") and wants_fragment(request, "checks"):
        return render(request, "edits/task/checks.html", build_edit_context(request.user, row, given=given))
    if act.startswith("form_") and wants_fragment(request, "answer-form"):
        return render(request, "edits/task/answer_form.html", build_edit_context(request.user, row, given=given))
    if act in ("add_check", "verifier_kind") or act.startswith("form_"):
        return _render_edit_page(request, row, given=given)
    try:
        body, state = build_draft_body(row, given)
        row = services.keep_draft(request.user, pk, body, serial, state=state, why=given["why"])
        if act in ("cases", "failing", "flaky", "case"):
            return _render_case_runs(request, row, act)
        return _perform_action(request, row, act)
    except (InputError, InfrastructureError) as error:
        for target, template in (("case-results", "edits/case_results.html"), ("edit-kept", "edits/kept.html")):
            if wants_fragment(request, target):
                # Changes of others are not overwritten: the form keeps the serial that it was refused for.
                context = {"edit": row, "refused": str(error), "fragment": not isinstance(error, ChangedMeanwhile)}
                context |= _list_typed_faults(given)
                context |= {"part_alone": True, "overtaken": _is_overtaken(error), "wrong_rows": given.get("form_rows")}
                if target == "case-results":
                    context["marks"] = _build_marks(request, row, None)
                return render(request, template, context)
        return _render_refusal(request, pk, error, given, serial)


def _list_typed_faults(given: dict[str, Any]) -> dict[str, Any]:
    """Return the faults of the typed script, to be shown at its fields."""
    verifier = given.get("verifier", {})
    return {"script_faults": list_script_faults(verifier)} if verifier.get("kind") == "script" else {}


def _is_overtaken(error: Exception) -> bool:
    """Return whether another tab of the author has written the draft since."""
    return isinstance(error, ChangedMeanwhile) and "serial" in error.facts


def _render_refusal(
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
    sides = {"sides": build_stale_sides(row, given)} if isinstance(error, ChangedMeanwhile) else {}
    status = to_http_terms(error).status
    overtaken = {"overtaken": True, "sent_serial": serial} if given is not None and _is_overtaken(error) else {}
    return _render_edit_page(request, row, given=given, status=status, refused=str(error), **sides, **overtaken)


@require_scope("review")
@require_POST
def save_draft(request: HttpRequest, pk: int) -> HttpResponse:
    """Save the draft as it is from the page of its forecast."""
    try:
        services.start_save(request.user, pk, Params(request.POST).number("serial") or 0)
    except ChangedMeanwhile as error:
        return _render_refusal(request, pk, error, None)
    except InputError as error:
        messages.error(request, str(error))
    return redirect("edits:edit", pk)


def _perform_action(request: HttpRequest, row: Edit, act: str) -> HttpResponse:
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
        return render(request, "edits/kept.html", _build_fragment_context(request, row) | {"kept": True})
    messages.success(request, "The draft is kept. Nothing of it counts until it is saved.")
    return redirect("edits:edit", row.pk)


def _build_fragment_context(request: HttpRequest, row: Edit) -> dict[str, Any]:
    """Build the context of the part of a draft's page that shows its cases and changes."""
    return build_edit_context(request.user, row) | {"fragment": True}


def _render_case_runs(request: HttpRequest, row: Edit, act: str) -> HttpResponse:
    """Run the tool's cases on the draft. Raises InputError, InfrastructureError."""
    if row.kind != EditKind.PROGRAM:
        raise InputError("Only a tool has cases.")
    try:
        proposed = propose_program(row)
    except ProgramError as error:
        raise InputError(str(error)) from error
    if proposed.fatal:
        raise InputError(" ".join(proposed.fatal))
    assessment = find_assessment(row.version)
    people = load_person_verdicts(assessment.version_id if assessment is not None else 0, row.tool)
    cases = list_cases(assessment, row.tool, people, failing=act == "failing")
    if act == "case":
        case_id = Params(request.POST).id("case")
        cases = [case for case in cases if case.pk == case_id]
    context: dict[str, Any] = {"edit": row, "assessment": assessment, "act": act, "case_count": len(cases)}
    if act == "flaky":
        context["flaky"], context["repeated"] = find_flaky_cases(get_default_sandbox(), proposed.program, cases)
        context["unrepeated"] = len(cases) - context["repeated"]
    else:
        context["results"] = run_cases(get_default_sandbox(), proposed.program, cases, people)
    if wants_fragment(request, "case-results"):
        context["marks"] = _build_marks(request, row, context.get("results"))
        return render(request, "edits/case_results.html", _build_fragment_context(request, row) | context)
    return _render_edit_page(request, row, **context)


def _build_marks(request: HttpRequest, row: Edit, results: CaseRuns | None) -> DeskMarks | None:
    """Return the marks of the run on the cases of the requesting desk; None if no desk requested it."""
    assessment_id = Params(request.POST).id("marks")
    return build_desk_marks(row, assessment_id, results) if assessment_id is not None and row.tool else None


@require_scope("read")
@require_safe
@never_cache
def show_saving(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the progress of an edit that was saved from a desk, as a part of the desk.

    A page that waited (`waited`), or shows a revision (`shown`, its id) that is not the current one, is reloaded.
    """
    row = services.find_edit(pk)
    params = Params(request.GET)
    shown_id = params.number("shown", high=LARGEST_ID)
    is_behind = row.task is not None and shown_id not in (None, row.task.current_id or 0)
    if row.state == EditState.SAVED and (params.flag("waited") or is_behind):
        return HttpResponseClientRefresh()
    return render(request, "edits/saving_note.html", build_edit_context(request.user, row))


@require_scope("review")
@require_POST
def drop_draft(request: HttpRequest, pk: int) -> HttpResponse:
    """Drop a draft."""
    return _change_draft(request, pk, services.drop_edit, "The draft is dismissed. You can restore it here.")


@require_scope("review")
@require_POST
def reopen_draft(request: HttpRequest, pk: int) -> HttpResponse:
    """Open a dropped draft again."""
    return _change_draft(request, pk, services.reopen_draft, "The draft is open again.")


@require_scope("review")
@require_POST
def copy_draft(request: HttpRequest, pk: int) -> HttpResponse:
    """Create a draft of the user's own with the same content."""
    return _change_draft(request, pk, services.copy_edit, "This copy is yours to change.")


@require_scope("review")
@require_POST
def renew_draft(request: HttpRequest, pk: int) -> HttpResponse:
    """Put a draft on the current version or revision."""
    return _change_draft(
        request, pk, services.renew_base, "The draft is now based on the current version. Look at what it changes."
    )


def _change_draft(request: HttpRequest, pk: int, act: Any, words: str) -> HttpResponse:
    try:
        row = act(request.user, pk)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("edits:edit", pk)
    messages.success(request, words)
    return redirect("edits:edit", row.pk)


@require_scope("synthesise")
@require_POST
def start_tool_repair(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask the author model for a repair of a tool; its reply becomes a draft of the user."""
    tool = get_object_or_404(Tool.objects.select_related("version"), pk=pk)
    try:
        job = services.start_repair(request.user, tool)
    except Conflict as error:
        messages.error(request, str(error))
        return redirect(_get_environment_url(tool.version))
    messages.success(request, "The author model is asked. Its repair will be a draft that you can compare and change.")
    return redirect("jobs:detail", job.pk)
