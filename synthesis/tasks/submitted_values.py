"""Values submitted by the solver's runs, compared with the author's: an expected value that none gave may be wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from synthesis.contracts import AnswerField
from synthesis.drafts import TaskDraft
from synthesis.formats.answer_form import build_compare_spec
from synthesis.formats.values import shorten_text
from synthesis.runtime.child.answer_values import answer_value, is_equal

VALUE_CHARS = 120


def describe_disagreements(task: TaskDraft, answers: Sequence[str]) -> list[str]:
    """Return a sentence for each field for which runs submitted values, and none the expected one."""
    sentences = []
    for field in task.answer_form:
        submitted_values = [value for answer in answers if (value := answer_value(answer, field.name)) is not None]
        if field.name in task.expected_answer and submitted_values:
            sentences.append(
                _describe_disagreement(field, task.expected_answer[field.name], submitted_values, len(answers))
            )
    return [sentence for sentence in sentences if sentence]


def is_same_answer(form: Sequence[AnswerField], one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two answers have the same values, compared by the types of the form."""
    return all(is_equal(one.get(field.name), other.get(field.name), build_compare_spec(field)) for field in form)


def _describe_disagreement(field: AnswerField, expected: Any, given: Sequence[Any], runs: int) -> str:
    spec = build_compare_spec(field)
    if any(is_equal(value, expected, spec) for value in given):
        return ""
    others = [value for at, value in enumerate(given) if not any(is_equal(value, one, spec) for one in given[:at])]
    expectation = f"{_format_value(expected)} is expected as `{field.name}`"
    if len(others) == 1 and len(given) == runs > 1:
        submitted = _format_value(others[0])
        return f"{expectation}, and all {runs} runs submitted {submitted}: the expected value is likely to be wrong."
    return f"{expectation}; submitted was {', '.join(map(_format_value, others))}."


def _format_value(value: Any) -> str:
    return shorten_text(json.dumps(value, ensure_ascii=False), VALUE_CHARS)
