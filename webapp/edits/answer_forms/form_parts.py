"""The answer form as a part of a draft: what a draft makes of it, and how it is put on a newer revision."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from synthesis.contracts import AnswerField
from synthesis.errors import FormatError, InputError
from synthesis.formats.answer_form import answer_text, read_expected, read_form, read_submission
from synthesis.json_reader import read_json


def drafted_form(
    body: Mapping[str, Any], form: Sequence[AnswerField], expected: Mapping[str, Any]
) -> tuple[tuple[AnswerField, ...], dict[str, Any]]:
    """Return the answer form and the expected values that a draft's body makes of those that are there.

    Raises FormatError: the values do not fit the form.
    """
    made = read_form({"answer_form": body["answer_form"]}, "") if "answer_form" in body else tuple(form)
    values = body.get("expected_answer", dict(expected))
    return made, read_expected({"expected_answer": values}, made, "")


def merged_fields(before: list[Any], mine: list[Any], now: list[Any]) -> list[Any]:
    """Fields of a draft's answer form put on those that are current now: what it left as it was is the current one, and
    what came in meanwhile comes last."""
    old, new = ({one["name"]: one for one in side} for side in (before, now))
    kept = [new.get(one["name"]) if old.get(one["name"]) == one else one for one in mine]
    names = {one["name"] for one in mine} | set(old)
    return [one for one in kept if one is not None] + [one for one in now if one["name"] not in names]


def merged_values(before: dict[str, Any], mine: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Expected values of a draft put on the current ones: what it left as it was is the current one."""
    gone = object()
    found = {
        name: now.get(name, gone) if mine.get(name, gone) == before.get(name, gone) else mine.get(name, gone)
        for name in [*mine, *(name for name in now if name not in mine)]
    }
    return {name: value for name, value in found.items() if value is not gone}


def merge_form(body: dict[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Put the form and the expected values of a draft's body on those that are current now."""
    if "answer_form" not in body and "expected_answer" not in body:
        return
    form, values = now["answer_form"], now["expected_answer"]
    if "answer_form" in body:
        form = body["answer_form"] = merged_fields(before.get("answer_form", []), body["answer_form"], form)
    if "expected_answer" in body:
        values = merged_values(before.get("expected_answer", {}), body["expected_answer"], values)
    body["expected_answer"] = fit_values(form, values)


def fit_values(form: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some expected values that fit a form: others belonged to fields that are gone or changed."""
    fitting: dict[str, Any] = {}
    for field in read_form({"answer_form": list(form)}, ""):
        if field.name in values:
            with contextlib.suppress(FormatError):
                fitting |= read_expected({"expected_answer": {field.name: values[field.name]}}, (field,), "")
    return fitting


def follow_form(answer: str, form: Sequence[AnswerField], expected: Mapping[str, Any]) -> str:
    """Return a reference's answer as another form and other expected values want it; unchanged if they do not say it.

    What is expected is what the reference answers; a field that a check reads keeps what the answer had in it.
    """
    try:
        known = read_json(answer)
    except FormatError:
        known = {}
    known = known if isinstance(known, dict) else {}
    values = {field.name: expected.get(field.name, known.get(field.name)) for field in form}
    try:
        return answer_text(read_submission(form, values))
    except InputError:
        return answer
