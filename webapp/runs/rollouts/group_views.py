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
from webapp.accounts.access import require_scope
from webapp.common.query_params import Params
from webapp.runs.job_views import get_job_or_404
from webapp.runs.models import RunRollout, TrainingJob
from webapp.runs.rollouts import group, step_summary, task_course
from webapp.taxonomy.static_files import NAME, find_map_style_id


@require_scope("read")
@require_safe
@never_cache
def show_group(request: HttpRequest, job: str, step: int) -> HttpResponse:
    """Show the attempts of a step at `?row=` (in `?setting=`), side by side."""
    training_job = get_job_or_404(job)
    file = step_summary.find_rollout_file(training_job, step)
    params = Params(request.GET)
    row, setting = params.text("row"), params.text("setting", 16)
    if file is None:
        raise Http404(f"Step {step} has no rollouts.")
    context: dict[str, Any] = {"job": training_job, "step": step, "row": row, "setting": setting, "file": file}
    try:
        attempt_group = group.build_group(file, row, setting)
    except EnvariumError as error:
        attempt_group, context["problem"] = None, str(error)
    else:
        if attempt_group is None:
            raise Http404("The step has no attempts at this task.")
    before, after = group.find_neighbours(file, row, setting)
    home = reverse("runs:group", args=[training_job.public_id, step])
    context |= {
        "group": attempt_group,
        "task": attempt_group.attempts[0].rollout.task if attempt_group else None,
        "before": _build_address(home, before),
        "after": _build_address(home, after),
        "course": _build_address(reverse("runs:task_course", args=[training_job.public_id]), (row, "")),
    }
    return render(request, "runs/job/group.html", context)


def _build_address(home: str, at: tuple[str, str] | None) -> str:
    if at is None:
        return ""
    return f"{home}?{urlencode({'row': at[0]} | ({'setting': at[1]} if at[1] else {}))}"


@require_scope("read")
@require_safe
@never_cache
def show_task_course(request: HttpRequest, job: str) -> HttpResponse:
    """Show the results of a task (`?row=` of the dataset) over the whole job."""
    training_job = get_job_or_404(job)
    row = Params(request.GET).text("row")
    rows, more = task_course.load_course(training_job, row)
    if not rows:
        raise Http404("The job has reported no attempt at this task.")
    first = RunRollout.objects.filter(row=row, file__job=training_job).select_related("task").first()
    context = {
        "job": training_job,
        "row": row,
        "rows": [replace(one, address=_build_group_address(training_job, one, row)) for one in rows],
        "more": more,
        "task": first.task if first else None,
        "drawing": _build_drawing(training_job, rows),
        "plotly": NAME,
        "map_style_id": find_map_style_id(),
    }
    return render(request, "runs/job/course.html", context)


def _build_group_address(job: TrainingJob, one: task_course.CourseRow, row: str) -> str:
    return _build_address(reverse("runs:group", args=[job.public_id, one.step]), (row, one.setting))


def _build_drawing(job: TrainingJob, rows: list[task_course.CourseRow]) -> dict[str, Any]:
    return {"line": task_course.build_drawing(rows), "last": job.step}
