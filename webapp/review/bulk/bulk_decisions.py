"""One decision on many tasks: previewed, each bound to the task as it was seen, undone together."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef

from synthesis.errors import InputError
from webapp.common.errors import Refusal
from webapp.common.frequencies import rank_by_count
from webapp.review.bulk.vote_forecast import VoteForecast, forecast_votes
from webapp.review.decisions import DecisionChoice, check_choice, create_decision
from webapp.review.models import ReviewDecision, ReviewKind
from webapp.review.task_gate import Obstacle, build_task_tag, list_obstacle_codes, list_obstacles
from webapp.review.verdicts import APPROVE
from webapp.scenarios.models import ReviewState, Task, TaskReference
from webapp.scenarios.references import cache_references


@dataclass(frozen=True)
class BulkLine:
    """A chosen task: its entity tag, obstacles to its approval, and the decisions of people on it."""

    task: Task
    seen: str
    obstacles: list[Obstacle]
    votes: VoteForecast

    @property
    def is_clear(self) -> bool:
        """True if the person can approve the task in its current state, and has not done so."""
        return not self.obstacles and not self.votes.queue and not self.votes.is_approved_already

    @property
    def leaves_open(self) -> str:
        """The reason why an approval would leave the task in review; empty if it would not, or cannot be given."""
        return self.votes.leaves_open if self.is_clear else ""


def build_bulk_preview(user: Any, keys: Sequence[int]) -> dict[str, Any]:
    """Return the chosen tasks in their current state, with the conflicts of an approval by the person; tasks with
    conflicts come first."""
    rows = Task.objects.filter(pk__in=keys).select_related("environment", "current", "audit")
    rows = rows.defer("current__record", "audit__probes", "environment__summary").prefetch_related("audit__faults")
    tasks = list(rows.order_by("id"))
    cache_references(task.current for task in tasks if task.current is not None)
    votes = forecast_votes(user, {task.pk: task.current_id for task in tasks})
    lines = [BulkLine(task, build_task_tag(task), list_obstacles(task), votes[task.pk]) for task in tasks]
    lines.sort(key=_build_sort_key)
    return {
        "lines": lines,
        "missing": len(keys) - len(lines),
        "approved": sum(line.votes.is_approved_already for line in lines),
        "clear": sum(line.is_clear for line in lines),
        "taken_back": sum(line.is_clear and line.votes.takes_back for line in lines),
        "left_open": sum(bool(line.leaves_open) for line in lines),
    }


def _build_sort_key(line: BulkLine) -> tuple[bool, ...]:
    """Return the sort key of a line: conflicts with an approval first, tasks that the person has approved last."""
    return line.votes.is_approved_already, not line.votes.takes_back, not line.leaves_open, line.is_clear


LEFT_OUT = {
    "no_revision": "without content",
    "superseded": "superseded",
    "no_reference": "without a reference",
    "red_audit": "red",
    "incomplete_audit": "whose audit did not end",
    "unproven_audit": "not known to be solved",
    "stale_audit": "changed since the audit",
    "no_audit": "not audited",
    "not_yours": "in a queue of others",
}
"""What a task that cannot be approved is counted as, by the first obstacle in its way."""


@dataclass(frozen=True)
class ApprovalCounts:
    """Of `chosen` tasks, `clear` ones can be approved in their current state; `approved` are approved by the person
    already, and `left_out` has (tasks, reason) of the others.

    Of the clear ones, `taken_back` replace another decision of the person's own, and `left_open` stay in review.
    """

    chosen: int
    clear: int
    approved: int
    left_out: list[tuple[int, str]]
    taken_back: int
    left_open: int


def count_approvals(user: Any, keys: Sequence[int]) -> ApprovalCounts:
    """Return the numbers of `build_bulk_preview` for the chosen tasks with a few queries, for a person who is still
    choosing."""
    has_reference = Exists(TaskReference.objects.filter(revision=OuterRef("current")))
    rows = list(
        Task.objects.filter(pk__in=keys).values_list("pk", "audit_state", "current", has_reference, "superseded")
    )
    votes = forecast_votes(user, {pk: current for pk, _, current, _, _ in rows})
    codes = {
        pk: list_obstacle_codes(state, revision=current is not None, reference=reference, superseded=superseded)
        or (["not_yours"] if votes[pk].queue else [])
        for pk, state, current, reference, superseded in rows
        if not votes[pk].is_approved_already
    }
    firsts = Counter(found[0] for found in codes.values() if found)
    clear = [votes[pk] for pk, found in codes.items() if not found]
    return ApprovalCounts(
        chosen=len(rows),
        clear=len(clear),
        approved=len(rows) - len(codes),
        left_out=[(firsts[code], words) for code, words in LEFT_OUT.items() if firsts[code]],
        taken_back=sum(one.takes_back for one in clear),
        left_open=sum(bool(one.leaves_open) for one in clear),
    )


@dataclass(frozen=True)
class BulkResult:
    """Result of one bulk action. `left` tasks were changed, or may not be approved, and are unchanged; so are those
    that the person had `approved` already."""

    group: uuid.UUID
    decided: int
    left: int
    approved: int


def decide_on_tasks(user: Any, seen: dict[int, str], choice: DecisionChoice) -> BulkResult:
    """Decide on many tasks, each as it was seen; tasks that cannot be decided, or need not be approved again, are left.

    Raises InputError if the choice is invalid, no task was chosen, or none could be decided.
    """
    cleaned_choice, group = check_choice(ReviewKind.TASK, choice), uuid.uuid4()
    if not seen:
        raise InputError("Choose at least one task.")
    approved = _find_approved_tasks(user, list(seen)) if cleaned_choice.verdict == APPROVE else set()
    if len(approved) == len(seen):
        raise InputError("You approved all of them already.")
    done, first_error = 0, ""
    for key in sorted(seen.keys() - approved):
        try:
            create_decision(user, ReviewKind.TASK, key, cleaned_choice, seen[key], group=group)
        except Refusal as error:
            first_error = first_error or str(error)
        else:
            done += 1
    if not done:
        raise InputError(f"None of them could be decided. The first: {first_error}")
    return BulkResult(group, done, len(seen) - done - len(approved), len(approved))


def _find_approved_tasks(user: Any, keys: Sequence[int]) -> set[int]:
    """Return those of some tasks that the person approved in their current state."""
    current: dict[int, int | None] = dict(Task.objects.filter(pk__in=keys).values_list("pk", "current_id"))
    return {pk for pk, votes in forecast_votes(user, current).items() if votes.is_approved_already}


def count_states_after(group: uuid.UUID) -> list[tuple[int, str]]:
    """Return (tasks, current review state) of the tasks that one bulk action decided, the most frequent first."""
    rows = Task.objects.filter(pk__in=ReviewDecision.objects.filter(group=group).values("task"))
    states = Counter(rows.values_list("review_state", flat=True).order_by())
    return [(count, str(ReviewState(state).label)) for state, count in rank_by_count(states)]
