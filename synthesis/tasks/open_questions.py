"""Questions about a recorded attempt that code can answer instead of a judge."""

from __future__ import annotations

from synthesis.contracts import SOLVED_AT, Attempt
from synthesis.drafts import TaskDraft


def is_proven_possible(task: TaskDraft, attempt: Attempt) -> bool:
    """Return whether the task has been done: by this attempt, or by the reference that was found for it."""
    solved = attempt.reward is not None and attempt.reward.reward >= SOLVED_AT
    return solved or task.reference is not None
