"""What a judge need not be asked of a recorded attempt, because code can tell."""

from __future__ import annotations

from synthesis.contracts import SOLVED_AT, Attempt
from synthesis.drafts import TaskDraft


def is_proven_possible(task: TaskDraft, attempt: Attempt) -> bool:
    """Tell whether the task has been done: by this attempt, or by the reference that was found for it."""
    solved = attempt.reward is not None and attempt.reward.reward >= SOLVED_AT
    return solved or task.reference is not None
