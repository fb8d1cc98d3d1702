"""Pages of assessments: a part of the environment's page, the case of a call, and the button that re-runs all."""

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
from webapp.accounts.access import access
from webapp.content_store import load
from webapp.environments import assessment_queries as queries
from webapp.environments import assessment_services
from webapp.environments.evidence import version_runs
from webapp.environments.models import Assessment, CaseState, Environment, ToolCase, Version
from webapp.forms import filter_bar
from webapp.htmx import wants_fragment
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.rest.api_examples import api_call

CASES_A_PAGE = 30


@dataclass(frozen=True)
class Rate:
    """One line of the table of tools; shares are None where the tool was not tried that way."""

    tool: str
    passed: int
    warned: int
    failed: int
    positive: int
    negative: int
    positive_share: float | None
    negative_share: float | None
    positive_done: int | None


def rate_of(rate: ToolRate) -> Rate:
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


def assessment_tab(request: HttpRequest, environment: Environment, version: Version) -> dict[str, Any]:
    """The assessment that `?assessment=` names, else the newest of this version, with a page of its cases."""
    known = queries.of_version(version.pk)
    params = Params(request.GET)
    asked = params.id("assessment")
    row = next((row for row in known if row.pk == asked), known[0] if known else None)
    runs = version_runs.run_context(version)
    if row is None:
        return {"assessment": None} | runs
    chosen = {
        "verdict": params.choice("verdict", queries.VERDICTS),
        "case": params.choice("case", queries.CASES),
        "rerun": params.choice("rerun", queries.RERUNS),
        "tool": params.text("tool"),
    }
    return (
        _head(row)
        | runs
        | {
            "assessments": known,
            "chosen": chosen,
            "filter_form": filter_form(row, version, chosen, params),
            "page": keyset(request, queries.cases(row.pk, **chosen), "position", CASES_A_PAGE),
            "copy_as": api_call(request, "GET", "api:list_tool_cases", args=(row.pk,), query=chosen),
        }
    )


def filter_form(row: Assessment, version: Version, chosen: dict[str, str], params: Params) -> filter_bar.FilterForm:
    shown = {"version": params.text("version") and version.number, "assessment": params.text("assessment") and row.pk}
    fields = {
        **filter_bar.hidden({"tab": "assessment", **shown}),
        "verdict": filter_bar.select("Verdict", queries.VERDICTS),
        "tool": filter_bar.select("Tool", [rate["tool"] for rate in row.rates]),
        "case": filter_bar.select("Case", queries.CASES),
    }
    if row.rerun_at:
        fields["rerun"] = filter_bar.select("Re-run", queries.RERUNS)
    return filter_bar.FilterForm(chosen, fields)


def note_lines(row: Assessment) -> list[tuple[str, int | None]]:
    """The notes of an assessment, each with the number of the repair that it tells of, if it does."""
    numbers = {repair["tool"]: number for number, repair in enumerate(row.repairs)}
    return [(note, numbers.get(note.partition(" ")[0])) for note in row.notes]


def _head(row: Assessment) -> dict[str, Any]:
    rates = [rate_of(ToolRate.model_validate(rate)) for rate in row.rates]
    return {
        "assessment": row,
        "notes": note_lines(row),
        "rates": rates,
        "untried": sum(rate.positive_share is None or rate.negative_share is None for rate in rates),
        "never_done": sum(bool(rate.positive) and rate.positive_done == 0 for rate in rates),
        "rerun_job": assessment_services.open_rerun(row),
    }


@access("read")
@require_safe
@never_cache
def assessment(request: HttpRequest, pk: int) -> HttpResponse:
    """The head of one assessment, as it follows a re-run; else the page that it is a part of."""
    row = get_object_or_404(Assessment.objects.select_related("version"), pk=pk)
    if not wants_fragment(request, "assessment"):
        return redirect(_page_of(row))
    return render(request, "environments/assessment/head.html", _head(row))


@access("read")
@require_safe
def case(request: HttpRequest, pk: int) -> HttpResponse:
    """One call with everything that is known of it; as a fragment the state before it."""
    row = get_object_or_404(ToolCase.objects.select_related("assessment__version__environment"), pk=pk)
    context = {
        "case": row,
        "assessment": row.assessment,
        "environment": row.assessment.version.environment,
        "assessment_page": _page_of(row.assessment),
        "before": load(CaseState, row.state_id),
    }
    fragment = wants_fragment(request, f"state-{pk}")
    return render(request, "environments/case/state.html" if fragment else "environments/case.html", context)


@access("synthesise")
@require_POST
def start_rerun(request: HttpRequest, pk: int) -> HttpResponse:
    """Re-run the cases of an assessment; its page shows how it goes."""
    row = get_object_or_404(Assessment.objects.select_related("version"), pk=pk)
    assessment_services.start_rerun(request.user, row)
    messages.success(request, "The re-run is queued. No model is asked.")
    return redirect(_page_of(row))


def _page_of(row: Assessment) -> str:
    page = reverse("environments:detail", args=[row.version.environment_id])
    return f"{page}?tab=assessment&version={row.version.number}&assessment={row.pk}"
