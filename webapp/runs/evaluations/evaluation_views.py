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

from webapp.accounts.access import require_scope
from webapp.common.errors import Unusable
from webapp.common.htmx import render_fragment, wants_fragment
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.datasets.queries import get_sentence
from webapp.runs.evaluations import evaluation_list
from webapp.runs.evaluations.comparison import MOST, Comparison, compare_results
from webapp.runs.evaluations.figures import build_sweep, draw_estimate
from webapp.runs.evaluations.results import HorizonResult, get_results, get_results_by_horizon
from webapp.runs.evaluations.statistics import Estimate
from webapp.runs.evaluations.tried_tasks import TriedTask
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


def get_evaluation_or_404(public_id: str) -> TrainingJob:
    job = evaluation_list.filter_evaluations().filter(public_id=public_id).first()
    if job is None:
        raise Http404(f"There is no evaluation {public_id}.")
    return job


@require_scope("read")
@require_safe
@never_cache
def list_evaluations(request: HttpRequest) -> HttpResponse:
    """Show all evaluations, or those of one dataset, each with a box to compare it."""
    dataset = Params(request.GET).text("dataset", 60)
    page = paginate_by_keyset(request, evaluation_list.filter_evaluations(dataset).order_by())
    context = {
        "page": page,
        "lines": evaluation_list.build_evaluation_lines(page.rows),
        "most": MOST,
        "here": request.get_full_path(),
        "copy_as": build_api_call(request, "GET", "api:list_evaluations", query={"dataset": dataset}),
    }
    if wants_fragment(request, "evaluations"):
        return render_fragment(request, "runs/evaluations/list.html", context)
    return render(request, "runs/evaluations/list.html", context)


@require_scope("read")
@require_safe
@never_cache
def show_evaluation(request: HttpRequest, job: str) -> HttpResponse:
    """Show the results of one evaluation, live while it runs."""
    row = get_evaluation_or_404(job)
    results = get_results(row)
    horizon = Params(request.GET).number("horizon")
    horizon_result = results.at_horizon(horizon) if horizon is not None else None
    horizon_result = horizon_result or (results.horizons[-1] if results.horizons else None)
    context = {
        "job": row,
        "results": results,
        "sentence": get_sentence(row.dataset, "being frozen"),
        "rows": [build_horizon_row(one) for one in results.horizons],
        "shown": horizon_result,
        "at": build_at_rows(horizon_result) if horizon_result else [],
        "tasks": _add_titles(_sort_lowest_first(get_results_by_horizon(row)[horizon_result.horizon][0]))
        if horizon_result
        else [],
        "sweep": build_sweep([results]),
        "most_tasks": LISTED_TASKS,
        "here": request.get_full_path(),
        "copy_as": build_api_call(request, "GET", "api:get_evaluation", args=(row.public_id,)),
    }
    part = wants_fragment(request, "evaluation")
    return render(request, "runs/evaluations/results.html" if part else "runs/evaluations/evaluation.html", context)


def build_horizon_row(result: HorizonResult) -> dict[str, Any]:
    """Return a horizon's numbers with their drawings, and in words what was left out of them."""
    return {
        "result": result,
        "reward": draw_estimate(result.reward),
        "success": draw_estimate(result.success),
        "left_out": describe_left_out(result),
    }


def describe_left_out(result: HorizonResult) -> list[str]:
    return [f"{count:,} {LEFT_OUT[why]}" for why, count in result.left_out.items()]


def build_at_rows(result: HorizonResult) -> list[dict[str, Any]]:
    return [{"k": one.k, "passed": draw_estimate(one.passed), "best": draw_estimate(one.best)} for one in result.at]


def _sort_lowest_first(tasks: Sequence[TriedTask]) -> list[TriedTask]:
    """Return the tasks that were solved least, then those at which no attempt counts."""
    counted = sorted((task for task in tasks if task.tried), key=lambda task: (task.solved / task.tried, task.mean))
    return [*counted, *(task for task in tasks if not task.tried)][:LISTED_TASKS]


def _add_titles(tasks: Sequence[TriedTask]) -> list[tuple[TriedTask, str]]:
    """Return tasks with their titles, empty for deleted tasks."""
    titles = dict(Task.objects.filter(pk__in={task.task for task in tasks if task.task}).values_list("pk", "title"))
    return [(task, titles.get(task.task or 0, "")) for task in tasks]


@require_scope("read")
@require_safe
@never_cache
def show_comparison(request: HttpRequest) -> HttpResponse:
    """Show two or more evaluations side by side, and every two of them task by task."""
    params = Params(request.GET)
    try:
        jobs = evaluation_list.get_named_evaluations(params.texts("job", 60))
    except Unusable as error:
        messages.error(request, str(error).removeprefix("jobs: ").replace("name ", "Choose ", 1))
        return redirect("runs:evaluations")
    comparison = compare_results(jobs, params.number("horizon"))
    query = {"jobs": ",".join(job.public_id for job in jobs), "horizon": comparison.horizon}
    context = {
        "comparison": comparison,
        "columns": _build_columns(comparison),
        "rows": _build_rows(comparison),
        "pairs": _build_pairs(comparison),
        "sweep": build_sweep(comparison.evaluations),
        "datasets": len({job.dataset_id for job in jobs}),
        "address": reverse("runs:compared"),
        "chosen": [job.public_id for job in jobs],
        "copy_as": build_api_call(request, "GET", "api:compare_evaluations", query=query),
    }
    return render(request, "runs/evaluations/compared.html", context)


def _build_columns(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the compared evaluations, with how much of each is counted at the horizon."""
    at = comparison.horizon
    columns = []
    for number, results in enumerate(comparison.evaluations, 1):
        result = results.at_horizon(at) if at is not None else None
        columns.append(
            {
                "style": number,
                "results": results,
                "result": result,
                "left_out": describe_left_out(result) if result else [],
            }
        )
    return columns


def _build_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a row a measure, with a cell an evaluation."""
    at = [results.at_horizon(comparison.horizon or 0) for results in comparison.evaluations]
    shares: list[tuple[str, str, list[Estimate | None]]] = [
        ("Success", "pass@1: share of attempts that solved their task", [one.success if one else None for one in at]),
        ("Mean reward", "Mean over tasks", [one.reward if one else None for one in at]),
    ]
    for k in sorted({known.k for one in at if one for known in one.at if known.k > 1}):
        results_at_k = [next((known for known in one.at if known.k == k), None) if one else None for one in at]
        about = "A task counts if one of k attempts solves it"
        shares.append((f"pass@{k}", about, [known.passed if known else None for known in results_at_k]))
        shares.append(
            (f"max@{k}", "The best reward of k attempts", [known.best if known else None for known in results_at_k])
        )
    rows = [
        {"name": name, "about": about, "cells": [draw_estimate(cell) for cell in cells]}
        for name, about, cells in shares
    ]
    plain = [("Turns", "Mean turns of an attempt", [one and one.turns for one in at])]
    plain += [("Tokens", "Mean tokens that the model wrote in an attempt", [one and one.tokens for one in at])]
    return rows + [{"name": name, "about": about, "plain": cells} for name, about, cells in plain]


def _build_pairs(comparison: Comparison) -> list[dict[str, Any]]:
    """Return every two evaluations, with the widths of a bar of wins, ties and losses in percent."""
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
