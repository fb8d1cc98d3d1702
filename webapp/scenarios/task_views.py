from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.accounts.services import write_audit_entry
from webapp.common.forms.filter_bar import Chip, build_url_without
from webapp.common.htmx import render_fragment, wants_fragment
from webapp.common.lists.list_context import build_shown_list
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import LARGEST_ID, Params, parse_whole_number
from webapp.common.rest.api_examples import build_list_call
from webapp.environments.findings import group_findings
from webapp.environments.models import Environment
from webapp.scenarios import queries
from webapp.scenarios.answers.answer_form import (
    list_answer_rows,
    list_form_rows,
    propose_answer_form,
    read_form_and_expected,
)
from webapp.scenarios.audits.page import build_audit_context
from webapp.scenarios.blueprints.page import build_blueprint_context, read_blueprint
from webapp.scenarios.check_table import build_checks_context
from webapp.scenarios.exporter import build_export_response
from webapp.scenarios.frames.page import build_frame_context
from webapp.scenarios.golden.page import build_golden_context
from webapp.scenarios.measures.shown import KNOB_TITLES, attach_passes, build_measures_context, describe_knob
from webapp.scenarios.models import PASS_AT, Check, Scenario, Task, TaskRevision
from webapp.scenarios.playground.services import load_cached_state
from webapp.scenarios.programs.page import build_program_context, read_program
from webapp.scenarios.reference_steps import execute_stored_reference
from webapp.scenarios.references import find_reference
from webapp.scenarios.schemas import TaskQuery
from webapp.scenarios.state_panel import render_state
from webapp.scenarios.task_filters import TASKS, read_filters
from webapp.scenarios.verifiers import read_shown_source
from webapp.scenarios.withheld.page import build_withheld_context

FINDINGS_SHOWN = 1_000
BLUEPRINT, PROGRAM = "blueprint", "program"
TABS = {"task": "Task", BLUEPRINT: "Blueprint", PROGRAM: "Program", "audit": "Audit", "attempts": "Attempts"}


@require_scope("read")
@require_safe
def list_tasks(request: HttpRequest) -> HttpResponse:
    """List all tasks, filtered and sorted by the URL."""
    filters = read_filters(request.GET)
    values = filters.values
    page = paginate_by_keyset(request, queries.filter_tasks(values), values.get("sort") or "-id")
    attach_passes(page.rows)
    named_environment = None
    environment = parse_whole_number(str(values.get("environment", "")), 1, LARGEST_ID)
    if environment is not None:
        named_environment = Environment.objects.filter(pk=environment).only("name").first()
    context = {
        "filters": filters,
        "page": page,
        "list": build_shown_list(
            request, TASKS, page, filters.form(), _build_linked_chips(request, values, named_environment)
        ),
        "wanted": values,
        "narrowed": [name for name in values if name != "sort"],
        "any_task": bool(page.rows) or Task.objects.exists(),
        "copy_as": build_list_call(request, "api:list_tasks", TaskQuery),
    }
    return render(request, "scenarios/tasks.html", context)


def _build_linked_chips(request: HttpRequest, wanted: dict[str, Any], named: Environment | None) -> list[Chip]:
    """Return chips for the filters that come with a link: an environment by its number, ticked rows."""
    chips = []
    if named is not None:
        page = reverse("environments:detail", args=[named.pk])
        chips.append(Chip("Only of", named.name, build_url_without(request, "environment"), page=page))
    if "ids" in wanted:
        chips.append(Chip("Selected", f"{len(wanted['ids'])} of the list", build_url_without(request, "ids")))
    if "knob" in wanted:
        words = describe_knob(wanted)
        clear = build_url_without(request, "knob", "knob_from", "knob_to")
        chips.append(Chip(KNOB_TITLES[wanted["knob"]], words, clear))
    if "ten" in wanted:
        words = f"{wanted['ten']} of {PASS_AT}" + (f" by {wanted['ten_by']}" if "ten_by" in wanted else "")
        chips.append(Chip("Pass@10", words, build_url_without(request, "ten", "ten_by")))
    if "leave_out" in wanted:
        chips.append(Chip("Without", wanted["leave_out"], build_url_without(request, "leave_out")))
    return chips


def get_shown_revision(request: HttpRequest, task: Task) -> TaskRevision | None:
    number = Params(request.GET).number("revision")
    if number is None:
        return task.current
    return get_object_or_404(task.revisions.defer("record"), number=number)


@require_scope("read")
@require_safe
def show_task(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one task: its instruction, state and verifier, and the reward for doing nothing."""
    row = queries.find_task(pk)
    revision = get_shown_revision(request, row)
    context: dict[str, Any] = {
        "task": row,
        "revision": revision,
        "is_current": revision is not None and revision.pk == row.current_id,
        "made_here": row.source in queries.MADE_HERE,
    }
    if revision is not None:
        context |= build_checks_context(request, row, revision)
        context["groups"] = group_findings(revision.findings.defer("data").order_by("id")[:FINDINGS_SHOWN])
    if wants_fragment(request, "checks"):
        return render(request, "scenarios/checks.html", context)
    if revision is not None:
        context |= (
            build_audit_context(row, revision)
            | build_frame_context(row, revision)
            | build_golden_context(row, revision)
        )
        context |= build_withheld_context(row, revision) | build_measures_context(revision)
        context["form_rows"] = list_form_rows(*read_form_and_expected(revision))
        if revision.superseded:
            proposed = context["proposed"] = propose_answer_form(revision)
            rows = list_form_rows(proposed.answer_form, proposed.expected_answer) if proposed is not None else []
            context["proposed_rows"] = rows
    blueprint = read_blueprint(revision) if revision is not None else None
    program = read_program(revision) if revision is not None else None
    absent = {key for key, stored in ((BLUEPRINT, blueprint), (PROGRAM, program)) if not stored}
    tabs = {key: label for key, label in TABS.items() if key not in absent}
    tab = Params(request.GET).choice("tab", tabs, "task")
    if revision is not None and blueprint is not None and tab == BLUEPRINT:
        kinds = dict(row.scenario.version.tools.values_list("name", "kind"))
        context |= build_blueprint_context(revision, blueprint, kinds, Params(request.GET))
    if revision is not None and program is not None and tab == PROGRAM:
        context |= build_program_context(revision, program)
    context |= {"tab": tab, "tabs": list(tabs.items())}
    context["revisions"] = list(row.revisions.only("number", "created_at", "do_nothing").order_by("-number")[:50])
    return render(request, "scenarios/task.html", context)


@require_scope("read")
@require_safe
def show_check(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one check's source: a fragment in the table, a page of its own without JavaScript."""
    row = get_object_or_404(Check.objects.select_related("revision__task").defer("revision__record"), pk=pk)
    template = "scenarios/check_source.html" if wants_fragment(request) else "scenarios/check.html"
    row.source = read_shown_source(row)
    return render(request, template, {"check": row})


@require_scope("read")
@require_safe
def show_reference(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the executed reference of the current revision: a part of a page, or a page of its own."""
    context = _build_reference_context(pk)
    part = wants_fragment(request)
    return render(request, "scenarios/reference_part.html" if part else "scenarios/reference.html", context)


@require_scope("read")
@require_safe
def show_records(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the records that the task is about, before and after its reference: a part of a page, or a page of its
    own."""
    context = _build_reference_context(pk)
    if wants_fragment(request):
        return render_fragment(request, "scenarios/records.html", context)
    return render(request, "scenarios/records.html", context)


def _build_reference_context(pk: int) -> dict[str, Any]:
    row = queries.find_task(pk)
    stored_reference = find_reference(row.current) if row.current is not None else None
    executed = None
    if stored_reference is not None:
        executed = execute_stored_reference(row.scenario.version_id, row.scenario.initial_id, stored_reference.pk)
    rows = (
        list_answer_rows(row.current, stored_reference.answer)
        if row.current is not None and stored_reference is not None
        else []
    )
    return {"task": row, "reference": stored_reference, "executed": executed, "reference_rows": rows}


@require_scope("read")
@require_safe
def show_task_diff(request: HttpRequest, pk: int, a: int, b: int) -> HttpResponse:
    """Show the differences between two revisions of a task."""
    row = get_object_or_404(Task.objects.select_related("environment"), pk=pk)
    old = get_object_or_404(row.revisions.defer("record"), number=a)
    new = get_object_or_404(row.revisions.defer("record"), number=b)
    parts = queries.build_revision_diff(old, new)
    return render(request, "scenarios/task_diff.html", {"task": row, "old": old, "new": new, "parts": parts})


@require_scope("read")
@require_safe
def list_environment_tasks(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the scenarios and tasks of an environment: a part of its page, or a page of its own."""
    environment = get_object_or_404(Environment.objects.defer("summary"), pk=pk)
    scenarios = queries.list_scenarios_with_tasks(environment)
    context = {"environment": environment, "scenarios": scenarios[:100], "more": len(scenarios) > 100}
    if wants_fragment(request):
        return render_fragment(request, "scenarios/of_environment.html", context)
    return render(request, "scenarios/of_environment.html", context)


@require_scope("read")
@require_safe
def show_initial_state(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a scenario's initial state, branch by branch."""
    row = get_object_or_404(
        Scenario.objects.select_related("environment").only("name", "initial_id", "environment__name"), pk=pk
    )
    return render_state(
        request,
        load_cached_state(row.initial_id),
        reverse("scenarios:state", args=[pk]),
        title=f"Initial state of {row.name}",
        back=reverse("scenarios:of_environment", args=[row.environment_id]),
        scenario=pk,
    )


@require_scope("read")
@require_safe
def export_tasks(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """Export the tasks that the filters of the list select, as EnvScaler scenarios."""
    params = Params(request.GET)
    pk = params.id("task")
    if params.unreadable:
        raise Http404
    if pk is not None:
        rows, name = Task.objects.filter(pk=pk), f"envarium-task-{pk}.json"
    else:
        rows = queries.filter_tasks(read_filters(request.GET).values)
        name = "envarium-tasks.json"
    write_audit_entry(request.user, "tasks.export", query=request.GET.urlencode()[:500])
    return build_export_response(rows, name)
