"""Values that frames pin: what may stand where a right way changes something, found by executing the reference."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from synthesis.contracts import Allowance, Frame, Program, Reference, ReferenceCall, Tool
from synthesis.errors import InputError
from synthesis.runtime import Sandbox, encode_state
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import NOTES
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.frame import (
    build_end_key,
    build_frame,
    build_frame_key,
    find_outside_changes,
    format_place,
    read_place,
    widen_frame,
)
from synthesis.verifiers.frame_words import format_outside_changes
from synthesis.verifiers.reference_frame import build_reference_frame
from tests.verifier_fields import list_checks

from .shop import ANSWER, check, subject
from .test_frames import PAID, START, after

LEGACY = Frame(allowances=(Allowance(path="/orders/O-1/status"), Allowance(path="/log/+", most=1)))
"""As homes of the last version keep it: places without values."""


def test_a_frame_without_values_says_only_where() -> None:
    for edit in ("orders['O-1']['status'] = 'void'", "log.append({'at': 3})"):
        assert find_outside_changes(LEGACY, START, after(edit)) == ()
    assert [change.path for change in find_outside_changes(LEGACY, START, after("total = 11"))] == ["/total"]
    assert build_frame_key(LEGACY) == [["/log/+", 1], ["/orders/O-1/status", None]]


NEW = {"table": 1, "lines": [{"dish": "A", "n": 1}, {"dish": "B", "n": 2}], "at": "09:00"}


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("orders['O-7'] = dict(NEW); current['order'] = 'O-7'", ""),  # another id, wherever it is named
        ("orders['O-7'] = {**NEW, 'lines': NEW['lines'][::-1]}; current['order'] = 'O-7'", ""),
        ("orders['O-7'] = dict(NEW); current['order'] = 'O-1'", "order of current should be “O-3”, is “O-1”"),
        ("orders['O-7'] = {**NEW, 'table': 2}", "table of a new record in orders should be “1”, is “2”"),
        ("orders['O-7'] = dict(NEW); orders['O-8'] = dict(NEW)", "2 records added to orders"),
        ("ledger.append({'member_id': 'M-1', 'cents': 5})", ""),
        (
            "ledger.append({'member_id': 'M-2', 'cents': 5})",
            "member_id of a new record in ledger should be “M-1”, is “M-2”",
        ),
        ("orders['O-7'] = dict(NEW); sent.append({'order_id': 'O-7', 'by': 'post'})", ""),
        (
            "orders['O-7'] = dict(NEW); sent.append({'order_id': 'O-1', 'by': 'post'})",
            "order_id of a new record in sent should be “O-3”, is “O-1”",
        ),
        ("members.pop('M-2')", ""),
        ("members.pop('M-1')", "1 record removed from members"),
    ],
)
def test_added_records_are_matched_by_what_they_hold(edit: str, told: str) -> None:
    start = {
        "orders": {"O-1": {"table": 4}},
        "current": {"order": "", "open": True},
        "ledger": [],
        "sent": [],
        "members": {"M-1": {"name": "Ann"}, "M-2": {"name": "Bo"}},
    }

    def changed(statements: str) -> dict[str, Any]:
        end = copy.deepcopy(start)
        exec(statements, {"NEW": NEW}, end)
        return end

    right = changed(
        "orders['O-3'] = dict(NEW); current['order'] = 'O-3'; members.pop('M-2'); "
        "ledger.append({'member_id': 'M-1', 'cents': 5}); sent.append({'order_id': 'O-3', 'by': 'post'})"
    )
    said = format_outside_changes(find_outside_changes(build_frame(start, right), start, changed(edit)))
    assert said == (f"Changed outside the frame: {told}." if told else "")


@pytest.mark.parametrize(
    ("places", "edit", "inside"),
    [
        (['/orders/O-1/status = "paid" or "void"'], "orders['O-1']['status'] = 'void'", True),
        (['/orders/O-1/status = "paid" or "void"'], "orders['O-1']['status'] = 'lost'", False),
        (["/total from 10 to 20"], "total = 20", True),
        (["/total from 10 to 20"], "total = 21", False),
        (["/log/+/at"], "log.append({'at': 3})", True),
        (["/log/+/at from 5 to 9"], "log.append({'at': 7})", True),
        (["/log/+/at from 5 to 9"], "log.append({'at': 3})", False),
        (["/log/+ most 2", "/log/+/at"], "log += [{'at': 3}, {'at': 4}]", True),
        (["/log/+ most 2"], "log += [{'at': 9}, {'at': 9}]", True),  # like what the reference adds
        (["/log/+ most 2"], "log += [{'at': 9}, {'at': 4}]", False),
        (["/orders/*/lines/*/n"], "orders['O-2']['lines'][0]['n'] = 9", True),
        (["/orders/*/lines/*/n"], "orders['O-2']['lines'][0]['dish'] = 'E'", False),
    ],
)
def test_choices_and_free_parts_are_declared_by_place(places: list[str], edit: str, inside: bool) -> None:
    declared = [read_place(place, source="author", reason="The task leaves it open.") for place in places]
    frame = widen_frame(build_frame(START, PAID), declared)
    assert (find_outside_changes(frame, START, after(edit)) == ()) is inside
    again = [read_place(format_place(item), source="author", reason="The task leaves it open.") for item in declared]
    assert again == declared


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("/total = paid", "values as JSON"),
        ('/total = "a" "b"', "between two values stands"),
        ("/total from 1", "two numbers"),
        ("/log/+ = 3", "not for whole records"),
        ("/total or 3", "behind the path"),
    ],
)
def test_a_place_that_is_written_otherwise_is_refused(place: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_place(place, source="author", reason="Why not.")


DESK = """
import datetime
import random


class Desk:
    def __init__(self, state):
        self.bookings = dict(state.get("bookings", {}))
        self.rooms = dict(state.get("rooms", {}))
        self.next_booking = state.get("next_booking", 4)
        self.changed = state.get("changed", "")

    def book(self, room: str) -> dict:
        key = f"B-{self.next_booking}"
        self.next_booking += 1
        now = datetime.datetime.now().isoformat()
        self.bookings[key] = {"room": room, "at": now, "code": random.randrange(10**9)}
        self.changed = now
        return {"id": key}

    def release(self, booking: str) -> dict:
        del self.bookings[booking]
        return {}

    def lock(self, room: str) -> dict:
        self.rooms[room] = {"status": "locked"}
        return {}
"""


def desk(*calls: ReferenceCall) -> Any:
    def tool(name: str, argument: str) -> Tool:
        rule = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
        return Tool(name=name, kind="change", parameters=rule)

    tools = (tool("book", "room"), tool("release", "booking"), tool("lock", "room"))
    return subject(
        "def check(initial_state, final_state, answer):\n    return True\n",
        program=Program(source=DESK, class_name="Desk", tools=tools),
        initial=encode_state({"bookings": {}, "rooms": {"R1": {"status": "open"}, "R2": {"status": "open"}}}),
        reference=Reference(calls=calls),
    )


def call(tool: str, **arguments: str) -> ReferenceCall:
    return ReferenceCall(tool=tool, arguments=arguments)


BOOK, DETOUR = call("book", room="R1"), (call("book", room="R2"), call("release", booking="B-4"))


def test_what_hangs_on_clock_chance_and_ids_is_free_and_nothing_else(sandbox: Sandbox) -> None:
    task = desk(BOOK)
    frame = build_reference_frame(sandbox, task)
    free = {item.path for item in frame.allowances if not item.is_pinned}
    assert free == {"/bookings/+/at", "/bookings/+/code", "/changed", "/next_booking"}
    start = run_calls(sandbox, task, ()).state
    assert start is not None
    later = task.model_copy(update={"seed": 7, "now": "2026-01-01T00:00:00+00:00"})
    for calls, told in (((*DETOUR, BOOK), ""), ((BOOK,), ""), ((call("book", room="R2"),), "room of a new record")):
        end = run_calls(sandbox, later, calls).state
        assert end is not None
        said = format_outside_changes(find_outside_changes(frame, start, end))
        assert told in said if told else said == ""
        own = run_calls(sandbox, task, (BOOK,)).state
        assert own is not None
        assert (build_end_key(frame, start, end) == build_end_key(frame, start, own)) is (told == "")


def test_a_detour_that_adds_nothing_in_the_end_is_inside(sandbox: Sandbox) -> None:
    """The reference adds no record: what counts and what tells the time is found by adding one."""
    task = desk(call("lock", room="R1"))
    frame = build_reference_frame(sandbox, task)
    start, end = (run_calls(sandbox, task, calls).state for calls in ((), (*DETOUR, call("lock", room="R1"))))
    assert start is not None
    assert end is not None
    assert find_outside_changes(frame, start, end) == ()


def test_a_choice_that_is_declared_excuses_an_alteration(sandbox: Sandbox) -> None:
    between = check("2 <= final_state['orders'].get('tea', 0) <= 4")
    bare = subject(between, ANSWER, frame=None)
    few = Allowance(path="/orders/tea", minimum=2, maximum=4, source="author", reason="Two to four will do.")
    found = audit_task(sandbox, bare.with_frame(widen_frame(build_reference_frame(sandbox, bare), [few])))
    assert [fault.kind for fault in found.faults if fault.kind not in NOTES] == []
    altered = {probe.mutant.after: probe.equivalent for probe in found.mutants if probe.mutant.place == "count"}
    assert altered == {4: True, 2: True}
    pinned = audit_task(sandbox, bare.with_frame(build_reference_frame(sandbox, bare)))
    assert all(probe.probe.outside for probe in pinned.mutants if probe.mutant.place == "count")


LOCKED = check("final_state['rooms']['R1']['status'] == 'locked'")


def judged_by(task: Subject, *sources: str) -> Subject:
    """The task, judged by these checks."""
    verifier = task.verifier.model_copy(update={"checks": list_checks(sources)})
    return task.model_copy(update={"verifier": verifier})


def test_an_audit_makes_a_detour_which_must_earn_everything(sandbox: Sandbox) -> None:
    task = judged_by(desk(call("lock", room="R1")).model_copy(update={"answer_form": ()}), LOCKED)
    framed = task.with_frame(build_reference_frame(sandbox, task))
    found = audit_task(sandbox, framed)
    (detour, *_) = [probe for probe in found.mutants if probe.mutant.kind == "detour_made"]
    assert [one.tool for one in detour.mutant.reference.calls] == ["lock", "book", "release"]
    assert (detour.probe.reward, found.state) == (1, "green")
    counted = check("final_state['next_booking'] == initial_state['next_booking']")
    narrow = audit_task(sandbox, judged_by(framed, LOCKED, counted))
    (told,) = [fault.message for fault in narrow.faults if fault.kind == "detour_fails"][:1]
    assert "Earns 0 where the reference earns 1: calls behind the reference: lock(room='R1'), then book(" in told
    assert narrow.state == "red"


NOTEBOOK = """
class Notes:
    def __init__(self, state):
        self.notes = dict(state["notes"])

    def write(self, key: str, text: str) -> dict:
        self.notes[key] = {"text": text}
        return {}
"""


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        ("'the celadon glaze' in {}", "red"),
        ("{}.lower() == 'bring the celadon glaze'", "green"),
        ("{} != 'old'", "green"),
    ],
)
def test_a_wording_that_a_check_reads_is_not_excused_if_it_unsays_itself(
    sandbox: Sandbox, condition: str, state: str
) -> None:
    texts = {"key": {"type": "string"}, "text": {"type": "string"}}
    tool = Tool(name="write", kind="change", parameters={"type": "object", "properties": texts})
    task = subject(
        check(condition.format("final_state['notes']['n1']['text']")),
        program=Program(source=NOTEBOOK, class_name="Notes", tools=(tool,)),
        initial=encode_state({"notes": {"n1": {"text": "old"}, "n2": {"text": "old"}}}),
        answer_form=(),
        reference=Reference(calls=(call("write", key="n1", text="Bring the celadon glaze"),)),
    )
    worded = Allowance(path="/notes/n1/text", source="author", reason="It may be worded otherwise.")
    frame = widen_frame(Frame(), [worded])
    found = audit_task(sandbox, task.with_frame(frame))
    assert found.state == state, [fault.message for fault in found.faults]
