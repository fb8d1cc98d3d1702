"""Views of one training step: its attempts by advantage, and the way from an attempt to its replay."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import EnvariumError
from webapp.accounts.access import access
from webapp.forms import filter_bar
from webapp.htmx import wants_fragment
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.runs.curves import marks
from webapp.runs.job_views import find
from webapp.runs.models import RolloutFile, RunRollout
from webapp.runs.rollouts import step_summary
from webapp.runs.rollouts.rollout_replay import open_rollout
from webapp.runs.rollouts.verification import suspect
from webapp.templatetags.show import number, spoken

OF_TASK = 10


@access("read")
@require_safe
def steps(request: HttpRequest, job: str) -> HttpResponse:
    """What the step chooser asks for: `?n=` is the step."""
    row = find(job)
    number = Params(request.GET).number("n")
    if number is not None:
        return redirect("runs:step", row.public_id, number)
    messages.error(request, "Name a step: a number from 0 on.")
    return redirect("runs:job", row.public_id)


@access("read")
@require_safe
@never_cache
def step(request: HttpRequest, job: str, step: int) -> HttpResponse:
    row = find(job)
    file = step_summary.file_of(row, step)
    before, after = step_summary.neighbours(row, step)
    chosen = step_summary.filter_of(request.GET)
    context: dict[str, Any] = {
        "job": row,
        "step": step,
        "file": file,
        "before": before,
        "after": after,
        "chosen": chosen,
        "numbers": step_summary.numbers(row, step),
        "marks": [mark for mark in marks.marks_of(row) if mark.step == step],
        "by": Params(request.GET).choice("by", ("task", "advantage"), "advantage"),
    }
    if file is not None:
        context["filter_form"] = filter_form(file, chosen, context["by"])
        if context["by"] == "task":
            context["groups"], context["more_groups"] = step_summary.groups(file, chosen)
        else:
            context["page"] = keyset(request, step_summary.listed(file, chosen), "-advantage")
    return render(request, "runs/job/step.html", context)


def filter_form(file: RolloutFile, chosen: step_summary.AttemptFilter, by: str) -> filter_bar.FilterForm:
    fields = {
        **filter_bar.hidden({"by": by if by == "task" else "", "row": chosen.row}),
        "environment": filter_bar.select("Environment", step_summary.environments(file), first="all"),
        "outcome": filter_bar.select("Outcome", [(name, spoken(name)) for name in step_summary.OUTCOMES], first="all"),
        "masked": filter_bar.select("Masked", [("no", "count"), ("yes", "are masked")], first="all"),
        "quarantined": filter_bar.box("quarantined only"),
    }
    return filter_bar.FilterForm(vars(chosen), fields)


@access("review")
@require_POST
def rollout(request: HttpRequest, job: str, pk: int) -> HttpResponse:
    """Execute an attempt again and show its replay."""
    rows = RunRollout.objects.select_related(
        "file__job", "trajectory", "revision__task__environment", "revision__scenario__version"
    )
    attempt = get_object_or_404(rows, pk=pk, file__job__public_id=job)
    known = bool(attempt.quarantined)
    try:
        trajectory = open_rollout(attempt, request.user)
    except EnvariumError as error:
        messages.error(request, str(error))
        return redirect("runs:step", job, attempt.file.step)
    if attempt.quarantined:
        messages.error(request, f"Quarantined: {attempt.quarantined}")
        if not known:
            suspect(attempt.file)
    return redirect("trajectories:detail", trajectory.pk)


@access("read")
@require_safe
def of_trajectory(request: HttpRequest) -> HttpResponse:
    """Which step of which job a trajectory is from: a part of its replay page, and a page of its own."""
    pk = Params(request.GET).id("trajectory")
    if pk is None:
        raise Http404("Name a trajectory.")
    rows = RunRollout.objects.select_related("file__job", "task", "revision")
    rollout = rows.filter(trajectory=pk).first()
    context = {"rollout": rollout, "trajectory": pk, "told": _told(rollout) if rollout else []}
    return render(request, _part(request, "runs/job/origin"), context)


def _told(rollout: RunRollout) -> list[str]:
    """How an attempt was made and counted."""
    told = [f"horizon {number(rollout.horizon)} turns"]
    if rollout.advantage is not None:
        told.append(f"advantage {number(rollout.advantage)}")
    if rollout.masked:
        told.append(f"masked ({spoken(rollout.masked)})")
    return told


@access("read")
@require_safe
def of_task(request: HttpRequest, task: int) -> HttpResponse:
    """The newest attempts of training jobs at a task: a part of its page, and a page of its own."""
    rows = RunRollout.objects.filter(task=task, file__superseded=False).select_related("file__job")
    attempts = list(rows.order_by("-pk")[: OF_TASK + 1])
    context = {"rows": attempts[:OF_TASK], "more": len(attempts) > OF_TASK, "task": task}
    return render(request, _part(request, "runs/job/of_task"), context)


def _part(request: HttpRequest, name: str) -> str:
    return f"{name}_part.html" if wants_fragment(request) else f"{name}.html"
