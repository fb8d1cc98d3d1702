"""The page that compares attempts, and the page on which they are chosen: one address, `?ids=12,15`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.errors import Refusal
from webapp.htmx import wants_fragment
from webapp.lists.bulk_acts import WHOLE_FILTER
from webapp.query_params import LARGEST_ID, Params
from webapp.rest.api_examples import api_call
from webapp.scenarios.models import Task
from webapp.trajectories import trajectory_list
from webapp.trajectories.failure_reason import tell_reasons
from webapp.trajectories.models import Trajectory, no_environment
from webapp.trajectories.side_by_side import queries
from webapp.trajectories.side_by_side.answers import compare_answers
from webapp.trajectories.side_by_side.end_states import compare_end_states
from webapp.trajectories.side_by_side.table import Comparison, compare

OFFERED = 50
"""So many of a task's newest attempts are offered besides those that are chosen."""
MOST_EQUAL = 200
"""So many of the checks that say the same are listed."""
PART = "compare"
"""The element that a comparison stands in as a part of another page, which has less room:"""
PART_LINES, PART_CHECKS, PART_DIFFERING = 40, 24, 6


@access("read")
@require_safe
def compared(request: HttpRequest) -> HttpResponse:
    """Two to four attempts at one task; with fewer ids, or with `choose`, those that can be chosen.

    For the bar below a list's selection it is counted how the chosen ones ended, as a fragment.
    """
    params = Params(request.GET)
    if wants_fragment(request, "bulk-told"):
        whole = params.flag(WHOLE_FILTER)
        told = queries.filtered_attempts(request.GET) if whole else queries.chosen_attempts(params.picks("ids"))
        return render(request, "trajectories/compare/told.html", {"told": told})
    given = params.texts("ids", 400)
    ids = queries.read_ids(given)
    if wants_fragment(request, PART):
        return _part(request, ids)
    if len(given) > 1 and not params.flag("choose"):
        return redirect(f"{reverse('trajectories:compare')}?ids={_comma(ids)}")
    if params.flag("choose") or len(ids) < queries.FEWEST:
        return _choose(request, ids, params.id("task"), "")
    try:
        attempts = queries.require_attempts(ids)
    except Refusal as error:
        return _choose(request, ids, None, str(error))
    found = compare(attempts, params.number("start", high=LARGEST_ID) or 0)
    context = {
        "task": attempts[0].task,
        "found": found,
        "kind": _find_verifier_kind(found),
        "attempts": found.attempts,
        "ids": _comma(ids),
        "equal": found.checks.equal[:MOST_EQUAL],
        "ends": compare_end_states(found.attempts),
        "answer_lines": compare_answers(found.attempts),
        "copy_as": api_call(request, "GET", "api:compare_trajectories", query={"ids": _comma(ids)}),
    }
    return render(request, "trajectories/compare.html", context)


def _part(request: HttpRequest, ids: Sequence[int]) -> HttpResponse:
    """The comparison as a part of another page; one attempt is set beside one that ended the other way."""
    context: dict[str, Any] = {"focus": Params(request.GET).flag("focus")}
    try:
        first = Trajectory.objects.select_related("task").filter(pk__in=ids).first() if len(ids) == 1 else None
        if first is not None and first.task_id is not None:
            ids = [first.pk, *(row.pk for row in _counterpart(first))]
        attempts = queries.require_attempts(ids)
    except Refusal as error:
        return render(request, "trajectories/compare_part.html", context | {"problem": str(error)})
    found = compare(attempts)
    context |= {
        "found": found,
        "kind": _find_verifier_kind(found),
        "attempts": found.attempts,
        "ids": _comma(ids),
        "lines": found.lines[:PART_LINES],
        "signs": found.checks.lines[:PART_CHECKS],
        "rows": found.checks.by_attempt(PART_CHECKS),
        "differing": found.checks.differing[:PART_DIFFERING],
        "fork": _fork(found),
    }
    return render(request, "trajectories/compare_part.html", context)


def _find_verifier_kind(found: Comparison) -> str:
    """Return what judges all of these attempts; `checks` if the task had several kinds of verifiers."""
    kinds = {row.attempted.verifier_kind for row in found.attempts}
    return kinds.pop() if len(kinds) == 1 else "checks"


def _fork(found: Comparison) -> tuple[int, int] | None:
    """(attempt, step) to fork at: where the last of those that did not solve the task left the others."""
    if found.parting is None:
        return None
    left = [
        (row.pk, step.index)
        for row, step in zip(found.attempts, found.parting.steps, strict=True)
        if step is not None and row.outcome != "solved"
    ]
    return left[-1] if left else None


def _comma(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def _choose(request: HttpRequest, ids: Sequence[int], task_pk: int | None, problem: str) -> HttpResponse:
    """What can be compared with what is chosen; a problem says why that could not be compared."""
    known = {row.pk: row for row in trajectory_list.lines(Trajectory.objects.filter(pk__in=ids))}
    chosen = [known[pk] for pk in ids if pk in known]
    if not problem and (foreign := [row.pk for row in chosen if row.task is None]):
        problem = no_environment(foreign[0])
    chosen = [row for row in chosen if row.task is not None]
    tasks = list(dict.fromkeys(row.attempted_task for row in chosen))
    if task_pk is not None and not tasks:
        tasks = list(Task.objects.only("title").filter(pk=task_pk))
    context: dict[str, Any] = {"problem": problem, "tasks": tasks}
    if len(tasks) == 1:
        if len(chosen) == 1:
            chosen += _counterpart(chosen[0])
        picked = {row.pk for row in chosen}
        others = trajectory_list.lines(queries.attempts_at(tasks[0].pk).exclude(pk__in=picked))[: OFFERED + 1]
        rows = [*chosen, *others[:OFFERED]]
        tell_reasons(rows)
        shows = {column.name for column in trajectory_list.TRAJECTORIES.columns} - {"task", "environment", "recorded"}
        context |= {"task": tasks[0], "rows": rows, "picked": picked, "shows": shows, "more": len(others) > OFFERED}
    return render(request, "trajectories/compare_choice.html", context)


def _counterpart(row: Trajectory) -> list[Trajectory]:
    """The newest attempt at the same task that ended the other way: solved beside one that is not, or the reverse."""
    others = queries.attempts_at(row.attempted_task.pk).filter(live=False).exclude(pk=row.pk)
    others = others.exclude(outcome="solved") if row.outcome == "solved" else others.filter(outcome="solved")
    return list(trajectory_list.lines(others)[:1])
