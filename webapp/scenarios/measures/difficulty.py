"""Difficulty of revisions, counted from their record and their reference and stored as short rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from django.db.models.fields.json import KT
from pydantic import ValidationError

from synthesis.contracts import Blueprint, Difficulty, ReferenceCall
from webapp.scenarios.models import TaskDifficulty, TaskRevision

KNOBS = tuple(Difficulty.model_fields)
PARTS = (KT("record__blueprint"), KT("record__programmatic__solution"))
"""Of a record what a task was made from: its blueprint, as JSON, and its solution script."""


def count_difficulty(blueprint: str, solution: str, calls: Sequence[ReferenceCall]) -> Difficulty:
    """Count what makes a task difficult, from its blueprint or solution and the calls of its reference.

    A blueprint that cannot be read is ignored.
    """
    difficulty = Difficulty.from_script(solution, calls) if solution else Difficulty()
    if blueprint:
        with suppress(ValidationError):
            difficulty = Difficulty.from_blueprint(Blueprint.model_validate_json(blueprint))
    if not calls:
        return difficulty
    return difficulty.model_copy(update={"unique_tools": len({call.tool for call in calls}), "invocations": len(calls)})


def store_difficulty(revision: int, calls: Sequence[ReferenceCall]) -> None:
    """Store the difficulty of a revision whose reference makes these calls."""
    blueprint, solution = TaskRevision.objects.filter(pk=revision).values_list(*PARTS).get()
    difficulty = count_difficulty(blueprint or "", solution or "", calls)
    TaskDifficulty.objects.update_or_create(revision_id=revision, defaults=difficulty.model_dump())
