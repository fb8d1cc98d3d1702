"""Views of one training step: its attempts by advantage, and the way from an attempt to its replay."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import EnvariumError
from webapp.accounts.access import require_scope
from webapp.common.forms import filter_bar
from webapp.common.htmx import render_fragment, wants_fragment
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.templatetags.show import number, spoken
from webapp.runs.curves import marks
from webapp.runs.job_views import get_job_or_404
from webapp.runs.models import RolloutFile, RunRollout
from webapp.runs.rollouts import step_summary
from webapp.runs.rollouts.rollout_replay import open_rollout
from webapp.runs.rollouts.verification import reverify_whole_file

OF_TASK = 10


@require_scope("read")
@require_safe
def go_to_step(request: HttpRequest, job: str) -> HttpResponse:
    """Redirect to the step that the step chooser asks for by `?n=`."""
    row = get_job_or_404(job)
    number = Params(request.GET).number("n")
    if number is not None:
        return redirect("runs:step", row.public_id, number)
    messages.error(request, "Name a step: a number from 0 on.")
    return redirect("runs:job", row.public_id)


@require_scope("read")
@require_safe
@never_cache
def show_step(request: HttpRequest, job: str, step: int) -> HttpResponse:
    row = get_job_or_404(job)
    file = step_summary.find_rollout_file(row, step)
    before, after = step_summary.find_neighbour_steps(row, step)
    chosen = step_summary.parse_filter(request.GET)
    context: dict[str, Any] = {
        "job": row,
        "step": step,
        "file": file,
        "before": before,
        "after": after,
        "chosen": chosen,
        "numbers": step_summary.list_numbers(row, step),
        "marks": [mark for mark in marks.list_marks(row) if mark.step == step],
        "by": Params(request.GET).choice("by", ("task", "advantage"), "advantage"),
    }
    if file is not None:
        context["filter_form"] = build_filter_form(file, chosen, context["by"])
        if context["by"] == "task":
            context["groups"], context["more_groups"] = step_summary.list_groups(file, chosen)
        else:
            context["page"] = paginate_by_keyset(request, step_summary.filter_rollouts(file, chosen), "-advantage")
    return render(request, "runs/job/step.html", context)


def build_filter_form(file: RolloutFile, chosen: step_summary.AttemptFilter, by: str) -> filter_bar.FilterForm:
    fields = {
        **filter_bar.make_hidden_fields({"by": by if by == "task" else "", "row": chosen.row}),
        "environment": filter_bar.make_select("Environment", step_summary.list_environments(file), first="all"),
        "outcome": filter_bar.make_select(
            "Outcome", [(name, spoken(name)) for name in step_summary.OUTCOMES], first="all"
        ),
        "masked": filter_bar.make_select("Masked", [("no", "count"), ("yes", "are masked")], first="all"),
        "quarantined": filter_bar.make_checkbox("quarantined only"),
    }
    return filter_bar.FilterForm(vars(chosen), fields)


@require_scope("review")
@require_POST
def replay_rollout(request: HttpRequest, job: str, pk: int) -> HttpResponse:
    """Execute an attempt again and show its replay."""
    rows = RunRollout.objects.select_related(
        "file__job", "trajectory", "revision__task__environment", "revision__scenario__version"
    )
    attempt = get_object_or_404(rows, pk=pk, file__job__public_id=job)
    was_quarantined = bool(attempt.quarantined)
    try:
        trajectory = open_rollout(attempt, request.user)
    except EnvariumError as error:
        messages.error(request, str(error))
        return redirect("runs:step", job, attempt.file.step)
    if attempt.quarantined:
        messages.error(request, f"Quarantined: {attempt.quarantined}")
        if not was_quarantined:
            reverify_whole_file(attempt.file)
    return redirect("trajectories:detail", trajectory.pk)


@require_scope("read")
@require_safe
def show_trajectory_origin(request: HttpRequest) -> HttpResponse:
    """Show the step and job that a trajectory is from: a part of its replay page, and a page of its own."""
    pk = Params(request.GET).id("trajectory")
    if pk is None:
        raise Http404("Name a trajectory.")
    rows = RunRollout.objects.select_related("file__job", "task", "revision")
    rollout = rows.filter(trajectory=pk).first()
    context = {"rollout": rollout, "trajectory": pk, "told": _describe_origin(rollout) if rollout else []}
    if wants_fragment(request):
        return render_fragment(request, "runs/job/origin.html", context)
    return render(request, "runs/job/origin.html", context)


def _describe_origin(rollout: RunRollout) -> list[str]:
    """Describe how an attempt was made and counted."""
    descriptions = [f"horizon {number(rollout.horizon)} turns"]
    if rollout.advantage is not None:
        descriptions.append(f"advantage {number(rollout.advantage)}")
    if rollout.masked:
        descriptions.append(f"masked ({spoken(rollout.masked)})")
    return descriptions


@require_scope("read")
@require_safe
def list_task_rollouts(request: HttpRequest, task: int) -> HttpResponse:
    """Show the newest attempts of training jobs at a task: a part of its page, and a page of its own."""
    rows = RunRollout.objects.filter(task=task, file__superseded=False).select_related("file__job")
    attempts = list(rows.order_by("-pk")[: OF_TASK + 1])
    context = {"rows": attempts[:OF_TASK], "more": len(attempts) > OF_TASK, "task": task}
    if wants_fragment(request):
        return render_fragment(request, "runs/job/of_task.html", context)
    return render(request, "runs/job/of_task.html", context)
