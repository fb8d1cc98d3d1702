"""Answer forms written by authors, in an instruction's reply or in a repair: their validation and their text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from synthesis.contracts import AnswerField
from synthesis.errors import FormatError
from synthesis.formats.answer_form import describe_type, read_expected, read_form, serialize_form
from synthesis.tasks.task_context import Unfit

INVALID = "answer_form"
LEAST_CHARS = 3
"""A shorter value is said by chance as well."""


def require_form(form: Sequence[AnswerField], expected: Mapping[str, Any], place: str) -> None:
    """Raise Unfit that names the field and its fault."""
    if expected and not form:
        raise Unfit(INVALID, f"{place} has expected values, but no answer form that asks for them")
    raw = serialize_form(form, expected)
    try:
        read_expected(raw, read_form(raw, place), place)
    except FormatError as error:
        raise Unfit(INVALID, str(error)) from error
    for field in form:
        if not field.description.strip():
            raise Unfit(INVALID, f"{field.name}: say in its description, in the user's words, what is asked")
        leaked = find_leaked_values(field.description, [field], expected)
        if leaked:
            raise Unfit(INVALID, f"{field.name}: its description gives the expected value away: {leaked[0]}")


def find_leaked_values(text: str, form: Sequence[AnswerField], expected: Mapping[str, Any]) -> list[str]:
    """Return the expected values that occur in a text, as `35.10 (credit)`. Choices of enumerations may be named."""
    field_names = [field.name for field in form if field.type != "enumeration" and field.name in expected]
    return [f"{written} ({name})" for name in field_names for written in _find_written_values(text, expected[name])]


def list_open_fields(form: Sequence[AnswerField], expected: Mapping[str, Any]) -> tuple[AnswerField, ...]:
    """Return the fields without an expected value: a condition must judge each."""
    return tuple(field for field in form if field.name not in expected)


def describe_fields(fields: Sequence[AnswerField]) -> str:
    """Return the fields for authors of conditions and checks, one per line."""
    return "\n".join(f"- `{field.name}` ({describe_type(field)}): {field.description}" for field in fields)


def describe_form(form: Sequence[AnswerField], expected: Mapping[str, Any]) -> str:
    """Return form and expected values as an author would write them in a repair."""
    if not form:
        return "there is none"
    lines = "".join(f"\n {field!r}," for field in serialize_form(form, expected)["answer_form"])
    return f"FORM = [{lines}\n]\nEXPECTED = {dict(expected)!r}"


def _find_written_values(text: str, value: Any) -> Iterator[str]:
    """Yield the spellings of a value, or of one inside it, that occur in a text as separate words."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _find_written_values(text, inner)
        return
    if isinstance(value, bool) or value is None:
        return
    spellings = [value] if isinstance(value, str) else [f"{value:.2f}", f"{value:g}", f"{value:,}"]
    for spelling in dict.fromkeys(spellings):
        if len(spelling) >= LEAST_CHARS and re.search(
            rf"(?<![\w.]){re.escape(spelling)}(?!\w|\.\d)", text, re.IGNORECASE
        ):
            yield spelling
            return
