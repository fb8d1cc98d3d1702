"""The bundled environments keep their word: references solve, doing nothing does not, recorded runs reproduce."""

from __future__ import annotations

import json
import re

import pytest

from synthesis.assessment.environments import build_view, read_findings
from synthesis.contracts import ChecksVerifier, ScriptVerifier
from synthesis.formats.answer_form import build_field_checks, read_submission
from synthesis.formats.envscaler_runs import parse_runs
from synthesis.formats.files import Entry
from synthesis.formats.records import RunRecord, TaskRecord
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.runtime.program import check_program
from synthesis.starter import (
    list_folders,
    load_bundle,
    read_environment,
    read_goldens,
    read_json_file,
    read_references,
    read_runs,
    read_tasks,
)
from synthesis.starter.record import build_program, compute_goldens, execute_calls, record_folder_runs
from synthesis.tasks.leak import collect_names, find_leaks
from synthesis.verifiers.check_reads import reads_answer
from synthesis.verifiers.checks import mark_checks
from synthesis.verifiers.rewards import score_end
from tests.verifier_fields import score_checks

FOLDERS = list_folders()
TASKS = [(folder, task) for folder in FOLDERS for task in read_tasks(folder)]
every_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
every_task = pytest.mark.parametrize(("folder", "task"), TASKS, ids=lambda item: getattr(item, "key", ""))
every_played_task = pytest.mark.parametrize(
    ("folder", "task"),
    [
        pytest.param(folder, task, id=task.key, marks=[] if task == read_tasks(folder)[-1] else [pytest.mark.slow])
        for folder, task in TASKS
    ],
)
"""`make test` plays the hardest task of each environment, and `.ci/run` all."""


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return get_default_sandbox()


def start(sandbox: Sandbox, folder, task: TaskRecord):
    with sandbox.reset(build_program(read_environment(folder)), encode_state(task.initial_state)) as episode:
        return episode.state()


@every_played_task
def test_the_reference_earns_everything_and_each_call_is_accepted(sandbox, folder, task):
    calls, program = read_references(folder)[task.key]["calls"], build_program(read_environment(folder))
    results, reward = execute_calls(sandbox, program, task, calls, task.reference.answer)
    assert reward.reward == 1
    assert all(result.ok and result.result["success"] for result in results)


@every_played_task
def test_doing_nothing_earns_nothing_and_something_is_guarded(sandbox, folder, task):
    state = start(sandbox, folder, task)
    if not isinstance(task.verifier, ChecksVerifier):
        assert score_end(sandbox, task.verifier, state, state, "").reward == 0
        return
    sources = [check.source for check in task.verifier.checks]
    found = mark_checks(sandbox, sources, state)
    assert score_checks(sandbox, sources, state, state, rule="goals", marks=found).reward == 0
    assert set(found) == {"goal", "guard"}
    asked = [mark for mark, source in zip(found, sources, strict=True) if reads_answer(source)]
    assert asked == ["goal"] * len(task.answer_form)
    assert 4 <= len(sources) < 15 + len(task.answer_form)


@every_task
def test_each_field_of_a_form_is_judged_and_no_other_check_reads_the_answer(folder, task):
    assert task.answer_form
    assert set(task.expected_answer) == {field.name for field in task.answer_form}
    assert all(field.description for field in task.answer_form)
    assert find_told_values(task) == []
    if not isinstance(task.verifier, ScriptVerifier):
        made = build_field_checks(task.answer_form, task.expected_answer)
        assert task.verifier.checks[-len(task.answer_form) :] == made
        assert not any(reads_answer(check.source) for check in task.verifier.checks[: -len(made)])
    submitted = json.loads(task.reference.answer)
    assert read_submission(task.answer_form, submitted) == submitted == task.expected_answer


def find_told_values(task: TaskRecord) -> list[str]:
    """Return the expected values that a description gives away."""
    words = " ".join(field.description for field in task.answer_form)
    return [str(value) for value in task.expected_answer.values() if re.search(rf"\b{re.escape(str(value))}\b", words)]


@every_task
def test_the_instruction_names_no_tool_and_no_field(folder, task):
    assert (
        find_leaks(f"{task.title}\n{task.instruction}", collect_names(read_environment(folder), task.initial_state))
        == []
    )


@every_folder
def test_programs_have_no_static_findings(folder):
    about = read_environment(folder)
    assert check_program(about.source, about.class_name, [tool.name for tool in about.tools]) == []
    assert read_findings(about, build_view(about)) == []
    assert len(about.tools) >= 12
    assert len(about.rules) >= 4
    assert all(tool.description for tool in about.tools)


def test_the_set_is_wide():
    assert len(FOLDERS) >= 8
    assert len({read_environment(folder).category for folder in FOLDERS}) >= 6


@every_folder
def test_the_tasks_of_an_environment_rise_from_easy_to_hard(folder):
    known = read_references(folder)
    sizes = [
        [len(known[task["key"]]["calls"]) for task in part["tasks"]]
        for part in read_json_file(folder, "scenarios.json")
    ]
    assert len(sizes) >= 2
    assert all(size == sorted(size) for size in sizes)
    every = sorted(call for size in sizes for call in size)
    assert len(every) >= 6
    assert 4 <= every[0] <= 5
    assert 15 <= every[-1] <= 20
    assert len(set(every)) >= 4


def test_each_kind_that_needs_no_judge_is_shown():
    assert {task.verifier.kind for _, task in TASKS} == {"checks", "golden", "script"}


@every_folder
def test_the_recorded_golden_states_are_what_executing_the_references_gives(sandbox, folder):
    assert compute_goldens(sandbox, folder) == {key: task["verifier"] for key, task in read_goldens(folder).items()}


@every_folder
def test_the_recorded_runs_are_what_executing_the_script_gives(sandbox, folder):
    assert record_folder_runs(sandbox, folder) == read_runs(folder)


@every_folder
def test_the_runs_show_success_failure_errors_and_users(folder):
    found = read_runs(folder)
    assert any(run.recorded_reward == 1 for run in found)
    assert any(run.conversational and sum(step.kind == "user" for step in run.steps) > 2 for run in found)
    failed = [run for run in found if run.recorded_reward == 0]
    assert any((step.recorded or "").startswith("Error") for run in failed for step in run.steps)
    assert all(any(step.reasoning for step in run.steps) for run in found)


def test_load_gives_distinct_keys_and_json():
    environments, all_tasks, all_runs = load_bundle()
    keys = [(task.environment_key, task.key) for task in all_tasks]
    assert len(set(keys)) == len(keys) >= 6
    assert {run.task_key for run in all_runs} <= {task.key for task in all_tasks}
    json.dumps([record.raw for record in (*environments, *all_tasks)])


def test_an_export_of_a_run_can_be_imported_again():
    for run in load_bundle()[2]:
        ((_, found),) = parse_runs([Entry(place="[0]", key="", value=run.raw)])
        assert isinstance(found, RunRecord)
        assert [step.model_dump(exclude={"turn"}) for step in found.steps] == [
            step.model_dump(exclude={"turn"}) for step in run.steps
        ]
        assert (found.conversational, found.recorded_reward) == (run.conversational, run.recorded_reward)
