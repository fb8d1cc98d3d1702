"""Pages of forks: the choice of a step, a playground's fork and its end, and a fork's reference and pair."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import EnvariumError
from synthesis.runtime import get_default_sandbox
from webapp.accounts.access import has_scope, require_scope
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import NotFound
from webapp.common.htmx import wants_fragment
from webapp.common.query_params import LARGEST_ID, Params
from webapp.common.rest.api_examples import build_api_call
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.answers.answer_inputs import read_answer
from webapp.scenarios.models import Playground
from webapp.scenarios.playground.playground_views import describe_error
from webapp.trajectories.forks import checks_now, outcomes, page, services
from webapp.trajectories.forks.pair import build_pair
from webapp.trajectories.models import PlaygroundFork, Trajectory
from webapp.trajectories.replay import panels

ANSWER_CHARS = 100_000
WRONG_FIELDS = "The answer does not fit the answer form; each wrong field says what it should be. Nothing was finished."


def get_trajectory_or_404(pk: int) -> Trajectory:
    rows = Trajectory.objects.select_related("task__environment", "task__current", "parent")
    rows = rows.select_related("revision__scenario__version")
    return get_object_or_404(rows.defer("matrix", "parent__matrix"), pk=pk)


def get_fork_or_404(pk: int) -> PlaygroundFork:
    rows = PlaygroundFork.objects.select_related("playground__user", "parent__task", "parent__revision")
    return get_object_or_404(rows.defer("parent__record", "parent__matrix"), playground=pk)


@require_scope("read")
@require_safe
@never_cache
def show_fork_choices(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the choices: before or after the step, by hand or with a policy."""
    row = get_trajectory_or_404(pk)
    index, problem = panels.read_step_number(request, row)
    fork_choices = page.list_fork_choices(row, index)
    context = {
        "t": row,
        "index": index,
        "problem": problem,
        "step": row.steps.filter(index=index).first(),
        "choices": fork_choices,
        "older": row.task is not None and row.revision_id != row.task.current_id,
    }
    if has_scope(request.user, "review") and fork_choices:
        body = {"step": fork_choices[0].step, "calls": [], "answer": ""}
        context["copy_as"] = build_api_call(request, "POST", "api:create_fork", args=(pk,), body=body)
    return render(request, "trajectories/forks/choose.html", context)


@require_scope("review")
@require_POST
def begin_fork(request: HttpRequest, pk: int) -> HttpResponse:
    """Repeat the parent's calls in a new playground of the user, and continue there."""
    row, step = get_trajectory_or_404(pk), Params(request.POST).number("step") or 0
    try:
        play = services.begin_fork(request.user, row, step)
    except EnvariumError as error:
        messages.error(request, describe_error(error))
        return redirect(f"{reverse('trajectories:fork', args=[pk])}?step={max(step - 1, 0)}")
    following = play.undone[-1]["tool"] if play.undone else ""
    query = f"?{urlencode({'tool': following, 'next': 1})}" if following else ""
    return redirect(reverse("scenarios:playground", args=[play.pk]) + query)


@require_scope("read")
@require_safe
@never_cache
def show_fork(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the parent of a playground's fork and its end, as a fragment or as a page."""
    fork = get_fork_or_404(pk)
    context = page.build_playground_context(fork.playground, fork, request.user)
    name = "trajectories/forks/part.html" if wants_fragment(request) else "trajectories/forks/by_hand.html"
    return render(request, name, context)


@require_scope("review")
@require_safe
@never_cache
def show_fork_checks(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the fragment of a fork's page with the verdicts of the checks on the current state."""
    play = get_object_or_404(Playground.objects.select_related("start").defer("start__body"), pk=pk, user=request.user)
    context: dict[str, Any] = {"problem": ""}
    try:
        fork = get_fork_or_404(pk)
        context["kind"] = fork.parent.attempted_revision.verifier_kind
        check_states = checks_now.evaluate_checks(get_default_sandbox(), play, fork)
        context |= {"found": check_states, "summary": checks_now.summarise_checks(check_states)}
    except EnvariumError as error:
        context["problem"] = describe_error(error)
    return render(request, "trajectories/forks/checks_now.html", context)


@require_scope("review")
@require_POST
def finish_fork(request: HttpRequest, pk: int) -> HttpResponse:
    """Store the playground's calls as an attempt; on an error, show it beside the answer, which is kept."""
    play = get_object_or_404(Playground.objects.filter(fork__isnull=False), pk=pk, user=request.user)
    serial = Params(request.POST).number("serial", high=LARGEST_ID) or 0
    answer = Params(request.POST).whole_text("answer", ANSWER_CHARS, strip=True).replace("\r\n", "\n")
    typed_answer: dict[str, Any] = {"answer": answer}
    form = read_answer_form(get_fork_or_404(pk).parent.attempted_revision)
    if form:
        inputs, answer = read_answer(form, request.POST)
        typed_answer = {"answer_inputs": inputs}
        if any(item.error for item in inputs):
            context = (
                page.build_playground_context(play, get_fork_or_404(pk), request.user)
                | typed_answer
                | {"problem": WRONG_FIELDS}
            )
            return render(request, "trajectories/forks/by_hand.html", context, status=422)
    try:
        if services.may_ask_judge(play):
            job = services.start_finish_job(request.user, play, serial, answer)
            messages.success(request, "A judge has to decide, so a job verifies the fork. It links the attempt here.")
            return redirect("jobs:detail", job.pk)
        row = services.finish_fork(request.user, play, serial, answer)
    except EnvariumError as error:
        play.refresh_from_db()
        context = (
            page.build_playground_context(play, get_fork_or_404(pk), request.user)
            | {"problem": describe_error(error)}
            | typed_answer
        )
        return render(request, "trajectories/forks/by_hand.html", context, status=409)
    earned = "no reward" if row.reward is None else f"{row.reward:g}"
    messages.success(request, f"The fork was executed once more from its first step, and verified: {earned}.")
    return redirect(f"{reverse('trajectories:detail', args=[row.pk])}?step={row.forked_at}")


@require_scope("review")
@require_POST
def make_fork_reference(request: HttpRequest, pk: int) -> HttpResponse:
    """Make the fork's calls the reference of its task."""
    row = get_trajectory_or_404(pk)
    try:
        _, job = outcomes.make_reference(request.user, row)
    except EnvariumError as error:
        messages.error(request, str(error))
        return redirect("trajectories:detail", pk)
    messages.success(request, f"Its calls are the reference of task {row.task_id} now. Job {job.pk} audits it again.")
    return redirect(f"{reverse('scenarios:task', args=[row.task_id])}?tab=audit")


@require_scope("read")
@require_safe
def download_pair(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the fork and its parent as one line of preference data."""
    row = get_trajectory_or_404(pk)
    try:
        record = build_pair(row)
    except EnvariumError as error:
        return _render_no_pair(request, row, error)
    write_audit_entry(request.user, "fork.pair", row, parent=row.parent_id)
    response = HttpResponse(json.dumps(record) + "\n", content_type="application/jsonl")
    response["Content-Disposition"] = f'attachment; filename="pair-{row.parent_id}-{row.pk}.jsonl"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _render_no_pair(request: HttpRequest, row: Trajectory, error: EnvariumError) -> HttpResponse:
    status = 404 if isinstance(error, NotFound) else 409
    context = {"t": row, "problem": str(error)}
    return render(request, "trajectories/forks/no_pair.html", context, status=status)
