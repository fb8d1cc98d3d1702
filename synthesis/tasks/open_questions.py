"""What a judge need not be asked of a recorded attempt, because code can tell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from synthesis.contracts import SOLVED_AT, Attempt
from synthesis.drafts import TaskDraft
from synthesis.rollout.user import STOP

_CLAUSE_ENDS = re.compile(r"[.,;:!?\n]+(?:\s|$)")
_SIGNS = re.compile(r"[^\w\s]+")
_COURTESY_WORDS = (
    "a all also and bye can could everything for good hello hi is it many my of ok okay one please so sure thank "
    "thanks that the then this very wanted welcome with would yes you your i"
)
_COURTESY = frozenset(_COURTESY_WORDS.split())
"""Words that state nothing by themselves, so that they may stand around what is said."""


def is_proven_possible(task: TaskDraft, attempt: Attempt) -> bool:
    """Tell whether the task has been done: by this attempt, or by the reference that was found for it."""
    solved = attempt.reward is not None and attempt.reward.reward >= SOLVED_AT
    return solved or task.reference is not None


def is_all_known(intent: str, talk: Sequence[tuple[str, str]]) -> bool:
    """Tell whether each clause of the user's lines stands word for word in the intent or in an earlier line.

    Whole clauses are compared, so that neither a negation nor a condition can get lost inside of one.
    """
    known = set(_clauses(intent))
    for who, words in talk:
        said = _clauses(words.replace(STOP, " "))
        if who == "user" and not known.issuperset(said):
            return False
        known.update(said)
    return True


def _clauses(text: str) -> list[str]:
    """Return the clauses of a text in small letters, without the words of courtesy around them."""
    found = []
    for clause in _CLAUSE_ENDS.split(text):
        words = _SIGNS.sub(" ", clause).casefold().split()
        while words and words[0] in _COURTESY:
            words = words[1:]
        while words and words[-1] in _COURTESY:
            words = words[:-1]
        found.append(" ".join(words))
    return [clause for clause in found if clause]
