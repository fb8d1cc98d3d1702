"""Views of a task within a training job: one step's attempts side by side, and its course over all steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from synthesis.errors import EnvariumError
from webapp.accounts.access import access
from webapp.query_params import Params
from webapp.runs.job_views import find
from webapp.runs.models import RunRollout, TrainingJob
from webapp.runs.rollouts import group, step_summary, task_course
from webapp.taxonomy.static_files import NAME, map_style_id


@access("read")
@require_safe
@never_cache
def one_group(request: HttpRequest, job: str, step: int) -> HttpResponse:
    """The attempts of a step at `?row=` (in `?setting=`), side by side."""
    found = find(job)
    file = step_summary.file_of(found, step)
    params = Params(request.GET)
    row, setting = params.text("row"), params.text("setting", 16)
    if file is None:
        raise Http404(f"Step {step} has no rollouts.")
    context: dict[str, Any] = {"job": found, "step": step, "row": row, "setting": setting, "file": file}
    try:
        shown = group.group_of(file, row, setting)
    except EnvariumError as error:
        shown, context["problem"] = None, str(error)
    else:
        if shown is None:
            raise Http404("The step has no attempts at this task.")
    before, after = group.neighbours(file, row, setting)
    home = reverse("runs:group", args=[found.public_id, step])
    context |= {
        "group": shown,
        "task": shown.attempts[0].rollout.task if shown else None,
        "before": _address(home, before),
        "after": _address(home, after),
        "course": _address(reverse("runs:task_course", args=[found.public_id]), (row, "")),
    }
    return render(request, "runs/job/group.html", context)


def _address(home: str, at: tuple[str, str] | None) -> str:
    if at is None:
        return ""
    return f"{home}?{urlencode({'row': at[0]} | ({'setting': at[1]} if at[1] else {}))}"


@access("read")
@require_safe
@never_cache
def course(request: HttpRequest, job: str) -> HttpResponse:
    """How a task (`?row=` of the dataset) went over the whole job."""
    found = find(job)
    row = Params(request.GET).text("row")
    rows, more = task_course.course(found, row)
    if not rows:
        raise Http404("The job has reported no attempt at this task.")
    first = RunRollout.objects.filter(row=row, file__job=found).select_related("task").first()
    context = {
        "job": found,
        "row": row,
        "rows": [replace(one, address=_group(found, one, row)) for one in rows],
        "more": more,
        "task": first.task if first else None,
        "drawing": _drawing(found, rows),
        "plotly": NAME,
        "map_style_id": map_style_id(),
    }
    return render(request, "runs/job/course.html", context)


def _group(job: TrainingJob, one: task_course.CourseRow, row: str) -> str:
    return _address(reverse("runs:group", args=[job.public_id, one.step]), (row, one.setting))


def _drawing(job: TrainingJob, rows: list[task_course.CourseRow]) -> dict[str, Any]:
    return {"line": task_course.drawn(rows), "last": job.step}
