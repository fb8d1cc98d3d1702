"""The clinic and the tool library: each rule is enforced, refusals change nothing, another right way earns 1 too."""

from __future__ import annotations

import pytest

from synthesis.formats.answer_form import serialize_answer
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.starter import HERE, read_environment, read_json_file, read_tasks
from synthesis.starter.record import build_program, execute_calls


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return get_default_sandbox()


def scene(name: str, index: int):
    folder = HERE / name
    return folder, read_json_file(folder, "scenarios.json")[index]["initial_state"]


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
    ("clinic_desk", 1, "send_message", ["A-101", "sms"], "did not agree"),
    ("clinic_desk", 0, "send_message", ["A-101", "post"], "sms or email"),
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
    program = build_program(read_environment(folder))
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
    with sandbox.reset(build_program(read_environment(folder)), encode_state(state)) as episode:
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


def test_a_day_is_written_out_in_full(sandbox):
    calls = [
        (
            "book_appointment",
            {"patient_id": "P-002", "service": "check_up", "clinician_id": "C-1", "start": start} | day,
        )
        for start, day in (("9:00", {"date": "2026-03-05"}), ("09:00", {"date": "2026-3-5"}))
    ]
    results, state = play(sandbox, "clinic_desk", 0, *calls)
    assert [result.result["error"][:5] for result in results] == ["start", "date "]
    assert len(state["appointments"]) == 41


def call(tool, **arguments):
    return {"tool": tool, "arguments": arguments}


def book(patient, service, clinician, date, start):
    return call("book_appointment", patient_id=patient, service=service, clinician_id=clinician, date=date, start=start)


def write(appointment, channel="sms"):
    return call("send_message", appointment_id=appointment, channel=channel)


def cancel(*keys, reason="clinic_request"):
    return [call("cancel_appointment", appointment_id=key, reason=reason) for key in keys]


OTHER_WAYS = {
    "clinic-move-check-up": (
        [
            book("P-001", "check_up", "C-1", "2026-03-05", "08:00"),
            *cancel("A-102", reason="patient_request"),
            write("A-142"),
        ],
        {"finished": "08:30"},
    ),
    "clinic-fill-physio-gaps": (
        [
            book("P-015", "physiotherapy", "C-4", "2026-03-04", "12:00"),
            write("A-142", "email"),
            book("P-011", "physiotherapy", "C-4", "2026-03-04", "08:45"),
            write("A-143", "email"),
        ],
        {"booked": 225},
    ),
    "clinic-broken-scanner": (
        [
            *cancel("A-101", "A-103", "A-105"),
            call("set_room_status", room_id="R5", status="closed"),
            book("P-003", "ultrasound", "C-5", "2026-03-11", "15:00"),
            book("P-004", "ultrasound", "C-2", "2026-03-10", "10:30"),
            book("P-017", "ultrasound", "C-5", "2026-03-10", "11:00"),
            write("A-148"),
            write("A-147", "email"),
        ],
        {"over": "11:30"},
    ),
    "clinic-nurse-away": (
        [
            *cancel("A-125", "A-124", "A-117", "A-116"),
            *cancel("A-134", reason="no_longer_needed"),
            book("P-002", "vaccination", "C-3", "2026-03-09", "11:15"),
            write("A-146"),
            book("P-020", "blood_test", "C-3", "2026-03-11", "16:45"),
            book("P-022", "blood_test", "C-3", "2026-03-11", "17:00"),
            book("P-013", "blood_test", "C-3", "2026-03-11", "13:45"),
            book("P-011", "blood_test", "C-3", "2026-03-12", "10:00"),
            write("A-147", "email"),
            write("A-148"),
            write("A-149"),
            write("A-150"),
        ],
        {"booked": 75},
    ),
    "tools-gita-returns": (
        [
            call("reserve_item", member_id="M-15", item_id="T-108", start="2026-04-21", days=4),
            call("cancel_reservation", reservation_id="V-2"),
            call("return_item", item_id="T-107", damaged_part="dust_bag_holder"),
            call("take_payment", member_id="M-07", cents=200),
            call("take_payment", member_id="M-07", cents=300),
        ],
        {"member": "Olga Sokolova"},
    ),
    "tools-before-closing": (
        [
            call("extend_loan", loan_id="L-1", days=2),
            call("record_inspection", item_id="T-111", passed=False),
            call("record_inspection", item_id="T-104", passed=True),
            call("finish_repair", item_id="T-108", new_part="belt"),
            call("lend_item", member_id="M-18", item_id="T-102", days=7),
            call("lend_item", member_id="M-18", item_id="T-108", days=7),
            call("take_payment", member_id="M-12", cents=150),
            call("reserve_item", member_id="M-12", item_id="T-116", start="2026-06-12", days=3),
            call("cancel_reservation", reservation_id="V-4"),
            call("return_item", item_id="T-115", damaged_part="foot"),
            call("return_item", item_id="T-120", damaged_part="click"),
            call("return_item", item_id="T-124"),
            call("take_payment", member_id="M-20", cents=1500),
        ],
        {"taken": 16.5},
    ),
}


@pytest.mark.parametrize("key", OTHER_WAYS)
@pytest.mark.slow
def test_another_right_way_earns_everything_and_a_wrong_answer_does_not(sandbox, key):
    calls, answer = OTHER_WAYS[key]
    folder = HERE / ("clinic_desk" if key.startswith("clinic") else "tool_library")
    task = next(task for task in read_tasks(folder) if task.key == key)
    program = build_program(read_environment(folder))
    results, reward = execute_calls(sandbox, program, task, calls, serialize_answer(answer))
    assert all(result.result["success"] for result in results)
    assert reward.reward == 1
    for other in ("", serialize_answer({}), str(*answer.values())):
        assert execute_calls(sandbox, program, task, calls, other)[1].reward < 1
