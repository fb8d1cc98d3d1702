"""“Run agent” on a task, and the rollout's own page. The live parts are fragments of these pages."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from pydantic import ValidationError

from synthesis.errors import InputError
from synthesis.rollout.plan import CONVERSATION_TURNS, TURNS
from synthesis.verifiers.rubric import NO_JUDGE
from webapp.accounts.access import has_scope, require_scope
from webapp.common.htmx import wants_fragment
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.jobs.services import cancel_job as cancel_job
from webapp.jobs.services import retry_job as retry_job
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.models import Task
from webapp.trajectories.models import Rollout
from webapp.trajectories.rollouts import queries, services
from webapp.trajectories.rollouts.forms import build_run_form
from webapp.trajectories.rollouts.spec import ForkOf, Spec


def get_task_or_404(pk: int) -> Task:
    return get_object_or_404(Task.objects.select_related("current").defer("current__record"), pk=pk)


def get_rollout_or_404(pk: int) -> Rollout:
    return get_object_or_404(queries.list_rollouts(), pk=pk)


def get_default_turns(conversational: bool) -> int:
    """Return the number of turns of an attempt without a limit of its own."""
    return CONVERSATION_TURNS if conversational else TURNS


def build_rollout_context(rollout: Rollout) -> dict[str, Any]:
    summary = queries.build_summary(rollout)
    return {"rollout": rollout, "summary": summary, "rest": summary.rest(rollout.total, rollout.job.is_open)}


def render_live_part(request: HttpRequest, pk: int, problem: str = "") -> HttpResponse:
    """Show the part that fills in, on the task's page or its own; it triggers a reload of a task's list of attempts."""
    context = build_rollout_context(get_rollout_or_404(pk)) | {
        "problem": problem,
        "in_part": Params(request.GET).flag("part"),
    }
    response = render(request, "trajectories/rollouts/live.html", context)
    if context["summary"].done:
        response["HX-Trigger"] = "attempts-changed"
    return response


def build_part_context(
    request: HttpRequest, task: Task, data: Any = None, fork: dict[str, int] | None = None
) -> dict[str, Any]:
    """Return the form, the newest rollout in full and the earlier ones."""
    form, about = build_run_form(task, data, fork)
    rollouts = _list_shown_rollouts(task.pk, about["fork"])
    obstacle = services.find_obstacle(task.current)
    context: dict[str, Any] = {
        "task": task,
        "form": form,
        **about,
        "obstacle": obstacle,
        "lacks_judge": obstacle == NO_JUDGE and has_scope(request.user, "admin"),
        "newest": build_rollout_context(rollouts[0]) if rollouts else None,
        "earlier": rollouts[1:],
    }
    if has_scope(request.user, "synthesise"):
        body: dict[str, Any] = {"policy": "reference", "attempts": 4}
        if about["models"]:
            body = {"policy": "model", "model": about["models"][0].value, "attempts": 4}
        if about["fork"]:
            body["fork"] = {"trajectory": about["fork"]["fork"], "step": about["fork"]["step"]}
        context["copy_as"] = build_api_call(request, "POST", "api:create_rollout", args=(task.pk,), body=body)
    return context


def _list_shown_rollouts(task_pk: int, fork: dict[str, Any] | None) -> list[Rollout]:
    """Return the rollouts that the form's page shows: of a task, or of the fork that the form starts."""
    if fork is None:
        return queries.list_task_rollouts(task_pk)
    try:
        start = ForkOf(trajectory=fork["fork"], step=fork["step"])
    except ValidationError:
        return []
    return queries.list_fork_rollouts(task_pk, start)


@require_scope("read")
@require_http_methods(["GET", "HEAD"])
@never_cache
def show_run_form(request: HttpRequest, task_pk: int) -> HttpResponse:
    """Show the form as a part of the task's page, or as a page of its own."""
    params = Params(request.GET)
    fork_parameters = {"fork": params.id("fork"), "step": params.number("step")}
    fork = {name: value for name, value in fork_parameters.items() if value}
    context = build_part_context(
        request, get_task_or_404(task_pk), None, fork if len(fork) == len(fork_parameters) else None
    )
    return render(request, _choose_template(request), context)


@require_scope("synthesise")
@require_POST
def start_rollout(request: HttpRequest, task_pk: int) -> HttpResponse:
    """Queue the attempts. With htmx, answer with the part of the task's page, which fills in."""
    task = get_task_or_404(task_pk)
    context = build_part_context(request, task, request.POST)
    form = context["form"]
    rollout = None
    if form.is_valid():
        try:
            rollout = services.start_rollout(request.user, task, form.spec())
        except InputError as error:
            form.add_error(None, str(error))
    fragment = _choose_template(request)
    if rollout is None:
        return render(request, fragment, context, status=200 if wants_fragment(request) else 422)
    if not wants_fragment(request):
        return redirect("trajectories:rollout", rollout.pk)
    return render(request, fragment, build_part_context(request, task, request.POST))


def _choose_template(request: HttpRequest) -> str:
    return "trajectories/rollouts/part.html" if wants_fragment(request) else "trajectories/rollouts/run.html"


@require_scope("read")
@require_safe
@never_cache
def show_rollout(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_rollout_or_404(pk)
    context = build_rollout_context(row)
    context["most_turns"] = row.spec.get("max_steps") or get_default_turns(bool(row.spec.get("conversational")))
    if read_answer_form(row.revision):
        context["answer_mends"] = Spec.model_validate(row.spec).answer_mends
    context["copy_as"] = build_api_call(request, "GET", "api:get_rollout", args=(row.job_id,))
    return render(request, "trajectories/rollouts/detail.html", context)


@require_scope("read")
@require_safe
@never_cache
def show_live_part(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the part that fills in; it is requested after each change."""
    return render_live_part(request, pk)


@require_scope("synthesise")
@require_POST
def cancel_rollout(request: HttpRequest, pk: int) -> HttpResponse:
    is_cancelled = cancel_job(get_rollout_or_404(pk).job_id, request.user)
    return _respond_after_act(
        request, pk, "" if is_cancelled else "The attempts had ended before they could be stopped."
    )


@require_scope("synthesise")
@require_POST
def retry_rollout(request: HttpRequest, pk: int) -> HttpResponse:
    is_retried = retry_job(get_rollout_or_404(pk).job_id, request.user)
    return _respond_after_act(
        request, pk, "" if is_retried else "Nothing is to be made again: the job runs, or every attempt was made."
    )


def _respond_after_act(request: HttpRequest, pk: int, problem: str) -> HttpResponse:
    if wants_fragment(request):
        return render_live_part(request, pk, problem)
    if problem:
        messages.error(request, problem)
    return redirect("trajectories:rollout", pk)
