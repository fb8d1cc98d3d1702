"""Submitted answers in recorded runs: the call that was the answer, read by the answer form of the run's task."""

from __future__ import annotations

from collections.abc import Sequence

from synthesis.contracts import AnswerField, TrajectoryStep
from synthesis.errors import InputError
from synthesis.formats.answer_form import (
    SUBMIT_ANSWER,
    is_written_alone,
    read_submission,
    read_written_submission,
    serialize_answer,
)
from synthesis.formats.records import RunRecord, RunStep


def read_submitted_run(record: RunRecord, form: Sequence[AnswerField]) -> RunRecord:
    """Return a run of a task with this form, in which the submission is the answer and not an executed call.

    A submission that does not fit the form has a `problem`. An agent without native calls submits by a last message
    that consists of the object alone. A run without a submission has no answer, whatever its messages.
    """
    if not form:
        return record
    answer, steps = "", list[RunStep]()
    for step in _convert_last_message(record.steps, form):
        if step.kind == "call" and step.tool == SUBMIT_ANSWER and not step.problem:
            try:
                answer = serialize_answer(read_submission(form, step.arguments))
                step = step.model_copy(update={"executed": False})
            except InputError as error:
                step = step.model_copy(update={"problem": str(error)})
        steps.append(step)
    return record.model_copy(update={"steps": tuple(steps), "answer": answer})


def find_submitted_answer(steps: Sequence[TrajectoryStep], form: Sequence[AnswerField]) -> str:
    """Return the answer that the steps of an attempt submitted; empty if none submitted one that fits."""
    for step in reversed(steps):
        if step.tool == SUBMIT_ANSWER and step.result is not None and not step.result.executed:
            try:
                return serialize_answer(read_submission(form, step.arguments))
            except InputError:
                return ""
    return ""


def _convert_last_message(steps: Sequence[RunStep], form: Sequence[AnswerField]) -> Sequence[RunStep]:
    """Return the steps with a last message that is an object of the form replaced by the call that would submit it."""
    last = steps[-1] if steps else None
    if last is None or last.kind != "message" or not is_written_alone(last.content):
        return steps
    try:
        submission = read_written_submission(form, last.content)
    except InputError:
        return steps
    call = {"kind": "call", "content": "", "tool": SUBMIT_ANSWER, "arguments": submission}
    return (*steps[:-1], last.model_copy(update=call))
