"""What the solver's runs submitted, beside what the author expects: an expected value that none gave may be wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from synthesis.contracts import AnswerField
from synthesis.drafts import TaskDraft
from synthesis.formats.answer_form import compare_spec
from synthesis.formats.values import shorten
from synthesis.runtime.child.answer_values import answer_value, is_equal

VALUE_CHARS = 120


def describe_disagreements(task: TaskDraft, answers: Sequence[str]) -> list[str]:
    """Return a sentence for each field for which runs submitted values, and none the expected one."""
    told = []
    for field in task.answer_form:
        given = [value for answer in answers if (value := answer_value(answer, field.name)) is not None]
        if field.name in task.expected_answer and given:
            told.append(_describe_field(field, task.expected_answer[field.name], given, len(answers)))
    return [sentence for sentence in told if sentence]


def _describe_field(field: AnswerField, expected: Any, given: Sequence[Any], runs: int) -> str:
    spec = compare_spec(field)
    if any(is_equal(value, expected, spec) for value in given):
        return ""
    others = [value for at, value in enumerate(given) if not any(is_equal(value, one, spec) for one in given[:at])]
    wanted = f"{_write(expected)} is expected as `{field.name}`"
    if len(others) == 1 and len(given) == runs > 1:
        return f"{wanted}, and all {runs} runs submitted {_write(others[0])}: the expected value is likely to be wrong."
    return f"{wanted}; submitted was {', '.join(map(_write, others))}."


def _write(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), VALUE_CHARS)
