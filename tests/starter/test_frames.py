"""Bundled tasks and their frames: nothing beside the work asked for earns anything, and every right way earns all.

The unasked calls below earned 1 with the checks alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from synthesis.contracts import Reward
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.starter import build_program, list_folders, read_environment, read_frames, read_json_file, read_tasks
from synthesis.starter.record import compute_frames, execute_calls

Call = dict[str, Any]
Calls = list[Call]
TASKS = {task.key: (folder, task) for folder in list_folders() for task in read_tasks(folder)}
UNASKED: list[tuple[str, str, dict[str, Any]]] = [
    ("cafe-bigger-table", "open_order", {"table_id": "T-2", "guests": 2, "allergies": []}),
    ("cafe-bigger-table", "serve_order", {"order_id": "O-302"}),
    ("cafe-bigger-table", "place_purchase", {"supplier_id": "S-1", "packs": {"I-12": 1, "I-03": 4}}),
    ("cafe-bigger-table", "receive_delivery", {"purchase_id": "P-44"}),
    ("cafe-careful-table", "place_purchase", {"supplier_id": "S-1", "packs": {"I-12": 1, "I-03": 4}}),
    ("cafe-careful-table", "receive_delivery", {"purchase_id": "P-44"}),
    (
        "cafe-table-six-pays",
        "reserve_table",
        {
            "name": "Eggs",
            "guests": 11,
            "date": "2026-10-07",
            "start": "20:00",
            "table_id": "T-11",
            "allergies": ["nuts"],
        },
    ),
    ("cafe-table-six-pays", "move_reservation", {"reservation_id": "R-96", "start": "18:30"}),
    ("cafe-table-six-pays", "cancel_reservation", {"reservation_id": "R-91"}),
    ("cafe-table-six-pays", "place_purchase", {"supplier_id": "S-5", "packs": {"I-15": 2, "I-16": 1}}),
    ("cafe-table-six-pays", "receive_delivery", {"purchase_id": "P-55"}),
    ("clinic-wanda-cancels", "join_waiting", {"patient_id": "P-001", "service": "check_up"}),
    ("clinic-wanda-cancels", "update_contact", {"patient_id": "P-001", "phone": "555-2064"}),
    ("clinic-wanda-cancels", "send_message", {"appointment_id": "A-101"}),
    ("clinic-move-check-up", "join_waiting", {"patient_id": "P-002", "service": "follow_up"}),
    ("clinic-move-check-up", "update_contact", {"patient_id": "P-003", "phone": "555-1148"}),
    ("clinic-fill-physio-gaps", "join_waiting", {"patient_id": "P-001", "service": "check_up"}),
    ("clinic-fill-physio-gaps", "update_contact", {"patient_id": "P-002", "phone": "555-1148"}),
    ("clinic-one-trip", "join_waiting", {"patient_id": "P-001", "service": "check_up"}),
    ("clinic-broken-scanner", "join_waiting", {"patient_id": "P-001", "service": "check_up"}),
    ("clinic-broken-scanner", "update_contact", {"patient_id": "P-002", "phone": "555-1148"}),
    ("clinic-nurse-away", "update_contact", {"patient_id": "P-003", "phone": "555-1148"}),
    ("rail-saturday-saver", "register_customer", {"name": "Inês Carvalho", "born": "1983-11-25"}),
    ("rail-family-friday", "register_customer", {"name": "Inês Carvalho", "born": "1983-11-25"}),
    ("rail-late-last-night", "register_customer", {"name": "Lucía Ferrer", "born": "1978-09-12"}),
    ("rail-cancelled-express", "register_customer", {"name": "Lucía Ferrer", "born": "1978-09-12"}),
    ("rail-hiking-club", "register_customer", {"name": "Lucía Ferrer", "born": "1978-09-12"}),
    ("tools-amina-longer", "record_inspection", {"item_id": "T-101", "passed": True}),
    ("tools-amina-longer", "add_induction", {"member_id": "M-02", "induction": "saw"}),
    ("tools-pedro-shelf", "add_induction", {"member_id": "M-01", "induction": "saw"}),
    ("tools-gita-returns", "record_inspection", {"item_id": "T-101", "passed": True}),
    ("tools-gita-returns", "add_induction", {"member_id": "M-01", "induction": "saw"}),
    (
        "tools-marta-settles",
        "reserve_item",
        {"member_id": "M-02", "item_id": "T-104", "start": "2026-06-13", "days": 2},
    ),
    ("tools-marta-settles", "cancel_reservation", {"reservation_id": "V-1"}),
    ("tools-marta-settles", "add_induction", {"member_id": "M-01", "induction": "saw"}),
    ("tools-street-party", "take_payment", {"member_id": "M-13", "cents": 900}),
    ("tools-before-closing", "add_induction", {"member_id": "M-01", "induction": "saw"}),
]
"""(task, tool, arguments): a right solution, and this behind it."""


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return get_default_sandbox()


@pytest.fixture(scope="module")
def programs() -> dict[Any, Any]:
    return {folder: build_program(read_environment(folder)) for folder in list_folders()}


def judged(sandbox: Sandbox, programs: dict[Any, Any], key: str, edit: Callable[[Calls], Calls]) -> Reward:
    folder, task = TASKS[key]
    assert task.reference is not None
    calls = [{"tool": call.tool, "arguments": dict(call.arguments)} for call in task.reference.calls]
    return execute_calls(sandbox, programs[folder], task, edit(calls), task.reference.answer)[1]


@pytest.mark.parametrize(("key", "tool", "arguments"), UNASKED, ids=lambda item: item if isinstance(item, str) else "")
@pytest.mark.slow
def test_what_nobody_asked_for_earns_nothing(sandbox, programs, key, tool, arguments):
    reward = judged(sandbox, programs, key, lambda calls: [*calls, {"tool": tool, "arguments": arguments}])
    assert all(verdict.passed for verdict in reward.verdicts), "a check notices it by now: choose another"
    assert reward.reward == 0
    assert reward.outside


def parts(tool: str, name: str, place: int = 0) -> Callable[[Calls], Calls]:
    """The call of a tool in two: half of a number, one and the rest of a list."""

    def edit(calls: Calls) -> Calls:
        index = [at for at, call in enumerate(calls) if call["tool"] == tool][place]
        given = calls[index]["arguments"]
        value = given[name]
        first, rest = (value[:1], value[1:]) if isinstance(value, list) else (value // 2, value - value // 2)
        both = [{"tool": tool, "arguments": {**given, name: part}} for part in (first, rest)]
        return [*calls[:index], *both, *calls[index + 1 :]]

    return edit


def anew(tool: str, made: Callable[[dict[str, Any], Call], Calls], collection: str, key: str) -> Callable[..., Calls]:
    """Every call of a tool replaced by what is `made` of its record and itself."""

    def edit(calls: Calls, state: dict[str, Any]) -> Calls:
        done: Calls = []
        first, before, now = state[f"next_{key[:-3]}"], 0, 0
        names: dict[Any, str] = {}
        for call in calls:
            number = call["arguments"].get(key)
            if call["tool"] == tool and len(call["arguments"]) > 1 and "guests" not in call["arguments"]:
                names[number] = f"{number[:2]}{first + now}"
                done += made(state[collection][number], call)
                now += 1
                continue
            if call["tool"].startswith(("book_", "reserve_")):
                names[f"A-{first + before}"] = f"A-{first + now}"
                before, now = before + 1, now + 1
            renamed = {key: names[number]} if number in names else {}
            done.append({**call, "arguments": {**call["arguments"], **renamed}})
        return done

    return edit


def booked_anew(record: dict[str, Any], call: Call) -> Calls:
    given = call["arguments"]
    names = {name: given.get(name, record[name]) for name in ("clinician_id", "date", "start")}
    cancelled = {"appointment_id": given["appointment_id"], "reason": "patient_request"}
    booked = {"patient_id": record["patient_id"], "service": record["service"], **names}
    return [
        {"tool": "cancel_appointment", "arguments": cancelled},
        {"tool": "book_appointment", "arguments": booked},
    ]


def reserved_anew(record: dict[str, Any], call: Call) -> Calls:
    kept = {name: value for name, value in (record | call["arguments"]).items() if name != "status"}
    number = {"reservation_id": kept.pop("reservation_id")}
    return [{"tool": "cancel_reservation", "arguments": number}, {"tool": "reserve_table", "arguments": kept}]


APPOINTMENT = anew("move_appointment", booked_anew, "appointments", "appointment_id")
RESERVATION = anew("move_reservation", reserved_anew, "reservations", "reservation_id")
RIGHT: list[tuple[str, Any]] = [
    ("clinic-move-check-up", APPOINTMENT),
    ("clinic-one-trip", APPOINTMENT),
    ("clinic-nurse-away", APPOINTMENT),
    ("cafe-rain-tonight", RESERVATION),
    ("ledger-locker", parts("assign_payment", "cents")),
    ("ledger-returned-debit", parts("assign_payment", "cents")),
    ("ledger-rowing-round", parts("assign_payment", "cents", 2)),
    ("ledger-new-family", parts("assign_payment", "cents", 4)),
    ("ledger-close-2025", parts("assign_payment", "cents", 1)),
    ("parcels-thursday-evening", parts("collect_charge", "cents")),
    ("parcels-tailor-customs", parts("collect_charge", "cents", 1)),
    ("parcels-harbour-run", parts("collect_charge", "cents")),
    ("parcels-music-school", parts("collect_charge", "cents")),
    ("rail-family-friday", parts("reserve_bicycles", "places")),
    ("rail-choir-outing", parts("reserve_bicycles", "places")),
    ("rail-hiking-club", parts("remove_travellers", "traveller_ids", 3)),
    ("tools-pedro-shelf", parts("take_payment", "cents")),
    ("tools-gita-returns", parts("take_payment", "cents")),
    ("tools-marta-settles", parts("take_payment", "cents")),
    ("tools-before-closing", parts("take_payment", "cents", 1)),
]


@pytest.mark.parametrize(("key", "way"), RIGHT, ids=lambda item: item if isinstance(item, str) else "")
@pytest.mark.slow
def test_another_right_way_is_never_refused(sandbox, programs, key, way):
    state = TASKS[key][1].initial_state
    edit = (lambda calls: way(calls, state)) if way in (APPOINTMENT, RESERVATION) else way
    reward = judged(sandbox, programs, key, edit)
    assert (reward.reward, reward.outside) == (1, ())


@pytest.mark.parametrize("key", [read_tasks(folder)[-1].key for folder in list_folders()])
def test_calls_in_another_order_stay_inside_the_frame(sandbox, programs, key):
    """Wherever the checks say that the work was done all the same."""
    reward = judged(sandbox, programs, key, lambda calls: calls[::-1])
    assert not (reward.outside and all(verdict.passed for verdict in reward.verdicts)), reward.outside


@pytest.mark.parametrize("folder", list_folders(), ids=lambda folder: folder.name)
def test_frames_are_what_the_references_change(sandbox, folder):
    assert read_json_file(folder, "frames.json") == compute_frames(sandbox, folder)
    assert set(read_frames(folder)) == {task.key for task in read_tasks(folder) if task.verifier.kind != "golden"}


def test_every_widening_says_why():
    framed = [task for _folder, task in TASKS.values() if task.verifier.kind != "golden"]
    assert len(framed) == len(TASKS) - 1
    for task in framed:
        assert task.verifier.frame is not None
        assert all(item.reason for item in task.verifier.frame.allowances if item.source != "reference")
