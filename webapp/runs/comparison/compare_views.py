"""Views of the comparison of training jobs: `?job=` names each."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.query_params import Params
from webapp.runs.alerts import page as alerts
from webapp.runs.comparison import lines, table
from webapp.runs.comparison.arms import MOST_JOBS, Arm, arms_of, named
from webapp.runs.curves import clock
from webapp.runs.models import TrainingJob
from webapp.taxonomy.static_files import NAME, map_style_id

OFFERED = 100


@dataclass(frozen=True)
class _Asked:
    """What an address names: arms, ids of their jobs, ids that name no job, evaluations (which train nothing), and how
    many more were named than are compared."""

    arms: list[Arm]
    ids: list[str]
    missing: list[str]
    evaluations: list[TrainingJob]
    beyond: int


def _asked(request: HttpRequest) -> _Asked:
    texts = (text.strip() for text in Params(request.GET).texts("job", 60))
    wanted = list(dict.fromkeys(text for text in texts if text))
    found, missing = named(wanted)
    jobs = [job for job in found if not job.is_evaluation]
    evaluations = [job for job in found if job.is_evaluation]
    return _Asked(arms_of(jobs), [job.public_id for job in jobs], missing, evaluations, max(0, len(wanted) - MOST_JOBS))


@access("read")
@require_safe
@never_cache
def compare(request: HttpRequest) -> HttpResponse:
    """Curves, differing settings and results of the jobs that the address names."""
    asked = _asked(request)
    arms, ids = asked.arms, asked.ids
    jobs = [job for arm in arms for job in arm.jobs]
    large, small = lines.keys_of(arms) if arms else ("", [])
    rows, settings = table.differing(arms) if len(arms) > 1 else ([], 0)
    offered = TrainingJob.objects.exclude(public_id__in=ids).exclude(method="evaluation").order_by("-pk")
    offered = offered.only("public_id", "name", "method")
    if jobs:
        offered = offered.filter(method=jobs[0].method)
    open_alerts = alerts.by_job(jobs)
    params = Params(request.GET)
    context = {
        "arms": arms,
        "ids": ids,
        "missing": asked.missing,
        "evaluations": asked.evaluations,
        "beyond": asked.beyond,
        "full": len(ids) >= MOST_JOBS,
        "most": MOST_JOBS,
        "jobs": [(job, open_alerts.get(job.pk, [])) for job in jobs],
        "small": small,
        "large": large,
        "rows": rows,
        "settings": settings,
        "results": table.results(arms) if arms else [],
        "offered": list(offered[:OFFERED]),
        "drawing": {
            "url": reverse("runs:compare_curves"),
            "query": "&".join(f"job={name}" for name in ids),
            "title": large,
            "axis": params.choice("x", clock.AXES, clock.AXES[0]),
        },
        "plotly": NAME,
        "map_style_id": map_style_id(),
    }
    return render(request, "runs/compare.html", context)


@access("read")
@require_safe
@never_cache
def curves(request: HttpRequest) -> JsonResponse:
    """Lines of the arms, in the range of steps asked for."""
    arms = _asked(request).arms
    params = Params(request.GET)
    axis = params.choice("x", clock.AXES, clock.AXES[0])
    return JsonResponse(lines.drawing(arms, *params.span("from", "to"), axis))
