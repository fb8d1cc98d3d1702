"""The rubric of a stored revision: its criteria, with the answer form that code decides some of them by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from synthesis.contracts import Criterion
from synthesis.formats.criteria import asks_judge, criterion_line
from synthesis.verifiers.rubric import Rubric
from webapp.scenarios.answers.answer_form import read_form_and_expected
from webapp.scenarios.models import TaskRevision


def read_criteria(stored: Iterable[Any]) -> tuple[Criterion, ...]:
    """Return the criteria that a revision holds, none if checks judge it."""
    return tuple(Criterion.model_validate(one) for one in stored)


def read_rubric(revision: TaskRevision) -> Rubric | None:
    """Return the rubric, None if checks judge the task."""
    criteria = read_criteria(revision.criteria)
    if not criteria:
        return None
    form, expected = read_form_and_expected(revision)
    return Rubric(criteria=criteria, answer_form=form, expected_answer=expected)


def name_criteria(revisions: Iterable[int]) -> dict[int, list[str]]:
    """Return the lines of the criteria of those among the revisions that a rubric judges."""
    rows = TaskRevision.objects.filter(pk__in=list(revisions), verifier_kind="rubric").values_list("pk", "criteria")
    return {pk: [criterion_line(one) for one in read_criteria(criteria)] for pk, criteria in rows}


def needs_judge(revision: TaskRevision) -> bool:
    """Return whether a judge has to decide what an attempt at the revision earns."""
    return asks_judge(read_criteria(revision.criteria))
