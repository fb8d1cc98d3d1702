"""Criteria of a rubric, as spelled in records and in the editor.

A task's record holds them in `criteria`: a plain text is a fact, an object names its dimension and field. On one line a
criterion of another dimension is written as `tolerance total: The total is right.`
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from synthesis.contracts import AnswerField, Criterion
from synthesis.errors import FormatError
from synthesis.formats.values import read_list_field

MOST_CRITERIA = 50
_LINE = re.compile(r"(completeness|schema|tolerance) ([a-z][a-z0-9_]*): (.+)")


def format_criterion_line(criterion: Criterion) -> str:
    """Return the criterion on one line, as edited by users."""
    words = " ".join(criterion.text.split())
    return words if criterion.dimension == "fact" else f"{criterion.dimension} {criterion.field}: {words}"


def read_criterion_line(line: str) -> Criterion:
    """Read a line of `format_criterion_line`. Raise FormatError if it is empty or too long."""
    words = " ".join(line.split())
    match = _LINE.fullmatch(words)
    dimension, field, text = match.groups() if match else ("fact", "", words)
    return read_criterion({"text": text, "dimension": dimension, "field": field}, "criteria")


def read_criterion(value: Any, place: str) -> Criterion:
    """Read a criterion as spelled in records. Raise FormatError if it is invalid."""
    try:
        return Criterion.model_validate(value)
    except ValidationError as error:
        raise FormatError(place, error.errors()[0]["msg"].removeprefix("Value error, ")) from None


def read_criteria(
    raw: Mapping[str, Any], form: Sequence[AnswerField], expected: Mapping[str, Any], place: str
) -> tuple[Criterion, ...]:
    """Read the criteria of a task's record; empty if its verifier is not a rubric. Raise FormatError if they are
    invalid.
    """
    listed = read_list_field(dict(raw), "criteria", place)
    criteria = tuple(read_criterion(item, f"{place}.criteria[{index}]") for index, item in enumerate(listed))
    require_fields(criteria, form, expected, place)
    return criteria


def require_fields(
    criteria: Sequence[Criterion], form: Sequence[AnswerField], expected: Mapping[str, Any], place: str
) -> None:
    """Raise FormatError if there are too many criteria, or one names a field that the answer form cannot decide it
    by."""
    if len(criteria) > MOST_CRITERIA:
        raise FormatError(f"{place}.criteria", f"{len(criteria)} criteria; at most {MOST_CRITERIA} are allowed")
    names = {field.name for field in form}
    for index, criterion in enumerate(criteria):
        if criterion.dimension != "fact" and criterion.field not in names:
            raise FormatError(f"{place}.criteria[{index}].field", f"the answer form has no field {criterion.field!r}")
        if criterion.dimension == "tolerance" and criterion.field not in expected:
            raise FormatError(f"{place}.criteria[{index}].field", f"{criterion.field!r} has no expected value")


def needs_fact_judge(criteria: Sequence[Criterion]) -> bool:
    """Return whether a judge has to decide any criterion."""
    return any(one.dimension == "fact" for one in criteria)
