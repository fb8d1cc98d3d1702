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
from webapp.accounts.access import access, may
from webapp.htmx import wants_fragment
from webapp.jobs.services import cancel as cancel_job
from webapp.jobs.services import retry as retry_job
from webapp.query_params import Params
from webapp.rest.api_examples import api_call
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.models import Task
from webapp.trajectories.models import Rollout
from webapp.trajectories.rollouts import queries, services
from webapp.trajectories.rollouts.forms import run_form
from webapp.trajectories.rollouts.spec import ForkOf, Spec


def find_task(pk: int) -> Task:
    return get_object_or_404(Task.objects.select_related("current").defer("current__record"), pk=pk)


def find_rollout(pk: int) -> Rollout:
    return get_object_or_404(queries.rows(), pk=pk)


def turns_of(conversational: bool) -> int:
    """How many turns an attempt has where nobody said."""
    return CONVERSATION_TURNS if conversational else TURNS


def shown(rollout: Rollout) -> dict[str, Any]:
    summary = queries.summary_of(rollout)
    return {"rollout": rollout, "summary": summary, "rest": summary.rest(rollout.total, rollout.job.is_open)}


def live_part(request: HttpRequest, pk: int, problem: str = "") -> HttpResponse:
    """The part that fills in, on the task's page or its own; a task's list of attempts is told to look again."""
    context = shown(find_rollout(pk)) | {"problem": problem, "in_part": Params(request.GET).flag("part")}
    response = render(request, "trajectories/rollouts/live.html", context)
    if context["summary"].done:
        response["HX-Trigger"] = "attempts-changed"
    return response


def part_context(
    request: HttpRequest, task: Task, data: Any = None, fork: dict[str, int] | None = None
) -> dict[str, Any]:
    """The form, the newest rollout in full and the ones before it."""
    form, about = run_form(task, data, fork)
    known = _known_rollouts(task.pk, about["fork"])
    obstacle = services.obstacle(task.current)
    context: dict[str, Any] = {
        "task": task,
        "form": form,
        **about,
        "obstacle": obstacle,
        "lacks_judge": obstacle == NO_JUDGE and may(request.user, "admin"),
        "newest": shown(known[0]) if known else None,
        "earlier": known[1:],
    }
    if may(request.user, "synthesise"):
        body: dict[str, Any] = {"policy": "reference", "attempts": 4}
        if about["models"]:
            body = {"policy": "model", "model": about["models"][0].value, "attempts": 4}
        if about["fork"]:
            body["fork"] = {"trajectory": about["fork"]["fork"], "step": about["fork"]["step"]}
        context["copy_as"] = api_call(request, "POST", "api:create_rollout", args=(task.pk,), body=body)
    return context


def _known_rollouts(task_pk: int, fork: dict[str, Any] | None) -> list[Rollout]:
    """The rollouts that the form's page shows: of a task, or of the fork that the form starts."""
    if fork is None:
        return queries.rollouts_of(task_pk)
    try:
        start = ForkOf(trajectory=fork["fork"], step=fork["step"])
    except ValidationError:
        return []
    return queries.rollouts_of_fork(task_pk, start)


@access("read")
@require_http_methods(["GET", "HEAD"])
@never_cache
def run(request: HttpRequest, task_pk: int) -> HttpResponse:
    """A part of the task's page, and a page of its own."""
    params = Params(request.GET)
    asked = {"fork": params.id("fork"), "step": params.number("step")}
    fork = {name: value for name, value in asked.items() if value}
    context = part_context(request, find_task(task_pk), None, fork if len(fork) == len(asked) else None)
    return render(request, _template(request), context)


@access("synthesise")
@require_POST
def start(request: HttpRequest, task_pk: int) -> HttpResponse:
    """Queue the attempts. With htmx the part of the task's page comes back, filling in."""
    task = find_task(task_pk)
    context = part_context(request, task, request.POST)
    form = context["form"]
    rollout = None
    if form.is_valid():
        try:
            rollout = services.start_rollout(request.user, task, form.spec())
        except InputError as error:
            form.add_error(None, str(error))
    fragment = _template(request)
    if rollout is None:
        return render(request, fragment, context, status=200 if wants_fragment(request) else 422)
    if not wants_fragment(request):
        return redirect("trajectories:rollout", rollout.pk)
    return render(request, fragment, part_context(request, task, request.POST))


def _template(request: HttpRequest) -> str:
    return "trajectories/rollouts/part.html" if wants_fragment(request) else "trajectories/rollouts/run.html"


@access("read")
@require_safe
@never_cache
def rollout(request: HttpRequest, pk: int) -> HttpResponse:
    row = find_rollout(pk)
    context = shown(row)
    context["most_turns"] = row.spec.get("max_steps") or turns_of(bool(row.spec.get("conversational")))
    if read_answer_form(row.revision):
        context["answer_mends"] = Spec.model_validate(row.spec).answer_mends
    context["copy_as"] = api_call(request, "GET", "api:get_rollout", args=(row.job_id,))
    return render(request, "trajectories/rollouts/detail.html", context)


@access("read")
@require_safe
@never_cache
def live(request: HttpRequest, pk: int) -> HttpResponse:
    """The part that fills in; asked for when something changed."""
    return live_part(request, pk)


@access("synthesise")
@require_POST
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    done = cancel_job(find_rollout(pk).job_id, request.user)
    return _after(request, pk, "" if done else "The attempts had ended before they could be stopped.")


@access("synthesise")
@require_POST
def retry(request: HttpRequest, pk: int) -> HttpResponse:
    done = retry_job(find_rollout(pk).job_id, request.user)
    return _after(request, pk, "" if done else "Nothing is to be made again: the job runs, or every attempt was made.")


def _after(request: HttpRequest, pk: int, problem: str) -> HttpResponse:
    if wants_fragment(request):
        return live_part(request, pk, problem)
    if problem:
        messages.error(request, problem)
    return redirect("trajectories:rollout", pk)
