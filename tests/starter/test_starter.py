"""The bundled environments keep their word: references solve, doing nothing does not, recorded runs reproduce."""

from __future__ import annotations

import json
import re

import pytest

from synthesis.assessment.environments import read_findings, view_of
from synthesis.formats.envscaler_runs import parse_runs
from synthesis.formats.files import Entry
from synthesis.formats.records import RunRecord, TaskRecord
from synthesis.runtime import Sandbox, default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.runtime.program import check_program
from synthesis.starter import environment, folders, load, read, references, runs, tasks
from synthesis.starter.record import execute, program_of, record_folder
from synthesis.verifiers.checks import do_nothing, marks

FOLDERS = folders()
TASKS = [(folder, task) for folder in FOLDERS for task in tasks(folder)]
every_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
every_task = pytest.mark.parametrize(("folder", "task"), TASKS, ids=lambda item: getattr(item, "key", ""))


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return default_sandbox()


def start(sandbox: Sandbox, folder, task: TaskRecord):
    with sandbox.reset(program_of(environment(folder)), encode_state(task.initial_state)) as episode:
        return episode.state()


@every_task
def test_the_reference_earns_everything_twice_and_each_call_is_accepted(sandbox, folder, task):
    reference = references(folder)[task.key]
    program = program_of(environment(folder))
    first = execute(sandbox, program, task, reference["calls"], reference["answer"])
    second = execute(sandbox, program, task, reference["calls"], reference["answer"])
    assert first[1].reward == 1
    assert all(result.ok and result.result["success"] for result in first[0])
    timeless = [[result.model_copy(update={"duration_us": 0}) for result in found[0]] for found in (first, second)]
    assert timeless[0] == timeless[1]


@every_task
def test_doing_nothing_earns_nothing_and_something_is_guarded(sandbox, folder, task):
    state = start(sandbox, folder, task)
    sources = [check.source for check in task.checks]
    found = marks(sandbox, sources, state)
    assert do_nothing(sandbox, sources, state, rule="goals", marks=found).reward == 0
    assert set(found) == {"goal", "guard"}
    assert 4 <= len(sources) <= 8


@every_task
def test_the_instruction_names_no_tool_and_no_field(folder, task):
    about = environment(folder)
    names = {tool.name for tool in about.tools} | set(task.initial_state)
    fields = {word for part in about.state_schema for word in re.findall(r"\w+", part["attributes"])}
    names |= {word for word in fields if "_" in word}
    assert not [name for name in names if "_" in name and name in task.instruction]


@every_folder
def test_programs_have_no_static_findings(folder):
    about = environment(folder)
    assert check_program(about.source, about.class_name, [tool.name for tool in about.tools]) == []
    assert read_findings(about, view_of(about)) == []
    assert 12 <= len(about.tools) <= 15
    assert len(about.rules) >= 4
    assert all(tool.description for tool in about.tools)


@every_folder
def test_the_recorded_runs_are_what_executing_the_script_gives(sandbox, folder):
    assert record_folder(sandbox, folder) == runs(folder)


@every_folder
def test_the_runs_show_success_failure_errors_and_users(folder):
    found = runs(folder)
    assert any(run.recorded_reward == 1 for run in found)
    assert any(run.conversational and sum(step.kind == "user" for step in run.steps) > 2 for run in found)
    failed = [run for run in found if run.recorded_reward == 0]
    assert any((step.recorded or "").startswith("Error") for run in failed for step in run.steps)
    assert all(any(step.reasoning for step in run.steps) for run in found)


def test_load_gives_distinct_keys_and_json():
    environments, all_tasks, all_runs = load()
    keys = [(task.environment_key, task.key) for task in all_tasks]
    assert len(set(keys)) == len(keys) >= 6
    assert {run.task_key for run in all_runs} <= {task.key for task in all_tasks}
    json.dumps([record.raw for record in (*environments, *all_tasks)])


def test_an_export_of_a_run_can_be_imported_again():
    for run in load()[2]:
        ((_, found),) = parse_runs([Entry(place="[0]", key="", value=run.raw)])
        assert isinstance(found, RunRecord)
        assert [step.model_dump(exclude={"turn"}) for step in found.steps] == [
            step.model_dump(exclude={"turn"}) for step in run.steps
        ]
        assert (found.conversational, found.recorded_reward) == (run.conversational, run.recorded_reward)


def scene(name: str, index: int):
    folder = next(folder for folder in FOLDERS if folder.name == name)
    return folder, read(folder, "scenarios.json")[index]["initial_state"]


REFUSED = [
    # A clinician: offers, days and one patient at a time.
    ("clinic_desk", 0, "book_appointment", ["P-002", "check_up", "C-3", "2026-03-05", "10:00"], "does not offer"),
    ("clinic_desk", 0, "book_appointment", ["P-002", "check_up", "C-1", "2026-03-04", "10:00"], "does not work"),
    ("clinic_desk", 0, "book_appointment", ["P-002", "follow_up", "C-1", "2026-03-05", "09:00"], "is busy"),
    # A room: the right kind, open and free.
    ("clinic_desk", 1, "move_appointment", ["A-101", "2026-03-10", "10:30", None, "R1"], "no free ultrasound room"),
    ("clinic_desk", 1, "move_appointment", ["A-101", "2026-03-10", "09:00", None, "R6"], "no free ultrasound room"),
    # A patient in two places.
    ("clinic_desk", 0, "book_appointment", ["P-001", "follow_up", "C-2", "2026-03-02", "10:00"], "at that time"),
    # Opening hours, quarters and the window.
    ("clinic_desk", 0, "book_appointment", ["P-002", "check_up", "C-1", "2026-03-05", "17:45"], "is open from"),
    ("clinic_desk", 0, "book_appointment", ["P-002", "check_up", "C-1", "2026-03-05", "10:05"], "multiple of 15"),
    ("clinic_desk", 0, "book_appointment", ["P-002", "check_up", "C-1", "2026-02-26", "10:00"], "60 days ahead"),
    ("clinic_desk", 0, "book_appointment", ["P-002", "check_up", "C-1", "2026-06-01", "10:00"], "60 days ahead"),
    # Cancelling.
    ("clinic_desk", 0, "cancel_appointment", ["A-102", "bored"], "must be one of"),
    ("clinic_desk", 0, "cancel_appointment", ["A-112", "patient_request"], "Only a booked appointment"),
    ("clinic_desk", 0, "join_waiting", ["P-011", "physiotherapy"], "already waits"),
    ("clinic_desk", 0, "set_room_status", ["R3", "closed"], "still holds"),
    ("clinic_desk", 0, "send_message", ["P-004", "Hello", "sms"], "did not agree"),
    ("clinic_desk", 0, "send_message", ["P-001", "x" * 321], "320 characters"),
    # The tool library.
    ("tool_library", 0, "lend_item", ["M-16", "T-118", 3], "owes more"),
    ("tool_library", 0, "reserve_item", ["M-16", "T-118", "2026-04-20", 3], "owes more"),
    ("tool_library", 0, "lend_item", ["M-01", "T-101", 3], "needs the saw induction"),
    ("tool_library", 0, "lend_item", ["M-02", "T-118", 15], "1 to 14 days"),
    ("tool_library", 0, "lend_item", ["M-02", "T-106", 8], "1 to 7 days"),
    ("tool_library", 0, "extend_loan", ["L-2", 3], "overdue"),
    ("tool_library", 0, "extend_loan", ["L-1", 8], "1 to 7 days"),
    ("tool_library", 0, "extend_loan", ["L-1", 5], "another member"),
    ("tool_library", 0, "lend_item", ["M-02", "T-116", 8], "another member"),
    ("tool_library", 0, "reserve_item", ["M-02", "T-116", "2026-04-28", 3], "falls into that time"),
    ("tool_library", 0, "lend_item", ["M-02", "T-105", 3], "too long ago"),
    ("tool_library", 1, "lend_item", ["M-02", "T-105", 3], "is in repair"),
    ("tool_library", 1, "reserve_item", ["M-02", "T-118", "2026-06-05", 3], "after today"),
    ("tool_library", 0, "take_payment", ["M-01", 100], "0 cents are owed"),
    ("tool_library", 0, "add_induction", ["M-03", "saw"], "already has"),
]


@pytest.mark.parametrize(("name", "index", "tool", "values", "reason"), REFUSED)
def test_rules_are_enforced_and_a_refusal_changes_nothing(sandbox, name, index, tool, values, reason):
    folder, state = scene(name, index)
    program = program_of(environment(folder))
    parameters = list(next(item for item in program.tools if item.name == tool).parameters["properties"])
    arguments = {key: value for key, value in zip(parameters, values, strict=False) if value is not None}
    with sandbox.reset(program, encode_state(state)) as episode:
        result = episode.call(tool, arguments)
    assert result.ok
    assert result.result["success"] is False
    assert reason in result.result["error"]
    assert result.patch == []


def play(sandbox, name, index, *calls):
    folder, state = scene(name, index)
    with sandbox.reset(program_of(environment(folder)), encode_state(state)) as episode:
        return [episode.call(tool, arguments) for tool, arguments in calls], episode.state()


def test_booking_a_service_ends_waiting_for_it(sandbox):
    call = {"patient_id": "P-008", "service": "check_up", "clinician_id": "C-1", "date": "2026-03-05", "start": "08:00"}
    _, state = play(sandbox, "clinic_desk", 0, ("book_appointment", call))
    assert ("P-008", "check_up") not in {(entry["patient_id"], entry["service"]) for entry in state["waiting_list"]}


def test_a_closed_room_is_not_used(sandbox):
    calls = [
        ("move_appointment", {"appointment_id": key, "date": day, "start": start, "room_id": "R6"})
        for key, day, start in (("A-101", "2026-03-10", "10:30"), ("A-103", "2026-03-10", "11:00"))
    ]
    calls.append(
        ("move_appointment", {"appointment_id": "A-105", "date": "2026-03-11", "start": "15:00", "room_id": "R6"})
    )
    calls.append(("set_room_status", {"room_id": "R5", "status": "closed"}))
    calls.append(("move_appointment", {"appointment_id": "A-101", "date": "2026-03-10", "start": "11:00"}))
    results, _ = play(sandbox, "clinic_desk", 1, *calls)
    assert [result.result["success"] for result in results] == [True, True, True, True, False]


def test_lateness_costs_a_day_each_up_to_the_deposit(sandbox):
    (result,), state = play(sandbox, "tool_library", 0, ("return_item", {"item_id": "T-107"}))
    assert (result.result["days_late"], result.result["fee_cents"]) == (5, 500)
    assert state["ledger"][-1]["cents"] == 500


def test_new_members_have_two_loans_and_a_loan_is_extended_once(sandbox):
    results, _ = play(
        sandbox,
        "tool_library",
        0,
        ("lend_item", {"member_id": "M-03", "item_id": "T-118", "days": 3}),
        ("lend_item", {"member_id": "M-03", "item_id": "T-123", "days": 3}),
        ("extend_loan", {"loan_id": "L-3", "days": 2}),
        ("extend_loan", {"loan_id": "L-3", "days": 2}),
    )
    assert [result.result["success"] for result in results] == [True, False, True, False]
    assert "2 of 2 loans" in results[1].result["error"]
    assert "only once" in results[3].result["error"]


def test_a_failed_inspection_takes_a_tool_off_the_shelf(sandbox):
    results, _ = play(
        sandbox,
        "tool_library",
        0,
        ("record_inspection", {"item_id": "T-106", "passed": False}),
        ("lend_item", {"member_id": "M-02", "item_id": "T-106", "days": 3}),
    )
    assert "in repair" in results[1].result["error"]
