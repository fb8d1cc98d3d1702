"""Views of evaluations: their list, one with its results, and several compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.errors import Unusable
from webapp.htmx import wants_fragment
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.rest.api_examples import api_call
from webapp.runs.evaluations import evaluation_list
from webapp.runs.evaluations.comparison import MOST, Comparison, compare
from webapp.runs.evaluations.figures import drawn, sweep_of
from webapp.runs.evaluations.results import HorizonResult, known_results, results_of
from webapp.runs.evaluations.statistics import Estimate
from webapp.runs.evaluations.tried_tasks import TriedTask
from webapp.runs.job_summary import sentence
from webapp.runs.models import TrainingJob
from webapp.scenarios.models import Task

LISTED_TASKS = 50
LEFT_OUT = {
    "lost": "lost to the infrastructure",
    "user_fault": "spoilt by the simulated user",
    "cancelled": "stopped",
    "repeated": "reported a second time",
    "not_believed": "not believed: executed again here, they came to something else",
}


def find(public_id: str) -> TrainingJob:
    job = evaluation_list.evaluations().filter(public_id=public_id).first()
    if job is None:
        raise Http404(f"There is no evaluation {public_id}.")
    return job


@access("read")
@require_safe
@never_cache
def evaluations(request: HttpRequest) -> HttpResponse:
    """All evaluations, or those of one dataset, each with a box to compare it."""
    dataset = Params(request.GET).text("dataset", 60)
    page = keyset(request, evaluation_list.evaluations(dataset).order_by())
    context = {
        "page": page,
        "lines": evaluation_list.lines(page.rows),
        "most": MOST,
        "here": request.get_full_path(),
        "copy_as": api_call(request, "GET", "api:list_evaluations", query={"dataset": dataset}),
    }
    template = (
        "runs/evaluations/list_part.html" if wants_fragment(request, "evaluations") else "runs/evaluations/list.html"
    )
    return render(request, template, context)


@access("read")
@require_safe
@never_cache
def evaluation(request: HttpRequest, job: str) -> HttpResponse:
    """The results of one evaluation, live while it runs."""
    row = find(job)
    results = results_of(row)
    horizon = Params(request.GET).number("horizon")
    shown = results.at_horizon(horizon) if horizon is not None else None
    shown = shown or (results.horizons[-1] if results.horizons else None)
    context = {
        "job": row,
        "results": results,
        "sentence": sentence(row.dataset),
        "rows": [horizon_row(one) for one in results.horizons],
        "shown": shown,
        "at": at_rows(shown) if shown else [],
        "tasks": _named(_lowest(known_results(row)[shown.horizon][0])) if shown else [],
        "sweep": sweep_of([results]),
        "most_tasks": LISTED_TASKS,
        "here": request.get_full_path(),
        "copy_as": api_call(request, "GET", "api:get_evaluation", args=(row.public_id,)),
    }
    part = wants_fragment(request, "evaluation")
    return render(request, "runs/evaluations/results.html" if part else "runs/evaluations/evaluation.html", context)


def horizon_row(result: HorizonResult) -> dict[str, Any]:
    """A horizon's numbers with their drawings, and in words what was left out of them."""
    return {
        "result": result,
        "reward": drawn(result.reward),
        "success": drawn(result.success),
        "left_out": left_out_words(result),
    }


def left_out_words(result: HorizonResult) -> list[str]:
    return [f"{count:,} {LEFT_OUT[why]}" for why, count in result.left_out.items()]


def at_rows(result: HorizonResult) -> list[dict[str, Any]]:
    return [{"k": one.k, "passed": drawn(one.passed), "best": drawn(one.best)} for one in result.at]


def _lowest(tasks: Sequence[TriedTask]) -> list[TriedTask]:
    """The tasks of which the least was solved, then those at which no attempt counts."""
    counted = sorted((task for task in tasks if task.tried), key=lambda task: (task.solved / task.tried, task.mean))
    return [*counted, *(task for task in tasks if not task.tried)][:LISTED_TASKS]


def _named(tasks: Sequence[TriedTask]) -> list[tuple[TriedTask, str]]:
    """Tasks with their titles; one that is not here any more has none."""
    titles = dict(Task.objects.filter(pk__in={task.task for task in tasks if task.task}).values_list("pk", "title"))
    return [(task, titles.get(task.task or 0, "")) for task in tasks]


@access("read")
@require_safe
@never_cache
def compared(request: HttpRequest) -> HttpResponse:
    """Two or more evaluations side by side, and every two of them task by task."""
    params = Params(request.GET)
    try:
        jobs = evaluation_list.named(params.texts("job", 60))
    except Unusable as error:
        messages.error(request, str(error).removeprefix("jobs: ").replace("name ", "Choose ", 1))
        return redirect("runs:evaluations")
    comparison = compare(jobs, params.number("horizon"))
    query = {"jobs": ",".join(job.public_id for job in jobs), "horizon": comparison.horizon}
    context = {
        "comparison": comparison,
        "columns": _columns(comparison),
        "rows": _rows(comparison),
        "pairs": _pairs(comparison),
        "sweep": sweep_of(comparison.evaluations),
        "datasets": len({job.dataset_id for job in jobs}),
        "address": reverse("runs:compared"),
        "chosen": [job.public_id for job in jobs],
        "copy_as": api_call(request, "GET", "api:compare_evaluations", query=query),
    }
    return render(request, "runs/evaluations/compared.html", context)


def _columns(comparison: Comparison) -> list[dict[str, Any]]:
    """Who is compared, with what of each is counted at the horizon."""
    at = comparison.horizon
    columns = []
    for number, results in enumerate(comparison.evaluations, 1):
        result = results.at_horizon(at) if at is not None else None
        columns.append(
            {
                "style": number,
                "results": results,
                "result": result,
                "left_out": left_out_words(result) if result else [],
            }
        )
    return columns


def _rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A measure a row, an evaluation a cell."""
    at = [results.at_horizon(comparison.horizon or 0) for results in comparison.evaluations]
    shares: list[tuple[str, str, list[Estimate | None]]] = [
        ("Success", "pass@1: share of attempts that solved their task", [one.success if one else None for one in at]),
        ("Mean reward", "Mean over tasks", [one.reward if one else None for one in at]),
    ]
    for k in sorted({known.k for one in at if one for known in one.at if known.k > 1}):
        found = [next((known for known in one.at if known.k == k), None) if one else None for one in at]
        about = "A task counts if one of k attempts solves it"
        shares.append((f"pass@{k}", about, [known.passed if known else None for known in found]))
        shares.append((f"max@{k}", "The best reward of k attempts", [known.best if known else None for known in found]))
    rows = [{"name": name, "about": about, "cells": [drawn(cell) for cell in cells]} for name, about, cells in shares]
    plain = [("Turns", "Mean turns of an attempt", [one and one.turns for one in at])]
    plain += [("Tokens", "Mean tokens that the model wrote in an attempt", [one and one.tokens for one in at])]
    return rows + [{"name": name, "about": about, "plain": cells} for name, about, cells in plain]


def _pairs(comparison: Comparison) -> list[dict[str, Any]]:
    """Every two, with the widths of a bar of wins, ties and losses in percent."""
    names = {results.job: results.name for results in comparison.evaluations}
    rows = []
    for pair in comparison.pairs:
        parts = [100 * count / pair.tasks if pair.tasks else 0.0 for count in (pair.wins, pair.ties, pair.losses)]
        starts = (0.0, parts[0], parts[0] + parts[1])
        bar = [
            (name, f"{start:.2f}", f"{width:.2f}")
            for name, start, width in zip(("win", "tie", "loss"), starts, parts, strict=True)
        ]
        rows.append({"pair": pair, "first": names[pair.first], "second": names[pair.second], "bar": bar})
    return rows
