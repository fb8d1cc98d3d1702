"""The answer form of a stored revision, as pages show it, with what was submitted if there is an answer; and the rubric
of a revision, of which code decides some criteria over that form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import AnswerField
from synthesis.errors import FormatError
from synthesis.formats.answer_form import compare_spec, describe_type, read_expected, read_form
from synthesis.formats.criteria import asks_judge, criterion_line
from synthesis.formats.records import Criterion
from synthesis.runtime.child.answer_values import answer_value, is_equal
from synthesis.verifiers.rubric import Rubric
from webapp.scenarios.models import TaskRevision

SHOWN_CHARS = 500


@dataclass(frozen=True)
class FormRow:
    """One field: its type in words, the expected value and what was submitted, both empty if there is none.

    `is_right` is None if the field has no expected value, or nothing was submitted at all.
    """

    field: AnswerField
    wanted: str
    expected: str = ""
    given: str = ""
    is_right: bool | None = None


def read_answer_form(revision: TaskRevision) -> tuple[AnswerField, ...]:
    """Return the fields, empty if the task has no form. Reads no more of the record than that."""
    return read_form_and_expected(revision)[0]


def read_form_and_expected(revision: TaskRevision) -> tuple[tuple[AnswerField, ...], dict[str, Any]]:
    """Return the fields and their expected values. A form of an earlier version of Envarium counts as none."""
    rows = TaskRevision.objects.filter(pk=revision.pk)
    listed, expected = rows.values_list("record__answer_form", "record__expected_answer").first() or (None, None)
    if not listed:
        return (), {}
    raw, place = {"answer_form": listed, "expected_answer": expected}, f"task {revision.task_id}"
    try:
        form = read_form(raw, place)
        return form, read_expected(raw, form, place)
    except FormatError:
        return (), {}


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


def list_form_rows(
    form: Sequence[AnswerField], expected: Mapping[str, Any], answer: str | None = None
) -> list[FormRow]:
    """Return a row for each field; `answer` is the submitted one, empty if nothing was submitted."""
    rows = []
    for field in form:
        given = answer_value(answer, field.name) if answer else None
        is_right = None
        if answer and field.name in expected:
            is_right = is_equal(given, expected[field.name], compare_spec(field))
        known = _show_value(expected[field.name]) if field.name in expected else ""
        rows.append(FormRow(field, describe_type(field), known, _show_value(given) if answer else "", is_right))
    return rows


def _show_value(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:SHOWN_CHARS]
