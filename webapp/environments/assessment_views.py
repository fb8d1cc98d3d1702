"""Pages of assessments: a tab of the environment's page, the page of a call, and the button that re-runs all cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.drafts import ToolRate
from webapp.accounts.access import require_scope
from webapp.common.content_store import load_value
from webapp.common.forms import filter_bar
from webapp.common.htmx import wants_fragment
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.environments import assessment_queries as queries
from webapp.environments import assessment_services
from webapp.environments.evidence import version_runs
from webapp.environments.models import Assessment, CaseState, Environment, ToolCase, Version

CASES_A_PAGE = 30


@dataclass(frozen=True)
class Rate:
    """One line of the table of tools; a share is None if the tool was not called that way."""

    tool: str
    passed: int
    warned: int
    failed: int
    positive: int
    negative: int
    positive_share: float | None
    negative_share: float | None
    positive_done: int | None


def build_rate(rate: ToolRate) -> Rate:
    return Rate(
        rate.tool,
        rate.passed,
        rate.warned,
        rate.failed,
        rate.positive,
        rate.negative,
        rate.positive_sound / rate.positive if rate.positive else None,
        rate.negative_sound / rate.negative if rate.negative else None,
        rate.positive_done,
    )


def build_assessment_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, Any]:
    """Return the context of the assessment that `?assessment=` names, else of the newest of this version, with a page
    of its cases."""
    assessments = queries.list_version_assessments(version.pk)
    params = Params(request.GET)
    requested_id = params.id("assessment")
    row = next((row for row in assessments if row.pk == requested_id), assessments[0] if assessments else None)
    runs = version_runs.build_run_context(version)
    if row is None:
        return {"assessment": None} | runs
    chosen = {
        "verdict": params.choice("verdict", queries.VERDICTS),
        "case": params.choice("case", queries.CASES),
        "rerun": params.choice("rerun", queries.RERUNS),
        "tool": params.text("tool"),
    }
    return (
        _build_head_context(row)
        | runs
        | {
            "assessments": assessments,
            "chosen": chosen,
            "filter_form": build_filter_form(row, version, chosen, params),
            "page": paginate_by_keyset(request, queries.filter_tool_cases(row.pk, **chosen), "position", CASES_A_PAGE),
            "copy_as": build_api_call(request, "GET", "api:list_tool_cases", args=(row.pk,), query=chosen),
        }
    )


def build_filter_form(
    row: Assessment, version: Version, chosen: dict[str, str], params: Params
) -> filter_bar.FilterForm:
    hidden_values = {
        "version": params.text("version") and version.number,
        "assessment": params.text("assessment") and row.pk,
    }
    fields = {
        **filter_bar.make_hidden_fields({"tab": "assessment", **hidden_values}),
        "verdict": filter_bar.make_select("Verdict", queries.VERDICTS),
        "tool": filter_bar.make_select("Tool", [rate["tool"] for rate in row.rates]),
        "case": filter_bar.make_select("Case", queries.CASES),
    }
    if row.rerun_at:
        fields["rerun"] = filter_bar.make_select("Re-run", queries.RERUNS)
    return filter_bar.FilterForm(chosen, fields)


def build_note_lines(row: Assessment) -> list[tuple[str, int | None]]:
    """Return the notes of an assessment, each with the number of the repair that it is about, if any."""
    numbers = {repair["tool"]: number for number, repair in enumerate(row.repairs)}
    return [(note, numbers.get(note.partition(" ")[0])) for note in row.notes]


def _build_head_context(row: Assessment) -> dict[str, Any]:
    rates = [build_rate(ToolRate.model_validate(rate)) for rate in row.rates]
    return {
        "assessment": row,
        "notes": build_note_lines(row),
        "rates": rates,
        "untried": sum(rate.positive_share is None or rate.negative_share is None for rate in rates),
        "never_done": sum(bool(rate.positive) and rate.positive_done == 0 for rate in rates),
        "rerun_job": assessment_services.find_open_rerun(row),
    }


@require_scope("read")
@require_safe
@never_cache
def show_assessment(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the head of one assessment as a fragment that follows a re-run; else redirect to its page."""
    row = get_object_or_404(Assessment.objects.select_related("version"), pk=pk)
    if not wants_fragment(request, "assessment"):
        return redirect(_build_page_url(row))
    return render(request, "environments/assessment/head.html", _build_head_context(row))


@require_scope("read")
@require_safe
def show_case(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one call with all its data; as a fragment the state before it."""
    row = get_object_or_404(ToolCase.objects.select_related("assessment__version__environment"), pk=pk)
    context = {
        "case": row,
        "assessment": row.assessment,
        "environment": row.assessment.version.environment,
        "assessment_page": _build_page_url(row.assessment),
        "before": load_value(CaseState, row.state_id),
    }
    fragment = wants_fragment(request, f"state-{pk}")
    return render(request, "environments/case/state.html" if fragment else "environments/case.html", context)


@require_scope("synthesise")
@require_POST
def start_rerun(request: HttpRequest, pk: int) -> HttpResponse:
    """Re-run the cases of an assessment; its page shows the progress."""
    row = get_object_or_404(Assessment.objects.select_related("version"), pk=pk)
    assessment_services.start_rerun(request.user, row)
    messages.success(request, "The re-run is queued. No model is asked.")
    return redirect(_build_page_url(row))


def _build_page_url(row: Assessment) -> str:
    page = reverse("environments:detail", args=[row.version.environment_id])
    return f"{page}?tab=assessment&version={row.version.number}&assessment={row.pk}"
