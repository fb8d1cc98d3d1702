"""Frames: what a reference changes may change, and nothing else; additive mutants show who does not notice."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from synthesis.contracts import Allowance, Frame, ReferenceCall
from synthesis.errors import InputError
from synthesis.runtime import Sandbox, encode_state
from synthesis.verifiers import compute_reward, hash_checks
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import TaskAudit
from synthesis.verifiers.frame import (
    build_frame,
    find_outside_changes,
    find_widenings,
    format_change_place,
    format_place,
    read_place,
    widen_frame,
)
from synthesis.verifiers.frame_words import format_frame_lines, format_outside_changes
from synthesis.verifiers.reference_frame import build_reference_frame
from tests.verifier_fields import score_checks

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
    frame = build_frame(START, end)
    assert [format_place(item) for item in frame.allowances] == paths
    assert find_outside_changes(frame, START, end) == ()
    assert find_outside_changes(frame, START, START) == ()
    places = [path.partition(" =")[0] for path in paths]
    assert [format_change_place(change) for change in find_outside_changes(Frame(), START, end)] == places
    assert [read_place(path).values for path in paths] == [item.values for item in frame.allowances]
    assert find_outside_changes(None, START, end) == ()


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
    said = format_outside_changes(find_outside_changes(build_frame(START, PAID), START, end))
    assert said == (f"Changed outside the frame: {told}." if told else "")


def test_a_counter_follows_its_collection_and_nothing_else_does() -> None:
    end = after("orders['O-3'] = {}") | {"next_order": 4}
    grows = Frame(allowances=(Allowance(path="/orders/+", most=1),))
    assert find_outside_changes(grows, START, end) == ()
    assert [change.path for change in find_outside_changes(grows, START, end | {"next_order": 2})] == ["/next_order"]
    assert [change.path for change in find_outside_changes(grows, START, end | {"total": 11})] == ["/total"]
    assert [change.path for change in find_outside_changes(Frame(), START, START | {"next_order": 4})] == [
        "/next_order"
    ]


def test_people_and_other_runs_widen_a_frame_with_a_reason() -> None:
    frame = build_frame(START, PAID)
    end = after("orders['O-2']['table'] = 4", "log += [{'at': 1}, {'at': 2}]")
    more = find_widenings(frame, START, end, source="run", reason="It earned 1 as well.", by="ann")
    wider = widen_frame(frame, more)
    assert find_outside_changes(wider, START, end) == ()
    assert {(item.path, item.most) for item in wider.allowances} == {
        ("/orders/O-1/status", None),
        ("/log/+", 1),
        ("/log/+", 2),
        ("/orders/O-2/table", None),
    }
    other = format_outside_changes(find_outside_changes(wider, START, after("orders['O-2']['table'] = 5")))
    assert other == "Changed outside the frame: table of orders O-2 should be “4”, is “5”."
    assert widen_frame(wider, more) == wider
    any_order = widen_frame(frame, [read_place("/orders/*/table", source="author", reason="Every table is right.")])
    assert find_outside_changes(any_order, START, after("orders['O-2']['table'] = 4")) == ()
    assert format_frame_lines(any_order)[-1] == "table of any of orders"
    with pytest.raises(InputError, match="say in `reason`"):
        read_place("/log/+ most 2", source="person")
    with pytest.raises(InputError, match="whole number"):
        read_place("/log/+ most many")
    with pytest.raises(InputError, match="counted"):
        read_place("/log most 2")


def test_keys_that_look_like_patterns_are_keys() -> None:
    start = {"orders": {"*": {"n": 1}, "+": {"n": 1}, "a/b~": {"n": 1}}}
    end = copy.deepcopy(start)
    end["orders"]["*"]["n"] = 2
    frame = build_frame(start, end)
    assert [item.path for item in frame.allowances] == ["/orders/~2/n"]
    other = copy.deepcopy(start)
    other["orders"]["a/b~"]["n"] = 2
    assert [change.path for change in find_outside_changes(frame, start, other)] == ["/orders/a~1b~0/n"]
    assert (
        format_outside_changes(find_outside_changes(frame, start, other))
        == "Changed outside the frame: n of orders a/b~."
    )


def test_a_change_outside_makes_the_reward_zero_under_both_rules(sandbox: Sandbox) -> None:
    task = subject(TEA, ANSWER, frame=None)
    assert task.reference is not None
    frame = build_reference_frame(sandbox, task)
    assert [(item.path, item.values) for item in frame.allowances] == [("/orders/tea", (3,))]
    start = encode_state({"orders": {"soap": 1}, "log": []})
    right = start | {"orders": {"soap": 1, "tea": 3}}
    wrong = start | {"orders": {"soap": 2, "tea": 3}}
    for rule in ("goals", "proportion"):
        options: dict[str, Any] = {"answer": '{"count": 3}', "rule": rule, "frame": frame}
        assert score_checks(sandbox, task.checks, start, right, **options).reward == 1
        judged = score_checks(sandbox, task.checks, start, wrong, **options)
        assert (judged.reward, judged.passed, judged.outside[0].path) == (0, 2, "/orders/soap")
        assert compute_reward(judged.verdicts, "proportion").reward == 1
    hashes = {hash_checks(task.checks, "goals", given) for given in (None, Frame(), frame)}
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
    framed = audit_task(sandbox, bare.with_frame(build_reference_frame(sandbox, bare)))
    assert (unguarded(framed), framed.unseen) == ([], None)
    assert framed.below == len(framed.counted)
    added = [probe for probe in framed.mutants if probe.mutant.kind == "call_added"]
    assert {"order", "stamp", "draw"} == {probe.mutant.tool for probe in added}
    assert all(probe.probe.outside for probe in added if "tea" not in probe.mutant.after.values())


def test_what_somebody_declared_free_is_no_unasked_change(sandbox: Sandbox) -> None:
    bare = subject(TEA, ANSWER, frame=None)
    soap = Allowance(path="/orders/soap", minimum=0, maximum=99, source="author", reason="Soap may be ordered, too.")
    logged = Allowance(path="/log/+", source="author", reason="Notes are free.")
    frame = widen_frame(build_reference_frame(sandbox, bare), [soap, logged])
    found = audit_task(sandbox, bare.with_frame(frame))
    added = [probe for probe in found.mutants if probe.mutant.kind == "call_added"]
    assert added
    assert all(probe.equivalent for probe in added if "soap" in str(probe.mutant.after) or probe.mutant.tool != "order")
    assert unguarded(found) == []


@pytest.mark.parametrize("path", ["/orders", "/orders/soap", "/orders/*"])
def test_a_choice_that_is_declared_free_without_its_values_excuses_nothing(sandbox: Sandbox, path: str) -> None:
    bare = subject(TEA, ANSWER, frame=None)
    free = Allowance(path=path, source="author", reason="Any other order is as good.")
    found = audit_task(sandbox, bare.with_frame(widen_frame(build_reference_frame(sandbox, bare), [free])))
    assert any("/orders/soap" in told for told in unguarded(found))


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
    assert [format_place(item) for item in build_reference_frame(sandbox, looked).allowances] == [
        "/orders/tea = 3",
        "/log/+",
    ]
    assert len(build_reference_frame(sandbox, task).allowances) == 1
    with pytest.raises(InputError, match="Without a reference"):
        build_reference_frame(sandbox, task.model_copy(update={"reference": None}))
