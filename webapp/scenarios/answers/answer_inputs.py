"""Inputs in which a person gives an answer by hand: one for each field of an answer form, by its type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import QueryDict

from synthesis.contracts import AnswerField
from synthesis.errors import InputError
from synthesis.formats.answer_form import build_answer_schema, describe_type, read_submission, serialize_answer
from webapp.scenarios.playground import argument_form


def list_answer_inputs(form: Sequence[AnswerField]) -> list[argument_form.Field]:
    """Return an empty input for each field, in the form's order."""
    input_by_name = {item.name: item for item in argument_form.build_fields(build_answer_schema(form))}
    for field in form:
        item = input_by_name[field.name]
        item.kind_words, item.description = describe_type(field), field.description
        item.input_type = field.type if field.type in ("date", "time") else "text"
    return [input_by_name[field.name] for field in form]


def read_answer(form: Sequence[AnswerField], posted: QueryDict) -> tuple[list[argument_form.Field], str]:
    """Return the inputs with what was typed, and the answer as attempts hold it.

    An input that is wrong has an `error`; the answer is empty then.
    """
    inputs = list_answer_inputs(form)
    typed_values = argument_form.read_arguments(inputs, posted)
    for field, item in zip(form, inputs, strict=True):
        if not item.value.strip():
            typed_values.pop(field.name, None)
            item.error = "This field is needed." if field.required else ""
        elif item.error and item.kind == "number":
            item.error = "Write a number, such as 5.9."
        elif not item.error:
            item.error = _find_error(field, typed_values)
    if any(item.error for item in inputs):
        return inputs, ""
    return inputs, serialize_answer(read_submission(form, typed_values))


def _find_error(field: AnswerField, given: Mapping[str, Any]) -> str:
    try:
        read_submission((field,), {field.name: given.get(field.name)})
    except InputError as error:
        words = str(error).removeprefix(f"{field.name}: ")
        return f"{words[:1].upper()}{words[1:]}"
    return ""
