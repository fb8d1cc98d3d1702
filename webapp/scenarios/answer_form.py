"""The answer form of a stored revision, as pages show it, with what was submitted if there is an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import AnswerField
from synthesis.errors import FormatError
from synthesis.formats.answer_form import (
    answer_text,
    compare_spec,
    describe_type,
    read_expected,
    read_form,
    read_submission,
    read_written_submission,
)
from synthesis.formats.files import loads, require_usable
from synthesis.runtime.child.answer_values import answer_value, is_equal
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


def read_listed_form(listed: Any, revision: int) -> tuple[AnswerField, ...]:
    """Return the fields that a revision's record lists. A form of an earlier version of Envarium counts as none."""
    try:
        return read_form({"answer_form": listed or []}, f"revision {revision}")
    except FormatError:
        return ()


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


def read_given_answer(revision: TaskRevision, answer: str) -> str:
    """Return an answer that a person gives as an attempt holds it: of a task with a form the JSON object of its fields.

    Raises InputError that names each field that is wrong.
    """
    form = read_answer_form(revision)
    return answer_text(read_written_submission(form, answer)) if form else answer


def read_entered_answer(form: Sequence[AnswerField], entered: Mapping[str, str]) -> str:
    """Return the answer that was entered field by field as text; what is left empty is left out.

    Numbers and `true` or `false` are read as such, lists and records as JSON. Raises InputError that names each field
    that is wrong.
    """
    given = {field.name: _read_entered(field, entered[field.name].strip()) for field in form if entered.get(field.name)}
    return answer_text(read_submission(form, {name: value for name, value in given.items() if value != ""}))


def _read_entered(field: AnswerField, text: str) -> Any:
    """A text that is no value of the field stays as it is, and is refused with the field's name."""
    if field.type not in ("number", "money", "duration", "boolean", "list", "record"):
        return text
    try:
        value = loads(text)
        require_usable(value, field.name)
    except (ValueError, RecursionError, FormatError):
        return text
    return value


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
