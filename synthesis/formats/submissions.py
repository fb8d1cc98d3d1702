"""Submitted answers in recorded runs: which call was the answer, read by the answer form of the run's task."""

from __future__ import annotations

from collections.abc import Sequence

from synthesis.contracts import AnswerField
from synthesis.errors import InputError
from synthesis.formats.answer_form import SUBMIT_ANSWER, answer_text, read_submission
from synthesis.formats.records import RunRecord, RunStep


def read_submitted_run(record: RunRecord, form: Sequence[AnswerField]) -> RunRecord:
    """Return a run of a task with this form: what it submitted is its answer, and no call that reached the environment.

    One that did not fit the form has a `problem`. A run that submitted nothing has no answer, whatever it said.
    """
    if not form:
        return record
    answer, steps = "", list[RunStep]()
    for step in record.steps:
        if step.kind == "call" and step.tool == SUBMIT_ANSWER and not step.problem:
            try:
                answer = answer_text(read_submission(form, step.arguments))
                step = step.model_copy(update={"executed": False})
            except InputError as error:
                step = step.model_copy(update={"problem": str(error)})
        steps.append(step)
    return record.model_copy(update={"steps": tuple(steps), "answer": answer})
