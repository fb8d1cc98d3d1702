"""One decision on many tasks: looked at before, each bound to the task as it was seen, undone together."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.errors import InputError
from webapp.errors import Refusal
from webapp.review.decisions import DecisionChoice, checked, decide
from webapp.review.models import ReviewKind
from webapp.review.task_gate import Obstacle, obstacles, task_tag
from webapp.scenarios.models import Task
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
