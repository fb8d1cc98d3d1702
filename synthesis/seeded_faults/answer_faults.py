"""Faults in the judgement of an answer: a field that is not checked, or compared too loosely or too narrowly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from synthesis.contracts import AnswerField, CheckRecord
from synthesis.seeded_faults.sound_tasks import JudgedTask

TOLERANCES = (0.25, 1, 10)
"""Parts of the expected value that a tolerance is blown up to."""
_NUMBERS = ("number", "money", "duration")
_TEXTS = ("id", "name", "text", "enumeration")


def loosen_answer(task: JudgedTask) -> Iterator[tuple[str, JudgedTask]]:
    """Yield verifiers that each accept wrong values of one field."""
    for field in task.form:
        if field.name not in task.expected:
            continue
        expected = task.expected[field.name]
        yield f"{field.name} is not judged", _drop_expected(task, field)
        yield f"{field.name} must only be there", _judge_by_check(task, field, "value is not None")
        if field.type in _NUMBERS:
            for part in TOLERANCES:
                wide = field.model_copy(update={"tolerance": abs(expected) * part or part})
                yield f"{field.name} within {wide.tolerance:g}", replace(task, form=_replace_field(task.form, wide))
            yield (
                f"{field.name} is at least the expected one",
                _judge_by_check(task, field, f"value is not None and value >= {expected!r}"),
            )
            yield (
                f"{field.name} is compared as whole number",
                _judge_by_check(task, field, f"value is not None and int(value) == int({expected!r})"),
            )
            yield (
                f"{field.name} is looked for in its text",
                _judge_by_check(task, field, f"str({expected!r}) in str(value)"),
            )
        elif field.type == "time":
            wide = field.model_copy(update={"tolerance": 180.0})
            yield f"{field.name} within 180 minutes", replace(task, form=_replace_field(task.form, wide))
            yield f"{field.name} by its hour", _judge_by_check(task, field, f"str(value)[:2] == {expected[:2]!r}")
        elif field.type == "date":
            yield f"{field.name} by its month", _judge_by_check(task, field, f"str(value)[:7] == {expected[:7]!r}")
            yield (
                f"{field.name} is at least the expected one",
                _judge_by_check(task, field, f"str(value) >= {expected!r}"),
            )
        elif field.type in _TEXTS:
            held = f"{expected.lower()!r} in str(value).lower()"
            as_text = AnswerField(name=field.name, description=field.description)
            loose = _judge_by_check(replace(task, form=_replace_field(task.form, as_text)), as_text, held)
            yield f"{field.name} is a text that holds the expected one", loose
            first = expected.split()[0].lower()
            yield (
                f"{field.name} begins alike",
                _judge_by_check(task, field, f"str(value).lower().startswith({first[:3]!r})"),
            )


def narrow_answer(task: JudgedTask) -> Iterator[tuple[str, JudgedTask]]:
    """Yield verifiers that each refuse a right value in another spelling."""
    for field in task.form:
        if field.name not in task.expected:
            continue
        expected = task.expected[field.name]
        yield f"{field.name} must be spelled alike", _judge_by_check(task, field, f"str(value) == str({expected!r})")
        kind = type(expected).__name__
        yield (
            f"{field.name} must be of type {kind}",
            _judge_by_check(task, field, f"isinstance(value, {kind}) and value == {expected!r}"),
        )
    head = "def check(initial_state, final_state, answer):\n"
    text_check = CheckRecord(label="The answer", source=f"{head}    return answer == {task.reference.answer!r}\n")
    yield "the answer must be the same text", replace(task, expected={}, checks=(*task.checks, text_check))


def _replace_field(form: tuple[AnswerField, ...], field: AnswerField) -> tuple[AnswerField, ...]:
    return tuple(field if item.name == field.name else item for item in form)


def _drop_expected(task: JudgedTask, field: AnswerField) -> JudgedTask:
    return replace(task, expected={name: value for name, value in task.expected.items() if name != field.name})


def _judge_by_check(task: JudgedTask, field: AnswerField, condition: str) -> JudgedTask:
    """Return the task with the field judged by an author's check instead of its expected value."""
    head = "def check(initial_state, final_state, answer):\n"
    source = f"{head}    value = answer_value(answer, {field.name!r})\n    return {condition}\n"
    author_check = CheckRecord(label=f"The answer tells {field.name}", source=source)
    task = _drop_expected(task, field)
    return replace(task, checks=(*task.checks, author_check))
