"""Answers that are right in other states (ours): the same script's answers in states that lack one record of this one.

Each has the right form and values from the environment. A verification script that passes one of them does not check
the requested information.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from synthesis.contracts import State
from synthesis.drafts import TaskDraft
from synthesis.errors import InputError, ProgramError, StateError
from synthesis.formats.answer_form import read_answer_values, read_submission, serialize_answer
from synthesis.programmatic.execution import execute_solution
from synthesis.runtime import Sandbox
from synthesis.tasks.submitted_values import is_same_answer
from synthesis.tasks.task_context import World

TRIED = 12
"""So many neighbouring states are tried at most."""


def find_sibling_answers(sandbox: Sandbox, world: World, task: TaskDraft, wanted: int, most_calls: int) -> list[str]:
    """Return at most so many answers that differ from the task's. A state in which the script fails gives none.

    Raises InfrastructureError.
    """
    if not task.answer_form:
        return []
    answers: dict[str, None] = {}
    right = read_answer_values(task.reference.answer) if task.reference else {}
    for number, state in enumerate(_list_siblings(world.initial)):
        if len(answers) >= wanted or number >= TRIED:
            break
        try:
            run = execute_solution(sandbox, world.program, state, task.solution, most_calls)
            answer = {} if run.failed else read_submission(task.answer_form, run.answer)
        except (InputError, ProgramError, StateError):
            continue
        if not run.failed and not is_same_answer(task.answer_form, answer, right):
            answers[serialize_answer(answer)] = None
    return list(answers)


def _list_siblings(initial: State) -> Iterator[State]:
    """Yield states without one record each: the first and the last of every collection, the collections in turn."""
    collections = [key for key, value in initial.items() if isinstance(value, dict | list) and len(value) > 1]
    for first in (False, True):
        for key in collections:
            yield {**initial, key: _drop_record(initial[key], first=first)}


def _drop_record(value: Any, *, first: bool) -> Any:
    if isinstance(value, list):
        return value[1:] if first else value[:-1]
    names = list(value)
    left_out = names[0 if first else -1]
    return {name: record for name, record in value.items() if name != left_out}
