"""The criteria of a rubric, as records and people spell them.

A task's record holds them in `criteria`: a plain text is a fact, an object names its dimension and field. On one line a
criterion of another dimension stands as `tolerance total: The total is right.`
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from synthesis.contracts import AnswerField, Criterion
from synthesis.errors import FormatError
from synthesis.formats.values import list_field

MOST_CRITERIA = 50
_LINE = re.compile(r"(completeness|schema|tolerance) ([a-z][a-z0-9_]*): (.+)")


def criterion_line(criterion: Criterion) -> str:
    """Return the criterion on one line, as people edit it."""
    words = " ".join(criterion.text.split())
    return words if criterion.dimension == "fact" else f"{criterion.dimension} {criterion.field}: {words}"


def read_criterion_line(line: str) -> Criterion:
    """Read what `criterion_line` spells. Raises FormatError (empty or too long)."""
    words = " ".join(line.split())
    found = _LINE.fullmatch(words)
    dimension, field, text = found.groups() if found else ("fact", "", words)
    return read_criterion({"text": text, "dimension": dimension, "field": field}, "criteria")


def read_criterion(value: Any, place: str) -> Criterion:
    """Read a criterion as records spell it. Raises FormatError."""
    try:
        return Criterion.model_validate(value)
    except ValidationError as error:
        raise FormatError(place, error.errors()[0]["msg"].removeprefix("Value error, ")) from None


def read_criteria(
    raw: Mapping[str, Any], form: Sequence[AnswerField], expected: Mapping[str, Any], place: str
) -> tuple[Criterion, ...]:
    """Read the criteria in a task's record, empty if its verifier is no rubric. Raises FormatError."""
    listed = list_field(dict(raw), "criteria", place)
    found = tuple(read_criterion(item, f"{place}.criteria[{index}]") for index, item in enumerate(listed))
    require_fields(found, form, expected, place)
    return found


def require_fields(
    criteria: Sequence[Criterion], form: Sequence[AnswerField], expected: Mapping[str, Any], place: str
) -> None:
    """Raises FormatError: there are too many, or one names a field that the answer form cannot decide it by."""
    if len(criteria) > MOST_CRITERIA:
        raise FormatError(f"{place}.criteria", f"{len(criteria)} criteria; at most {MOST_CRITERIA} are allowed")
    names = {field.name for field in form}
    for index, one in enumerate(criteria):
        if one.dimension != "fact" and one.field not in names:
            raise FormatError(f"{place}.criteria[{index}].field", f"the answer form has no field {one.field!r}")
        if one.dimension == "tolerance" and one.field not in expected:
            raise FormatError(f"{place}.criteria[{index}].field", f"{one.field!r} has no expected value")


def asks_judge(criteria: Sequence[Criterion]) -> bool:
    """Return whether a judge has to decide some criterion."""
    return any(one.dimension == "fact" for one in criteria)
