"""Frames: what a reference changes may change, and nothing else; additive mutants show who does not notice."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from synthesis.contracts import Allowance, Frame, Program, Reference, ReferenceCall, Tool
from synthesis.errors import InputError
from synthesis.runtime import Sandbox, encode_state
from synthesis.verifiers import reward_of, verifier_hash
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import TaskAudit
from synthesis.verifiers.call_sequences import run_calls
from synthesis.verifiers.checks import score_checks
from synthesis.verifiers.frame import (
    end_key,
    frame_key,
    frame_of,
    outside_changes,
    place_of,
    read_place,
    spelled_place,
    widen,
    widenings,
)
from synthesis.verifiers.frame_words import frame_lines, outside_sentence
from synthesis.verifiers.reference_frame import reference_frame

from .shop import ANSWER, TEA, reference, subject

START: dict[str, Any] = {
    "today": "2026-01-02",
    "orders": {
        f"O-{n}": {"status": "open", "table": n, "tags": ["a"], "lines": [{"dish": "D", "n": 1}]} for n in (1, 2)
    },
    "bookings": [{"id": 7, "room": "R1"}, {"id": 8, "room": "R2"}],
    "log": [{"at": 1}],
    "budgets": {"2026": {"rowing": {"cents": 5}, "chess": {"cents": 6}}},
    "stock": {"tea": 3, "soap": 1},
    "seen": {"$set": ["a"]},
    "by_number": {"$dict": [[1, {"name": "one"}], [2, {"name": "two"}]]},
    "next_order": 3,
    "total": 10,
}


def after(*edits: str) -> dict[str, Any]:
    """The start with these statements carried out on its parts."""
    state = copy.deepcopy(START)
    for edit in edits:
        exec(edit, {}, state)
    return state


@pytest.mark.parametrize(
    ("edit", "paths"),
    [
        ("orders['O-1']['status'] = 'paid'", ['/orders/O-1/status = "paid"']),
        ("orders['O-1']['lines'][0]['n'] = 2", ['/orders/O-1/lines = [{"dish": "D", "n": 2}]']),
        ("orders['O-1']['tags'].append('b')", ["/orders/O-1/tags/+ most 1"]),
        ("orders['O-9'] = {'status': 'open'}", ["/orders/+ most 1"]),
        ("del orders['O-2']", ["/orders/- most 1"]),
        ("bookings[1]['room'] = 'R3'", ['/bookings/8/room = "R3"']),
        ("bookings.insert(0, {'id': 9, 'room': 'R9'})", ["/bookings/+ most 1"]),
        ("bookings.reverse()", ["/bookings/#"]),
        ("log += [{'at': 2}, {'at': 2}]", ["/log/+ most 2"]),
        ("log[0] = {'at': 5}", ["/log/+ most 1", "/log/- most 1"]),
        ("budgets['2026']['chess']['cents'] = 0", ["/budgets/2026/chess/cents = 0"]),
        ("stock['tea'] = 4", ["/stock/tea = 4"]),
        ("stock['mint'] = 1", ["/stock/mint = 1"]),
        ("seen['$set'].append('b')", ["/seen/+ most 1"]),
        ("by_number['$dict'][1][1]['name'] = 'deux'", ['/by_number/2/name = "deux"']),
    ],
)
def test_a_frame_is_what_the_reference_changes(edit: str, paths: list[str]) -> None:
    end = after(edit)
    frame = frame_of(START, end)
    assert [spelled_place(item) for item in frame.allowances] == paths
    assert outside_changes(frame, START, end) == ()
    assert outside_changes(frame, START, START) == ()
    places = [path.partition(" =")[0] for path in paths]
    assert [place_of(change) for change in outside_changes(Frame(), START, end)] == places
    assert [read_place(path).values for path in paths] == [item.values for item in frame.allowances]
    assert outside_changes(None, START, end) == ()


PAID = after("orders['O-1']['status'] = 'paid'", "log.append({'at': 9})")


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("orders['O-1']['status'] = 'paid'", ""),
        ("orders['O-1']['status'] = 'void'", "status of orders O-1 should be “paid”, is “void”"),
        ("log.append({'at': 9})", ""),
        ("log.append({'at': 3})", "at of a new record in log should be “9”, is “3”"),
        ("log += [{'at': 3}, {'at': 4}]", "2 records added to log"),
        ("orders['O-2']['status'] = 'paid'", "status of orders O-2"),
        ("orders['O-1']['table'] = 5", "table of orders O-1"),
        ("del orders['O-2']", "1 record removed from orders"),
        ("total = 11", "total"),
    ],
)
def test_any_other_change_is_outside(edit: str, told: str) -> None:
    end = copy.deepcopy(START)
    exec(edit, {}, end)
    said = outside_sentence(outside_changes(frame_of(START, PAID), START, end))
    assert said == (f"Changed outside the frame: {told}." if told else "")


def test_a_counter_follows_its_collection_and_nothing_else_does() -> None:
    end = after("orders['O-3'] = {}") | {"next_order": 4}
    grows = Frame(allowances=(Allowance(path="/orders/+", most=1),))
    assert outside_changes(grows, START, end) == ()
    assert [change.path for change in outside_changes(grows, START, end | {"next_order": 2})] == ["/next_order"]
    assert [change.path for change in outside_changes(grows, START, end | {"total": 11})] == ["/total"]
    assert [change.path for change in outside_changes(Frame(), START, START | {"next_order": 4})] == ["/next_order"]


def test_people_and_other_runs_widen_a_frame_with_a_reason() -> None:
    frame = frame_of(START, PAID)
    end = after("orders['O-2']['table'] = 4", "log += [{'at': 1}, {'at': 2}]")
    more = widenings(frame, START, end, source="run", reason="It earned 1 as well.", by="ann")
    wider = widen(frame, more)
    assert outside_changes(wider, START, end) == ()
    assert {(item.path, item.most) for item in wider.allowances} == {
        ("/orders/O-1/status", None),
        ("/log/+", 1),
        ("/log/+", 2),
        ("/orders/O-2/table", None),
    }
    other = outside_sentence(outside_changes(wider, START, after("orders['O-2']['table'] = 5")))
    assert other == "Changed outside the frame: table of orders O-2 should be “4”, is “5”."
    assert widen(wider, more) == wider
    any_order = widen(frame, [read_place("/orders/*/table", source="author", reason="Every table is right.")])
    assert outside_changes(any_order, START, after("orders['O-2']['table'] = 4")) == ()
    assert frame_lines(any_order)[-1] == "table of any of orders"
    with pytest.raises(InputError, match="say in `reason`"):
        read_place("/log/+ most 2", source="person")
    with pytest.raises(InputError, match="whole number"):
        read_place("/log/+ most many")
    with pytest.raises(InputError, match="counted"):
        read_place("/log most 2")


LEGACY = Frame(allowances=(Allowance(path="/orders/O-1/status"), Allowance(path="/log/+", most=1)))
"""As homes of the last version keep it: places without values."""


def test_a_frame_without_values_says_only_where() -> None:
    for edit in ("orders['O-1']['status'] = 'void'", "log.append({'at': 3})"):
        assert outside_changes(LEGACY, START, after(edit)) == ()
    assert [change.path for change in outside_changes(LEGACY, START, after("total = 11"))] == ["/total"]
    assert frame_key(LEGACY) == [["/log/+", 1], ["/orders/O-1/status", None]]


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
        ("members.pop('M-2')", ""),
        ("members.pop('M-1')", "1 record removed from members"),
    ],
)
def test_added_records_are_matched_by_what_they_hold(edit: str, told: str) -> None:
    start = {
        "orders": {"O-1": {"table": 4}},
        "current": {"order": "", "open": True},
        "ledger": [],
        "members": {"M-1": {"name": "Ann"}, "M-2": {"name": "Bo"}},
    }

    def changed(statements: str) -> dict[str, Any]:
        end = copy.deepcopy(start)
        exec(statements, {"NEW": NEW}, end)
        return end

    right = changed(
        "orders['O-3'] = dict(NEW); current['order'] = 'O-3'; members.pop('M-2'); "
        "ledger.append({'member_id': 'M-1', 'cents': 5})"
    )
    said = outside_sentence(outside_changes(frame_of(start, right), start, changed(edit)))
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
    frame = widen(frame_of(START, PAID), declared)
    assert (outside_changes(frame, START, after(edit)) == ()) is inside
    again = [read_place(spelled_place(item), source="author", reason="The task leaves it open.") for item in declared]
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


def test_keys_that_look_like_patterns_are_keys() -> None:
    start = {"orders": {"*": {"n": 1}, "+": {"n": 1}, "a/b~": {"n": 1}}}
    end = copy.deepcopy(start)
    end["orders"]["*"]["n"] = 2
    frame = frame_of(start, end)
    assert [item.path for item in frame.allowances] == ["/orders/~2/n"]
    other = copy.deepcopy(start)
    other["orders"]["a/b~"]["n"] = 2
    assert [change.path for change in outside_changes(frame, start, other)] == ["/orders/a~1b~0/n"]
    assert outside_sentence(outside_changes(frame, start, other)) == "Changed outside the frame: n of orders a/b~."


def test_a_change_outside_makes_the_reward_zero_under_both_rules(sandbox: Sandbox) -> None:
    task = subject(TEA, ANSWER, frame=None)
    assert task.reference is not None
    frame = reference_frame(sandbox, task)
    assert [(item.path, item.values) for item in frame.allowances] == [("/orders/tea", (3,))]
    start = encode_state({"orders": {"soap": 1}, "log": []})
    right = start | {"orders": {"soap": 1, "tea": 3}}
    wrong = start | {"orders": {"soap": 2, "tea": 3}}
    for rule in ("goals", "proportion"):
        options: dict[str, Any] = {"answer": "3", "rule": rule, "frame": frame}
        assert score_checks(sandbox, task.checks, start, right, **options).reward == 1
        judged = score_checks(sandbox, task.checks, start, wrong, **options)
        assert (judged.reward, judged.passed, judged.outside[0].path) == (0, 2, "/orders/soap")
        assert reward_of(judged.verdicts, "proportion").reward == 1
    hashes = {verifier_hash(task.checks, "goals", given) for given in (None, Frame(), frame)}
    assert len(hashes) == 3


def unguarded(found: TaskAudit) -> list[str]:
    return [fault.message for fault in found.faults if fault.kind == "unguarded_change"]


def test_an_unasked_change_that_earns_everything_is_red_without_a_frame(sandbox: Sandbox) -> None:
    bare = subject(TEA, ANSWER, frame=None)
    found = audit_task(sandbox, bare)
    assert found.state == "red"
    assert any("order called after the reference" in told and "/orders/soap" in told for told in unguarded(found))
    assert any("order called before the reference" in told for told in unguarded(found))
    assert found.unseen is not None
    assert (found.unseen.records, found.unseen.tried, found.unseen.at) == (2, 2, "reference")
    assert found.unseen.unseen == 1  # the log: nobody looks at it
    framed = audit_task(sandbox, bare.model_copy(update={"frame": reference_frame(sandbox, bare)}))
    assert (unguarded(framed), framed.unseen) == ([], None)
    assert framed.below == len(framed.counted)
    added = [probe for probe in framed.mutants if probe.mutant.kind == "call_added"]
    assert {"order", "stamp", "draw"} == {probe.mutant.tool for probe in added}
    assert all(probe.probe.outside for probe in added if "tea" not in probe.mutant.after.values())


def test_what_somebody_declared_free_is_no_unasked_change(sandbox: Sandbox) -> None:
    bare = subject(TEA, ANSWER, frame=None)
    free = Allowance(path="/orders", source="author", reason="Any other order is as good.")
    logged = Allowance(path="/log/+", source="author", reason="Notes are free.")
    frame = widen(reference_frame(sandbox, bare), [free, logged])
    found = audit_task(sandbox, bare.model_copy(update={"frame": frame}))
    added = [probe for probe in found.mutants if probe.mutant.kind == "call_added"]
    assert added
    assert all(probe.equivalent for probe in added if "tea" not in str(probe.mutant.after))
    assert unguarded(found) == []


def test_what_looking_leaves_behind_is_in_every_frame(sandbox: Sandbox) -> None:
    task = subject(TEA, frame=None)
    plain = "        return dict(self.orders)"
    source = task.program.source.replace(plain, f"        self.log.append('looked')\n{plain}")
    looked = task.model_copy(
        update={
            "program": task.program.model_copy(update={"source": source}),
            "reference": reference(ReferenceCall(tool="order", arguments={"item": "tea", "count": 3})),
        }
    )
    assert [spelled_place(item) for item in reference_frame(sandbox, looked).allowances] == [
        "/orders/tea = 3",
        "/log/+",
    ]
    assert len(reference_frame(sandbox, task).allowances) == 1
    with pytest.raises(InputError, match="Without a reference"):
        reference_frame(sandbox, task.model_copy(update={"reference": None}))


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
    frame = reference_frame(sandbox, task)
    free = {item.path for item in frame.allowances if not item.is_pinned}
    assert free == {"/bookings/+/at", "/bookings/+/code", "/changed", "/next_booking"}
    start = run_calls(sandbox, task, ()).state
    assert start is not None
    later = task.model_copy(update={"seed": 7, "now": "2026-01-01T00:00:00+00:00"})
    for calls, told in (((*DETOUR, BOOK), ""), ((BOOK,), ""), ((call("book", room="R2"),), "room of a new record")):
        end = run_calls(sandbox, later, calls).state
        assert end is not None
        said = outside_sentence(outside_changes(frame, start, end))
        assert told in said if told else said == ""
        own = run_calls(sandbox, task, (BOOK,)).state
        assert own is not None
        assert (end_key(frame, start, end) == end_key(frame, start, own)) is (told == "")


def test_a_detour_that_adds_nothing_in_the_end_is_inside(sandbox: Sandbox) -> None:
    """The reference adds no record: what counts and what tells the time is found by adding one."""
    task = desk(call("lock", room="R1"))
    frame = reference_frame(sandbox, task)
    start, end = (run_calls(sandbox, task, calls).state for calls in ((), (*DETOUR, call("lock", room="R1"))))
    assert start is not None
    assert end is not None
    assert outside_changes(frame, start, end) == ()
