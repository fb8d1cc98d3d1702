"""One decision on many tasks: looked at before, each bound to the task as it was seen, undone together."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef

from synthesis.errors import InputError
from webapp.errors import Refusal
from webapp.review.decisions import DecisionChoice, checked, decide
from webapp.review.models import ReviewKind
from webapp.review.task_gate import Obstacle, obstacle_codes, obstacles, task_tag
from webapp.scenarios.models import Task, TaskReference
from webapp.scenarios.references import hold_references


@dataclass(frozen=True)
class BulkLine:
    """A chosen task: its entity tag, and what stands in the way of approving it."""

    task: Task
    seen: str
    obstacles: list[Obstacle]


def bulk_preview(user: Any, keys: Sequence[int]) -> dict[str, Any]:
    """The chosen tasks as they are now."""
    del user
    rows = Task.objects.filter(pk__in=keys).select_related("environment", "current", "audit")
    rows = rows.defer("current__record", "audit__probes", "environment__summary").prefetch_related("audit__faults")
    tasks = list(rows.order_by("id"))
    hold_references(task.current for task in tasks if task.current is not None)
    lines = [BulkLine(task, task_tag(task), obstacles(task)) for task in tasks]
    return {"lines": lines, "clear": sum(not line.obstacles for line in lines), "missing": len(keys) - len(lines)}


LEFT_OUT = {
    "no_revision": "without content",
    "no_reference": "without a reference",
    "red_audit": "red",
    "incomplete_audit": "whose audit did not end",
    "stale_audit": "changed since the audit",
    "no_audit": "not audited",
}
"""What a task that cannot be approved is counted as, by the first obstacle in its way."""


@dataclass(frozen=True)
class ApprovalCounts:
    """Of `chosen` tasks so many can be approved as they stand; `left_out`: (tasks, why) of the others."""

    chosen: int
    clear: int
    left_out: list[tuple[int, str]]


def approval_counts(keys: Sequence[int]) -> ApprovalCounts:
    """What `bulk_preview` would say of the chosen tasks, counted in one query: for who is still choosing."""
    known = Exists(TaskReference.objects.filter(revision=OuterRef("current")))
    rows = Task.objects.filter(pk__in=keys).values_list("audit_state", "current", known)
    codes = [
        obstacle_codes(state, revision=current is not None, reference=reference) for state, current, reference in rows
    ]
    firsts = Counter(found[0] for found in codes if found)
    left_out = [(firsts[code], words) for code, words in LEFT_OUT.items() if firsts[code]]
    return ApprovalCounts(len(codes), len(codes) - firsts.total(), left_out)


def decide_many(user: Any, seen: dict[int, str], choice: DecisionChoice) -> tuple[uuid.UUID, int, int]:
    """(the group, tasks decided, tasks left as they were): one that was changed, or may not be approved, is left.

    Raises InputError: the choice itself, or nothing was chosen, or nothing could be decided.
    """
    given, group = checked(ReviewKind.TASK, choice), uuid.uuid4()
    if not seen:
        raise InputError("Choose at least one task.")
    done, said = 0, ""
    for key in sorted(seen):
        try:
            decide(user, ReviewKind.TASK, key, given, seen[key], group=group)
        except Refusal as error:
            said = said or str(error)
        else:
            done += 1
    if not done:
        raise InputError(f"None of them could be decided. The first: {said}")
    return group, done, len(seen) - done
