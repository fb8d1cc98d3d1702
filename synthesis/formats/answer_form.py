"""The form that a task may ask its answer in: named, typed fields, asked for at the end of the instruction.

A task's record names them in `answer_form`, a list of `{name, type, about, unit, choices, required}`; an answer may
lack a field that is not `required`. Its checks read those that they name as data, by
`answer_fields(answer, name="type", ...)`; what is left out is None there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from synthesis.contracts import AnswerField
from synthesis.errors import FormatError
from synthesis.formats.values import list_field

MOST_FIELDS = 20
_SPELLED = {
    "text": "text",
    "choice": "one of",
    "list": "a list of texts",
    "number": "a number",
    "money": "an amount with two decimals, such as 5.90",
    "date": "a date as YYYY-MM-DD",
    "time": "a time of day as HH:MM",
    "duration": "a length of time in minutes",
}


def answer_form(raw: dict[str, Any], place: str) -> tuple[AnswerField, ...]:
    """The form in a task's record, empty where it has none. Raises FormatError."""
    listed = list_field(raw, "answer_form", place)
    if len(listed) > MOST_FIELDS:
        raise FormatError(f"{place}.answer_form", f"{len(listed)} fields; at most {MOST_FIELDS} are allowed")
    found: list[AnswerField] = []
    for index, item in enumerate(listed):
        where = f"{place}.answer_form[{index}]"
        try:
            field = AnswerField.model_validate(item)
        except ValidationError as error:
            first = error.errors()[0]
            named = ".".join([where, *(str(part) for part in first["loc"])])
            raise FormatError(named, f"{first['msg']}; a field has {', '.join(AnswerField.model_fields)}") from None
        if field.type == "choice" and not field.choices:
            raise FormatError(f"{where}.choices", "missing: a choice names what may be chosen")
        if field.name in {other.name for other in found}:
            raise FormatError(f"{where}.name", f"the field {field.name!r} stands twice")
        found.append(field)
    return tuple(found)


def form_record(form: Sequence[AnswerField]) -> dict[str, Any]:
    """The form as a task's record holds it; empty without one."""
    return {"answer_form": [field.model_dump(mode="json", exclude_defaults=True) for field in form]} if form else {}


def with_form(instruction: str, form: Sequence[AnswerField]) -> str:
    """The instruction as an agent is given it: what is wanted, then how to answer."""
    return f"{instruction.rstrip()}{_request(form)}" if form else instruction


def without_form(instruction: str, form: Sequence[AnswerField]) -> str:
    """What is wanted, without how to answer: the inverse of `with_form`."""
    return instruction.removesuffix(_request(form)) if form else instruction


def _request(form: Sequence[AnswerField]) -> str:
    lines = [f"- {field.name}: {_said(field)}" for field in form]
    request = "End with an answer in this form, as a JSON object with these fields and nothing beside it:"
    return "\n".join(["", "", request, *lines])


def _said(field: AnswerField) -> str:
    kind = _SPELLED[field.type] + (f" {', '.join(field.choices)}" if field.choices else "")
    kind += f", in {field.unit}" if field.unit else ""
    kind += "" if field.required else "; may be left out"
    return f"{field.about}; {kind}" if field.about else kind
