"""API of evaluations: their list, results and comparison. They are created as training jobs are."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from webapp.rest.auth import needs
from webapp.rest.openai_lists import PublicId, paged
from webapp.rest.problems import Problem
from webapp.runs.evaluations import evaluation_list
from webapp.runs.evaluations.comparison import compare
from webapp.runs.evaluations.evaluation_list import EvaluationLine
from webapp.runs.evaluations.results import results_of
from webapp.runs.evaluations.schemas import (
    EvaluationComparisonOut,
    EvaluationComparisonQuery,
    EvaluationList,
    EvaluationOut,
    EvaluationsQuery,
)

router = Router(tags=["training"])


@router.get("/fine_tuning/evaluations", auth=needs("read"), response=EvaluationList)
def list_evaluations(request: HttpRequest, query: Query[EvaluationsQuery]) -> Any:
    """Evaluations, newest first. They are training jobs of the method `evaluation`: create, pause, resume and cancel
    them there."""
    rows, more = paged(evaluation_list.evaluations(query.dataset), query.after, query.limit)
    return {"data": [_line(line) for line in evaluation_list.lines(rows)], "has_more": more}


@router.get("/fine_tuning/evaluations/comparison", auth=needs("read"), response=EvaluationComparisonOut)
def compare_evaluations(request: HttpRequest, query: Query[EvaluationComparisonQuery]) -> Any:
    """Two or more evaluations side by side, and every two of them task by task: won, tied, lost."""
    jobs = evaluation_list.named(part.strip() for part in query.jobs.split(",") if part.strip())
    return compare(jobs, query.horizon).model_dump()


@router.get("/fine_tuning/jobs/{job}/evaluation", auth=needs("read"), response=EvaluationOut)
def get_evaluation(request: HttpRequest, job: PublicId) -> Any:
    """What an evaluation's attempts come to so far, by horizon: reward, success, pass@k, max@k, turns, tokens."""
    row = evaluation_list.evaluations().filter(public_id=job).first()
    if row is None:
        raise Problem(404, f"There is no evaluation {job[:60]!r}. GET /fine_tuning/evaluations lists them.")
    return results_of(row).model_dump()


def _line(line: EvaluationLine) -> dict[str, Any]:
    job = line.job
    told = {name: getattr(line, name) for name in ("horizon", "attempts", "left_out", "success")}
    return {
        "id": job.public_id,
        "name": str(job),
        "status": job.state,
        "model": job.model,
        "dataset": job.dataset.public_id,
        **told,
    }
