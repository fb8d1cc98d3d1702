"""The form in which a task asks for its answer, as pages show it, with what was given where there is an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from synthesis.contracts import AnswerField
from synthesis.formats.answer_form import answer_form
from synthesis.runtime.child.answers import CannotTell, answer_fields
from synthesis.runtime.child.answers.fields import raw_fields
from webapp.scenarios.models import TaskRevision

UNITS = {"money": "two decimals", "date": "YYYY-MM-DD", "time": "HH:MM", "duration": "minutes"}
"""What a type is given in, where the form names no unit."""
GIVEN_CHARS = 500


@dataclass(frozen=True)
class FormRow:
    """One field. `given` is what an answer has there, `read` that as data; both empty where nothing is given."""

    field: AnswerField
    given: str = ""
    read: str = ""

    @property
    def unit(self) -> str:
        if self.field.choices:
            return ", ".join(self.field.choices)
        return self.field.unit or UNITS.get(self.field.type, "")


def form_of(revision: TaskRevision) -> tuple[AnswerField, ...]:
    """The fields, empty where the task asks for no form. Reads no more of the record than that."""
    rows = TaskRevision.objects.filter(pk=revision.pk)
    listed = rows.values_list("record__answer_form", flat=True).first()
    return answer_form({"answer_form": listed}, f"task {revision.task_id}") if listed else ()


def form_rows(form: Sequence[AnswerField]) -> list[FormRow]:
    return [FormRow(field) for field in form]


def given_rows(form: Sequence[AnswerField], answer: str) -> tuple[list[FormRow], str]:
    """The form with what an answer has in it, and what is wrong with the whole of it; checks read the same."""
    types: dict[str, str] = {field.name: field.type for field in form}
    try:
        raw, read = raw_fields(answer, list(types)), answer_fields(answer, **types)
    except CannotTell as doubt:
        return form_rows(form), f"It cannot be told what is given: {doubt}."
    if raw is None or read is None:
        return form_rows(form), "The answer is not in this form."
    return [FormRow(field, _shown(raw.get(field.name)), _shown(read[field.name])) for field in form], ""


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return text[:GIVEN_CHARS]
