"""Pages of forks: where to fork, a playground's fork and its end, the reference and the pair that become of one."""

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
from synthesis.runtime import default_sandbox
from webapp.accounts.access import access, may
from webapp.accounts.services import audit
from webapp.errors import NotFound
from webapp.htmx import wants_fragment
from webapp.query_params import LARGEST_ID, Params
from webapp.rest.api_examples import api_call
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.answers.answer_inputs import read_answer
from webapp.scenarios.models import Playground
from webapp.scenarios.playground.playground_views import said
from webapp.trajectories.forks import checks_now, outcomes, page, services
from webapp.trajectories.forks.pair import pair_of
from webapp.trajectories.models import PlaygroundFork, Trajectory
from webapp.trajectories.replay import panels

ANSWER_CHARS = 100_000
WRONG_FIELDS = "The answer does not fit the answer form; each wrong field says what it should be. Nothing was finished."


def find(pk: int) -> Trajectory:
    rows = Trajectory.objects.select_related("task__environment", "task__current", "parent")
    rows = rows.select_related("revision__scenario__version")
    return get_object_or_404(rows.defer("matrix", "parent__matrix"), pk=pk)


def find_fork(pk: int) -> PlaygroundFork:
    rows = PlaygroundFork.objects.select_related("playground__user", "parent__task", "parent__revision")
    return get_object_or_404(rows.defer("parent__record", "parent__matrix"), playground=pk)


@access("read")
@require_safe
@never_cache
def choose(request: HttpRequest, pk: int) -> HttpResponse:
    """Before or after the step, by hand or with a policy."""
    row = find(pk)
    index, problem = panels.step_number(request, row)
    found = page.choices(row, index)
    context = {
        "t": row,
        "index": index,
        "problem": problem,
        "step": row.steps.filter(index=index).first(),
        "choices": found,
        "older": row.task is not None and row.revision_id != row.task.current_id,
    }
    if may(request.user, "review") and found:
        body = {"step": found[0].step, "calls": [], "answer": ""}
        context["copy_as"] = api_call(request, "POST", "api:create_fork", args=(pk,), body=body)
    return render(request, "trajectories/forks/choose.html", context)


@access("review")
@require_POST
def begin(request: HttpRequest, pk: int) -> HttpResponse:
    """Make the parent's calls again in a playground of one's own, and go on there."""
    row, step = find(pk), Params(request.POST).number("step") or 0
    try:
        play = services.begin(request.user, row, step)
    except EnvariumError as error:
        messages.error(request, said(error))
        return redirect(f"{reverse('trajectories:fork', args=[pk])}?step={max(step - 1, 0)}")
    following = play.undone[-1]["tool"] if play.undone else ""
    query = f"?{urlencode({'tool': following, 'next': 1})}" if following else ""
    return redirect(reverse("scenarios:playground", args=[play.pk]) + query)


@access("read")
@require_safe
@never_cache
def by_hand(request: HttpRequest, pk: int) -> HttpResponse:
    """A part of a playground's page, and a page of its own: what it is a fork of, and its end."""
    fork = find_fork(pk)
    context = page.of_playground(fork.playground, fork, request.user)
    name = "trajectories/forks/part.html" if wants_fragment(request) else "trajectories/forks/by_hand.html"
    return render(request, name, context)


@access("review")
@require_safe
@never_cache
def by_hand_checks(request: HttpRequest, pk: int) -> HttpResponse:
    """The part of a fork's page that says what the checks make of the state now."""
    play = get_object_or_404(Playground.objects.select_related("start").defer("start__body"), pk=pk, user=request.user)
    context: dict[str, Any] = {"problem": ""}
    try:
        fork = find_fork(pk)
        context["kind"] = fork.parent.attempted.verifier_kind
        found = checks_now.evaluate_checks(default_sandbox(), play, fork)
        context |= {"found": found, "summary": checks_now.summarise_checks(found)}
    except EnvariumError as error:
        context["problem"] = said(error)
    return render(request, "trajectories/forks/checks_now.html", context)


@access("review")
@require_POST
def by_hand_finish(request: HttpRequest, pk: int) -> HttpResponse:
    """The playground's calls as an attempt; what stands in the way is said beside the answer, which is kept."""
    play = get_object_or_404(Playground.objects.filter(fork__isnull=False), pk=pk, user=request.user)
    serial = Params(request.POST).number("serial", high=LARGEST_ID) or 0
    answer = Params(request.POST).whole_text("answer", ANSWER_CHARS, strip=True).replace("\r\n", "\n")
    typed: dict[str, Any] = {"answer": answer}
    form = read_answer_form(find_fork(pk).parent.attempted)
    if form:
        inputs, answer = read_answer(form, request.POST)
        typed = {"answer_inputs": inputs}
        if any(item.error for item in inputs):
            context = page.of_playground(play, find_fork(pk), request.user) | typed | {"problem": WRONG_FIELDS}
            return render(request, "trajectories/forks/by_hand.html", context, status=422)
    try:
        if services.asks_judge(play):
            job = services.start_finish(request.user, play, serial, answer)
            messages.success(request, "A judge has to decide, so a job verifies the fork. It links the attempt here.")
            return redirect("jobs:detail", job.pk)
        row = services.finish(request.user, play, serial, answer)
    except EnvariumError as error:
        play.refresh_from_db()
        context = page.of_playground(play, find_fork(pk), request.user) | {"problem": said(error)} | typed
        return render(request, "trajectories/forks/by_hand.html", context, status=409)
    earned = "no reward" if row.reward is None else f"{row.reward:g}"
    messages.success(request, f"The fork was executed once more from its first step, and verified: {earned}.")
    return redirect(f"{reverse('trajectories:detail', args=[row.pk])}?step={row.forked_at}")


@access("review")
@require_POST
def fork_reference(request: HttpRequest, pk: int) -> HttpResponse:
    """Let the fork's calls count as the reference of its task."""
    row = find(pk)
    try:
        _, job = outcomes.make_reference(request.user, row)
    except EnvariumError as error:
        messages.error(request, str(error))
        return redirect("trajectories:detail", pk)
    messages.success(request, f"Its calls are the reference of task {row.task_id} now. Job {job.pk} audits it again.")
    return redirect(f"{reverse('scenarios:task', args=[row.task_id])}?tab=audit")


@access("read")
@require_safe
def pair(request: HttpRequest, pk: int) -> HttpResponse:
    """The fork and its parent as one line of preference data."""
    row = find(pk)
    try:
        record = pair_of(row)
    except EnvariumError as error:
        return _no_pair(request, row, error)
    audit(request.user, "fork.pair", row, parent=row.parent_id)
    response = HttpResponse(json.dumps(record) + "\n", content_type="application/jsonl")
    response["Content-Disposition"] = f'attachment; filename="pair-{row.parent_id}-{row.pk}.jsonl"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _no_pair(request: HttpRequest, row: Trajectory, error: EnvariumError) -> HttpResponse:
    status = 404 if isinstance(error, NotFound) else 409
    context = {"t": row, "problem": str(error)}
    return render(request, "trajectories/forks/no_pair.html", context, status=status)
