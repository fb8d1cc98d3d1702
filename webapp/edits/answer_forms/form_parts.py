"""Answer form as a part of a draft: the drafted form, and its transfer to a newer revision."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from synthesis.contracts import AnswerField
from synthesis.errors import FormatError, InputError
from synthesis.formats.answer_form import read_expected, read_form, read_submission, serialize_answer
from synthesis.json_reader import read_json


def read_drafted_form(
    body: Mapping[str, Any], form: Sequence[AnswerField], expected: Mapping[str, Any]
) -> tuple[tuple[AnswerField, ...], dict[str, Any]]:
    """Return the answer form and the expected values that a draft's body makes of the present ones.

    Raises FormatError if the values do not fit the form.
    """
    drafted_fields = read_form({"answer_form": body["answer_form"]}, "") if "answer_form" in body else tuple(form)
    values = body.get("expected_answer", dict(expected))
    return drafted_fields, read_expected({"expected_answer": values}, drafted_fields, "")


def merge_fields(before: list[Any], mine: list[Any], now: list[Any]) -> list[Any]:
    """Merge the fields of a draft's answer form with the current ones: a field that the draft did not change is the
    current one, and fields that were added meanwhile come last."""
    old, new = ({one["name"]: one for one in side} for side in (before, now))
    merged = [new.get(one["name"]) if old.get(one["name"]) == one else one for one in mine]
    names = {one["name"] for one in mine} | set(old)
    return [one for one in merged if one is not None] + [one for one in now if one["name"] not in names]


def merge_values(before: dict[str, Any], mine: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Merge the expected values of a draft with the current ones: a value that the draft did not change is the current
    one."""
    missing = object()
    merged = {
        name: now.get(name, missing)
        if mine.get(name, missing) == before.get(name, missing)
        else mine.get(name, missing)
        for name in [*mine, *(name for name in now if name not in mine)]
    }
    return {name: value for name, value in merged.items() if value is not missing}


def merge_form(body: dict[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Merge the form and the expected values of a draft's body with the current ones."""
    if "answer_form" not in body and "expected_answer" not in body:
        return
    form, values = now["answer_form"], now["expected_answer"]
    if "answer_form" in body:
        form = body["answer_form"] = merge_fields(before.get("answer_form", []), body["answer_form"], form)
    if "expected_answer" in body:
        values = merge_values(before.get("expected_answer", {}), body["expected_answer"], values)
    body["expected_answer"] = fit_values(form, values)


def fit_values(form: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the expected values that fit a form: others belonged to fields that are gone or changed."""
    fitting: dict[str, Any] = {}
    for field in read_form({"answer_form": list(form)}, ""):
        if field.name in values:
            with contextlib.suppress(FormatError):
                fitting |= read_expected({"expected_answer": {field.name: values[field.name]}}, (field,), "")
    return fitting


def follow_form(answer: str, form: Sequence[AnswerField], expected: Mapping[str, Any]) -> str:
    """Return a reference's answer in another form with other expected values; unchanged if it cannot be converted.

    The answer of the reference becomes the expected one; a field that a check reads keeps its value from the answer.
    """
    try:
        answered = read_json(answer)
    except FormatError:
        answered = {}
    answered = answered if isinstance(answered, dict) else {}
    values = {field.name: expected.get(field.name, answered.get(field.name)) for field in form}
    try:
        return serialize_answer(read_submission(form, values))
    except InputError:
        return answer
