from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.accounts.services import audit
from webapp.environments.findings import grouped
from webapp.environments.models import Environment
from webapp.forms.filter_bar import Chip, without
from webapp.htmx import wants_fragment
from webapp.lists.list_context import shown_list
from webapp.query_params import LARGEST_ID, Params, whole_number
from webapp.rest.api_examples import list_call
from webapp.scenarios import queries
from webapp.scenarios.answers.answer_form import (
    list_answer_rows,
    list_form_rows,
    propose_answer_form,
    read_form_and_expected,
)
from webapp.scenarios.audits.page import audit_context
from webapp.scenarios.blueprints.page import blueprint_context, read_blueprint
from webapp.scenarios.check_table import checks_context
from webapp.scenarios.exporter import attachment
from webapp.scenarios.frames.page import frame_context
from webapp.scenarios.golden.page import golden_context
from webapp.scenarios.models import Check, Scenario, Task, TaskRevision
from webapp.scenarios.playground.services import cached_state
from webapp.scenarios.reference_steps import executed_reference
from webapp.scenarios.references import reference_of
from webapp.scenarios.schemas import TaskQuery
from webapp.scenarios.state_views import state_response
from webapp.scenarios.task_filters import TASKS, read_filters
from webapp.scenarios.verifiers import read_shown_source
from webapp.scenarios.withheld.page import withheld_context

FINDINGS_SHOWN = 1_000
BLUEPRINT = "blueprint"
TABS = {"task": "Task", BLUEPRINT: "Blueprint", "audit": "Audit", "attempts": "Attempts"}


@access("read")
@require_safe
def tasks(request: HttpRequest) -> HttpResponse:
    """Every task, filtered and sorted by the URL."""
    filters = read_filters(request.GET)
    wanted = filters.values
    page = queries.tasks_page(request, wanted)
    named = None
    environment = whole_number(str(wanted.get("environment", "")), 1, LARGEST_ID)
    if environment is not None:
        named = Environment.objects.filter(pk=environment).only("name").first()
    context = {
        "filters": filters,
        "page": page,
        "list": shown_list(request, TASKS, page, filters.form(), _linked_chips(request, wanted, named)),
        "wanted": wanted,
        "narrowed": [name for name in wanted if name != "sort"],
        "any_task": bool(page.rows) or Task.objects.exists(),
        "copy_as": list_call(request, "api:list_tasks", TaskQuery),
    }
    return render(request, "scenarios/tasks.html", context)


def _linked_chips(request: HttpRequest, wanted: dict[str, Any], named: Environment | None) -> list[Chip]:
    """The filters that come with a link: an environment by its number, ticked rows."""
    chips = []
    if named is not None:
        page = reverse("environments:detail", args=[named.pk])
        chips.append(Chip("Only of", named.name, without(request, "environment"), page=page))
    if "ids" in wanted:
        chips.append(Chip("Selected", f"{len(wanted['ids'])} of the list", without(request, "ids")))
    if "leave_out" in wanted:
        chips.append(Chip("Without", wanted["leave_out"], without(request, "leave_out")))
    return chips


def shown_revision(request: HttpRequest, task: Task) -> TaskRevision | None:
    number = Params(request.GET).number("revision")
    if number is None:
        return task.current
    return get_object_or_404(task.revisions.defer("record"), number=number)


@access("read")
@require_safe
def task(request: HttpRequest, pk: int) -> HttpResponse:
    """One task: what is asked, from which state, what judges it, and what doing nothing earns."""
    row = queries.find_task(pk)
    revision = shown_revision(request, row)
    context: dict[str, Any] = {
        "task": row,
        "revision": revision,
        "is_current": revision is not None and revision.pk == row.current_id,
        "made_here": row.source in queries.MADE_HERE,
    }
    if revision is not None:
        context |= checks_context(request, row, revision)
        context["groups"] = grouped(revision.findings.defer("data").order_by("id")[:FINDINGS_SHOWN])
    if wants_fragment(request, "checks"):
        return render(request, "scenarios/checks.html", context)
    if revision is not None:
        context |= audit_context(row, revision) | frame_context(row, revision) | golden_context(row, revision)
        context |= withheld_context(row, revision)
        context["form_rows"] = list_form_rows(*read_form_and_expected(revision))
        if revision.superseded:
            proposed = context["proposed"] = propose_answer_form(revision)
            rows = list_form_rows(proposed.answer_form, proposed.expected_answer) if proposed is not None else []
            context["proposed_rows"] = rows
    blueprint = read_blueprint(revision) if revision is not None else None
    tabs = {key: label for key, label in TABS.items() if blueprint or key != BLUEPRINT}
    tab = Params(request.GET).choice("tab", tabs, "task")
    if revision is not None and blueprint is not None and tab == BLUEPRINT:
        context |= blueprint_context(revision, blueprint, dict(row.scenario.version.tools.values_list("name", "kind")))
    context |= {"tab": tab, "tabs": list(tabs.items())}
    context["revisions"] = list(row.revisions.only("number", "created_at", "do_nothing").order_by("-number")[:50])
    return render(request, "scenarios/task.html", context)


@access("read")
@require_safe
def check(request: HttpRequest, pk: int) -> HttpResponse:
    """One check's source: a fragment in the table, a page of its own without JavaScript."""
    row = get_object_or_404(Check.objects.select_related("revision__task").defer("revision__record"), pk=pk)
    template = "scenarios/check_source.html" if wants_fragment(request) else "scenarios/check.html"
    row.source = read_shown_source(row)
    return render(request, template, {"check": row})


@access("read")
@require_safe
def reference(request: HttpRequest, pk: int) -> HttpResponse:
    """The reference of the current revision, executed: a part of a page, and a page of its own."""
    context = _executed(pk)
    part = wants_fragment(request)
    return render(request, "scenarios/reference_part.html" if part else "scenarios/reference.html", context)


@access("read")
@require_safe
def records(request: HttpRequest, pk: int) -> HttpResponse:
    """The records that the task is about, before and after its reference: a part of a page, and a page of its own."""
    part = wants_fragment(request)
    return render(request, "scenarios/records_part.html" if part else "scenarios/records.html", _executed(pk))


def _executed(pk: int) -> dict[str, Any]:
    row = queries.find_task(pk)
    known = reference_of(row.current) if row.current is not None else None
    executed = None
    if known is not None:
        executed = executed_reference(row.scenario.version_id, row.scenario.initial_id, known.pk)
    rows = list_answer_rows(row.current, known.answer) if row.current is not None and known is not None else []
    return {"task": row, "reference": known, "executed": executed, "reference_rows": rows}


@access("read")
@require_safe
def task_diff(request: HttpRequest, pk: int, a: int, b: int) -> HttpResponse:
    """What changed between two revisions of a task."""
    row = get_object_or_404(Task.objects.select_related("environment"), pk=pk)
    old = get_object_or_404(row.revisions.defer("record"), number=a)
    new = get_object_or_404(row.revisions.defer("record"), number=b)
    parts = queries.revision_diff(old, new)
    return render(request, "scenarios/task_diff.html", {"task": row, "old": old, "new": new, "parts": parts})


@access("read")
@require_safe
def of_environment(request: HttpRequest, pk: int) -> HttpResponse:
    """The scenarios and tasks of an environment: a part of its page, and a page of its own."""
    environment = get_object_or_404(Environment.objects.defer("summary"), pk=pk)
    scenarios = queries.scenarios_of(environment)
    context = {"environment": environment, "scenarios": scenarios[:100], "more": len(scenarios) > 100}
    part = wants_fragment(request)
    return render(request, "scenarios/of_environment_part.html" if part else "scenarios/of_environment.html", context)


@access("read")
@require_safe
def state(request: HttpRequest, pk: int) -> HttpResponse:
    """A scenario's initial state, branch by branch."""
    row = get_object_or_404(
        Scenario.objects.select_related("environment").only("name", "initial_id", "environment__name"), pk=pk
    )
    return state_response(
        request,
        cached_state(row.initial_id),
        reverse("scenarios:state", args=[pk]),
        title=f"Initial state of {row.name}",
        back=reverse("scenarios:of_environment", args=[row.environment_id]),
        scenario=pk,
    )


@access("read")
@require_safe
def export(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """The tasks that the filters of the list leave, as EnvScaler scenarios."""
    params = Params(request.GET)
    pk = params.id("task")
    if params.unreadable:
        raise Http404
    if pk is not None:
        rows, name = Task.objects.filter(pk=pk), f"envarium-task-{pk}.json"
    else:
        rows = queries.tasks(read_filters(request.GET).values)
        name = "envarium-tasks.json"
    audit(request.user, "tasks.export", query=request.GET.urlencode()[:500])
    return attachment(rows, name)
