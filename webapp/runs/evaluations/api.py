"""API of evaluations: their list, results and comparison. They are created as training jobs are."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from webapp.common.rest.auth import require_scope
from webapp.common.rest.openai_lists import PublicId, fetch_page_or_problem
from webapp.common.rest.problems import Problem
from webapp.runs.evaluations import evaluation_list
from webapp.runs.evaluations.comparison import compare_results
from webapp.runs.evaluations.evaluation_list import EvaluationLine
from webapp.runs.evaluations.results import get_results
from webapp.runs.evaluations.schemas import (
    EvaluationComparisonOut,
    EvaluationComparisonQuery,
    EvaluationList,
    EvaluationOut,
    EvaluationsQuery,
)

router = Router(tags=["training"])


@router.get("/fine_tuning/evaluations", auth=require_scope("read"), response=EvaluationList)
def list_evaluations(request: HttpRequest, query: Query[EvaluationsQuery]) -> Any:
    """Evaluations, newest first. They are training jobs of the method `evaluation`: create, pause, resume and cancel
    them there."""
    rows, more = fetch_page_or_problem(evaluation_list.filter_evaluations(query.dataset), query.after, query.limit)
    return {"data": [_serialize_line(line) for line in evaluation_list.build_evaluation_lines(rows)], "has_more": more}


@router.get("/fine_tuning/evaluations/comparison", auth=require_scope("read"), response=EvaluationComparisonOut)
def compare_evaluations(request: HttpRequest, query: Query[EvaluationComparisonQuery]) -> Any:
    """Two or more evaluations side by side, and every two of them task by task: won, tied, lost."""
    jobs = evaluation_list.get_named_evaluations(part.strip() for part in query.jobs.split(",") if part.strip())
    return compare_results(jobs, query.horizon).model_dump()


@router.get("/fine_tuning/jobs/{job}/evaluation", auth=require_scope("read"), response=EvaluationOut)
def get_evaluation(request: HttpRequest, job: PublicId) -> Any:
    """Results of an evaluation's attempts so far, by horizon: reward, success, pass@k, max@k, turns, tokens."""
    row = evaluation_list.filter_evaluations().filter(public_id=job).first()
    if row is None:
        raise Problem(404, f"There is no evaluation {job[:60]!r}. GET /fine_tuning/evaluations lists them.")
    return get_results(row).model_dump()


def _serialize_line(line: EvaluationLine) -> dict[str, Any]:
    job = line.job
    numbers = {name: getattr(line, name) for name in ("horizon", "attempts", "left_out", "success")}
    return {
        "id": job.public_id,
        "name": str(job),
        "status": job.state,
        "model": job.model,
        "dataset": job.dataset.public_id,
        **numbers,
    }
