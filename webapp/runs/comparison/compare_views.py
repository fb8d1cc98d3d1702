"""Views of the comparison of training jobs: `?job=` names each."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.query_params import Params
from webapp.runs.alerts import page as alerts
from webapp.runs.comparison import lines, table
from webapp.runs.comparison.arms import MOST_JOBS, Arm, find_named_jobs, group_into_arms
from webapp.runs.curves import clock
from webapp.runs.models import TrainingJob
from webapp.taxonomy.static_files import NAME, find_map_style_id

OFFERED = 100


@dataclass(frozen=True)
class _Asked:
    """Jobs that an address names: arms, ids of their jobs, ids that name no job, evaluations (which train nothing), and
    how many more were named than are compared."""

    arms: list[Arm]
    ids: list[str]
    missing: list[str]
    evaluations: list[TrainingJob]
    beyond: int


def _parse_request(request: HttpRequest) -> _Asked:
    texts = (text.strip() for text in Params(request.GET).texts("job", 60))
    names = list(dict.fromkeys(text for text in texts if text))
    named_jobs, missing = find_named_jobs(names)
    jobs = [job for job in named_jobs if not job.is_evaluation]
    evaluations = [job for job in named_jobs if job.is_evaluation]
    return _Asked(
        group_into_arms(jobs), [job.public_id for job in jobs], missing, evaluations, max(0, len(names) - MOST_JOBS)
    )


@require_scope("read")
@require_safe
@never_cache
def compare_jobs(request: HttpRequest) -> HttpResponse:
    """Show curves, differing settings and results of the jobs that the address names."""
    parsed = _parse_request(request)
    arms, ids = parsed.arms, parsed.ids
    jobs = [job for arm in arms for job in arm.jobs]
    large, small = lines.choose_keys(arms) if arms else ("", [])
    rows, settings = table.list_differing_settings(arms) if len(arms) > 1 else ([], 0)
    offered = TrainingJob.objects.exclude(public_id__in=ids).exclude(method="evaluation").order_by("-pk")
    offered = offered.only("public_id", "name", "method")
    if jobs:
        offered = offered.filter(method=jobs[0].method)
    open_alerts = alerts.group_alerts_by_job(jobs)
    params = Params(request.GET)
    context = {
        "arms": arms,
        "ids": ids,
        "missing": parsed.missing,
        "evaluations": parsed.evaluations,
        "beyond": parsed.beyond,
        "full": len(ids) >= MOST_JOBS,
        "most": MOST_JOBS,
        "jobs": [(job, open_alerts.get(job.pk, [])) for job in jobs],
        "small": small,
        "large": large,
        "rows": rows,
        "settings": settings,
        "results": table.build_results(arms) if arms else [],
        "offered": list(offered[:OFFERED]),
        "drawing": {
            "url": reverse("runs:compare_curves"),
            "query": "&".join(f"job={name}" for name in ids),
            "title": large,
            "axis": params.choice("x", clock.AXES, clock.AXES[0]),
        },
        "plotly": NAME,
        "map_style_id": find_map_style_id(),
    }
    return render(request, "runs/compare.html", context)


@require_scope("read")
@require_safe
@never_cache
def serve_curves(request: HttpRequest) -> JsonResponse:
    """Return lines of the arms, in the range of steps asked for."""
    arms = _parse_request(request).arms
    params = Params(request.GET)
    axis = params.choice("x", clock.AXES, clock.AXES[0])
    return JsonResponse(lines.build_drawing(arms, *params.span("from", "to"), axis))
