"""The main reason for the failure of an attempt, as one word that lists filter by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from synthesis.contracts import SOLVED_AT

FAILURES = {
    "goal": "a goal was not reached",
    "guard": "something was broken that had to stay",
    "outside": "something changed that the task does not ask for",
    "check": "a check does not hold",
    "criterion": "a criterion is not met",
    "error": "a check raised an error",
}
"""By kind, in words. An attempt that failed for several reasons has the first of them."""


def name_failure(
    reward: float, verdicts: Sequence[Mapping[str, Any]], outside: Sequence[Any], marks: Sequence[str]
) -> str:
    """Return the kind of failure of a score; empty if the attempt solved its task or nothing says why it did not.

    `marks` are those of the revision's checks, in the order of the verdicts.
    """
    if reward >= SOLVED_AT:
        return ""
    kinds = {"outside"} if outside else set()
    for number, verdict in enumerate(verdicts):
        if not verdict.get("passed"):
            kinds.add(_name_verdict(verdict, marks[number] if number < len(marks) else ""))
    return next((kind for kind in FAILURES if kind in kinds), "")


def is_criterion(verdict: Mapping[str, Any]) -> bool:
    """Return whether a stored verdict is of a rubric's criterion: verdicts of checks, which have a mark, have no
    reason, except that on a golden state."""
    return bool(verdict.get("reason") or verdict.get("quote"))


def _name_verdict(verdict: Mapping[str, Any], mark: str) -> str:
    if not mark and is_criterion(verdict):
        return "criterion"
    if verdict.get("error") and not verdict.get("non_boolean"):
        return "error"
    return mark if mark in ("goal", "guard") else "check"
