"""Answers to bundled tasks: each is judged as a person who knows the right one would."""

from __future__ import annotations

import json

import pytest

from synthesis.formats.records import TaskRecord
from synthesis.rollout import format_observation
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.starter import build_program, list_folders, read_environment, read_tasks
from synthesis.starter.record import execute_calls
from tests.benchmarks.answers.judging import CORPUS, measure_judging, read_cases

TASKS = {task.key: task for folder in list_folders() for task in read_tasks(folder)}


def dated_fields(task: TaskRecord) -> list[str]:
    return [field.name for field in task.answer_form if field.type in ("date", "time")]


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return get_default_sandbox()


def test_every_answer_of_the_corpus_is_judged_as_a_person_would(sandbox: Sandbox) -> None:
    cases = read_cases(CORPUS)
    assert len(cases) >= 264
    assert TASKS.keys() <= {case.task for case in cases if case.right} & {case.task for case in cases if not case.right}
    found = measure_judging(sandbox, cases)
    assert found["wrong"] == []
    assert found["lines"] < 400


@pytest.mark.parametrize("key", [key for key, task in TASKS.items() if dated_fields(task)])
def test_the_days_and_times_of_a_form_can_be_looked_up(sandbox: Sandbox, key: str) -> None:
    task = TASKS[key]
    assert task.reference
    program = build_program(read_environment(next(path for path in list_folders() if task in read_tasks(path))))
    results, _ = execute_calls(sandbox, program, task, [call.model_dump() for call in task.reference.calls], "")
    seen = " ".join(map(format_observation, results)) + json.dumps([call.arguments for call in task.reference.calls])
    given = json.loads(task.reference.answer)
    assert [name for name in dated_fields(task) if given[name] not in seen] == []
