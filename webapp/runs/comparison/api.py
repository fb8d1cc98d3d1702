"""API of compared training jobs: differing settings, results with intervals over seeds, curves."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from webapp.common.rest.auth import require_scope
from webapp.common.rest.problems import Problem
from webapp.runs.comparison import lines, table
from webapp.runs.comparison.arms import MOST_JOBS, Arm, find_named_jobs, get_seed, group_into_arms
from webapp.runs.comparison.schemas import (
    MOST_KEYS,
    ComparedCurvesOut,
    ComparedCurvesQuery,
    JobComparisonOut,
    JobComparisonQuery,
)

router = Router(tags=["training"])


@router.get("/fine_tuning/comparison", auth=require_scope("read"), response=JobComparisonOut)
def compare_jobs(request: HttpRequest, query: Query[JobComparisonQuery]) -> Any:
    """Compare jobs side by side: those that differ by their seed alone are one arm; the settings in which arms differ,
    and their results."""
    arms = _parse_arms(query.jobs)
    rows, settings = table.list_differing_settings(arms)
    return {
        "arms": list(map(_serialize_arm, arms)),
        "settings": settings,
        "differing": [
            {"label": row.label, "values": [row.values[0] if v is None else v for v in row.values]} for row in rows
        ],
        "results": [
            {"title": row.title, "step": row.step, "arms": list(map(_serialize_result, row.results))}
            for row in table.build_results(arms)
        ],
    }


@router.get("/fine_tuning/comparison/curves", auth=require_scope("read"), response=ComparedCurvesOut)
def compare_curves(request: HttpRequest, query: Query[ComparedCurvesQuery]) -> Any:
    """Curves of the same jobs: a line an arm, averaged over its seeds at the same steps."""
    arms = _parse_arms(query.jobs)
    keys = list(dict.fromkeys(part.strip() for part in query.keys.split(",") if part.strip()))
    if not 0 < len(keys) <= MOST_KEYS:
        raise Problem(422, f"keys: name 1 to {MOST_KEYS} curves, with commas between.")
    last = max(job.step for arm in arms for job in arm.jobs)
    high = max(query.low, last if query.high is None else min(query.high, last))
    lines_by_key = lines.build_lines(arms, keys, query.low, high, query.points)
    return {"arms": list(map(_serialize_arm, arms)), "data": [{"key": key, "lines": lines_by_key[key]} for key in keys]}


def _parse_arms(text: str) -> list[Arm]:
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not 2 <= len(names) <= MOST_JOBS:
        raise Problem(422, f"jobs: name 2 to {MOST_JOBS} training jobs, with commas between; these are {len(names)}.")
    jobs, missing = find_named_jobs(names)
    if missing:
        missing_names = ", ".join(name[:60] for name in missing)
        raise Problem(404, f"There are no training jobs {missing_names}. GET /fine_tuning/jobs lists those there are.")
    tries = ", ".join(job.public_id for job in jobs if job.is_evaluation)
    if tries:
        where = "GET /fine_tuning/evaluations/comparison compares such."
        raise Problem(422, f"jobs: {tries} evaluate and train nothing. {where}")
    return group_into_arms(jobs)


def _serialize_arm(arm: Arm) -> dict[str, Any]:
    return {
        "name": arm.name,
        "jobs": [job.public_id for job in arm.jobs],
        "seeds": [get_seed(job) for job in arm.jobs],
    }


def _serialize_result(result: table.Result) -> dict[str, Any]:
    return {
        "seeds": [
            {"seed": seed, "value": value, "step": step}
            for (seed, value), step in zip(result.seeds, result.steps, strict=True)
        ],
        "mean": result.mean,
        "difference": result.difference,
    }
