"""The page that compares attempts, and the page on which they are chosen: one address, `?ids=12,15`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.errors import Refusal
from webapp.common.htmx import wants_fragment
from webapp.common.lists.bulk_acts import WHOLE_FILTER
from webapp.common.query_params import LARGEST_ID, Params
from webapp.common.rest.api_examples import build_api_call
from webapp.scenarios.models import Task
from webapp.trajectories import trajectory_list
from webapp.trajectories.failure_reason import attach_reasons
from webapp.trajectories.models import Trajectory, format_no_environment
from webapp.trajectories.side_by_side import queries
from webapp.trajectories.side_by_side.answers import compare_answers
from webapp.trajectories.side_by_side.end_states import compare_end_states
from webapp.trajectories.side_by_side.table import Comparison, compare_attempts

OFFERED = 50
"""Number of a task's newest attempts that are offered in addition to the chosen ones."""
MOST_EQUAL = 200
"""Number of checks with equal results that are listed."""
PART = "compare"
"""The element of a comparison as part of another page, which has less room:"""
PART_LINES, PART_CHECKS, PART_DIFFERING = 40, 24, 6


@require_scope("read")
@require_safe
def show_comparison(request: HttpRequest) -> HttpResponse:
    """Show two to four attempts at one task; with fewer ids, or with `choose`, the attempts that can be chosen.

    As the fragment of the bar below a list's selection: show the outcomes of the chosen attempts.
    """
    params = Params(request.GET)
    if wants_fragment(request, "bulk-told"):
        whole = params.flag(WHOLE_FILTER)
        chosen_attempts = (
            queries.summarize_filtered_attempts(request.GET)
            if whole
            else queries.summarize_chosen_attempts(params.picks("ids"))
        )
        return render(request, "trajectories/compare/told.html", {"told": chosen_attempts})
    id_texts = params.texts("ids", 400)
    ids = queries.read_ids(id_texts)
    if wants_fragment(request, PART):
        return _render_part(request, ids)
    if len(id_texts) > 1 and not params.flag("choose"):
        return redirect(f"{reverse('trajectories:compare')}?ids={_join_ids(ids)}")
    if params.flag("choose") or len(ids) < queries.FEWEST:
        return _render_choice(request, ids, params.id("task"), "")
    try:
        attempts = queries.require_attempts(ids)
    except Refusal as error:
        return _render_choice(request, ids, None, str(error))
    comparison = compare_attempts(attempts, params.number("start", high=LARGEST_ID) or 0)
    context = {
        "task": attempts[0].task,
        "found": comparison,
        "kind": _find_verifier_kind(comparison),
        "attempts": comparison.attempts,
        "ids": _join_ids(ids),
        "equal": comparison.checks.equal[:MOST_EQUAL],
        "ends": compare_end_states(comparison.attempts),
        "answer_lines": compare_answers(comparison.attempts),
        "copy_as": build_api_call(request, "GET", "api:compare_trajectories", query={"ids": _join_ids(ids)}),
    }
    return render(request, "trajectories/compare.html", context)


def _render_part(request: HttpRequest, ids: Sequence[int]) -> HttpResponse:
    """Show the comparison as a part of another page; a single attempt is compared with one that ended the other way."""
    context: dict[str, Any] = {"focus": Params(request.GET).flag("focus")}
    try:
        first = Trajectory.objects.select_related("task").filter(pk__in=ids).first() if len(ids) == 1 else None
        if first is not None and first.task_id is not None:
            ids = [first.pk, *(row.pk for row in _find_counterpart(first))]
        attempts = queries.require_attempts(ids)
    except Refusal as error:
        return render(request, "trajectories/compare_part.html", context | {"problem": str(error)})
    comparison = compare_attempts(attempts)
    context |= {
        "found": comparison,
        "kind": _find_verifier_kind(comparison),
        "attempts": comparison.attempts,
        "ids": _join_ids(ids),
        "lines": comparison.lines[:PART_LINES],
        "signs": comparison.checks.lines[:PART_CHECKS],
        "rows": comparison.checks.by_attempt(PART_CHECKS),
        "differing": comparison.checks.differing[:PART_DIFFERING],
        "fork": _find_fork_step(comparison),
    }
    return render(request, "trajectories/compare_part.html", context)


def _find_verifier_kind(found: Comparison) -> str:
    """Return the kind of verifier of all of these attempts; `checks` if the task had several kinds."""
    kinds = {row.attempted_revision.verifier_kind for row in found.attempts}
    return kinds.pop() if len(kinds) == 1 else "checks"


def _find_fork_step(found: Comparison) -> tuple[int, int] | None:
    """Return (attempt, step) to fork at: the step at which the last of the unsolved attempts parted from the others."""
    if found.parting is None:
        return None
    left = [
        (row.pk, step.index)
        for row, step in zip(found.attempts, found.parting.steps, strict=True)
        if step is not None and row.outcome != "solved"
    ]
    return left[-1] if left else None


def _join_ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def _render_choice(request: HttpRequest, ids: Sequence[int], task_pk: int | None, problem: str) -> HttpResponse:
    """Show the attempts that can be compared with the chosen ones, and the problem that prevents a comparison."""
    rows_by_pk = {row.pk: row for row in trajectory_list.select_list_columns(Trajectory.objects.filter(pk__in=ids))}
    chosen = [rows_by_pk[pk] for pk in ids if pk in rows_by_pk]
    if not problem and (foreign := [row.pk for row in chosen if row.task is None]):
        problem = format_no_environment(foreign[0])
    chosen = [row for row in chosen if row.task is not None]
    tasks = list(dict.fromkeys(row.attempted_task for row in chosen))
    if task_pk is not None and not tasks:
        tasks = list(Task.objects.only("title").filter(pk=task_pk))
    context: dict[str, Any] = {"problem": problem, "tasks": tasks}
    if len(tasks) == 1:
        if len(chosen) == 1:
            chosen += _find_counterpart(chosen[0])
        picked = {row.pk for row in chosen}
        others = trajectory_list.select_list_columns(queries.list_task_attempts(tasks[0].pk).exclude(pk__in=picked))[
            : OFFERED + 1
        ]
        rows = [*chosen, *others[:OFFERED]]
        attach_reasons(rows)
        shows = {column.name for column in trajectory_list.TRAJECTORIES.columns} - {"task", "environment", "recorded"}
        context |= {"task": tasks[0], "rows": rows, "picked": picked, "shows": shows, "more": len(others) > OFFERED}
    return render(request, "trajectories/compare_choice.html", context)


def _find_counterpart(row: Trajectory) -> list[Trajectory]:
    """Return the newest attempt at the same task that ended the other way: a solved one for an unsolved one, or the
    reverse."""
    others = queries.list_task_attempts(row.attempted_task.pk).filter(live=False).exclude(pk=row.pk)
    others = others.exclude(outcome="solved") if row.outcome == "solved" else others.filter(outcome="solved")
    return list(trajectory_list.select_list_columns(others)[:1])
