"""Mutants: wrong in exactly one place, the same every time, and known for equivalent where they are not wrong."""

from __future__ import annotations

from synthesis.contracts import Program, ReferenceCall, Tool
from synthesis.runtime import Sandbox, encode_state
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.check_reads import reads_answer
from synthesis.verifiers.mutants import CONTRARY, OTHER_TEXT, describe_mutant, list_alterations, remove_call_groups
from synthesis.verifiers.probes.call_mutants import make_call_mutants

from .shop import ANSWER, INITIAL, OTHERS, check, program, reference, subject


def test_each_mutant_differs_in_one_place_and_the_list_is_stable(sandbox: Sandbox) -> None:
    task = subject()
    found = make_call_mutants(sandbox, task, (1,)).mutants
    assert found == make_call_mutants(sandbox, task, (1,)).mutants
    assert [one.kind for one in found].count("call_removed") == 1
    assert task.reference is not None
    for one in found:
        same = len(one.reference.calls) == len(task.reference.calls)
        assert same is (one.kind == "argument_altered"), describe_mutant(one)
        assert one.reference.answer == task.reference.answer
        assert one.step == 1  # the other call changes nothing


def test_arguments_deep_inside_are_altered_one_by_one() -> None:
    call = ReferenceCall(tool="order", arguments={"item": "tea", "count": 3, "more": [{"a": True, "b": "2026-03-01"}]})
    found = {one.place: one.groups for one in list_alterations(program(), INITIAL, reference(call), 0)}
    assert found.keys() == {"item", "count", "more", "more[0].a", "more[0].b"}
    assert found["more[0].a"] == ((False,),)
    assert found["more[0].b"][0] == ("2026-03-02", "2026-02-28")


STORE = """
class Store:
    def __init__(self, state):
        self.orders = dict(state.get("orders", {}))

    def move(self, order: str, shelf: int, note: str) -> dict:
        if order not in ("O-17", "O-44") or shelf not in (2, 5):
            return {"success": False, "error": "no"}
        self.orders[order] = [shelf, note]
        return {"success": True}
"""


def test_values_of_the_same_kind_are_tried_until_the_tool_accepts_one(sandbox: Sandbox) -> None:
    properties = {"order": {"type": "string"}, "shelf": {"type": "integer"}, "note": {"type": "string"}}
    tool = Tool(name="move", kind="change", parameters={"type": "object", "properties": properties})
    moved = ReferenceCall(tool="move", arguments={"order": "O-17", "shelf": 2, "note": "celadon and not oatmeal"})
    task = subject(
        check("True"),
        program=Program(source=STORE, class_name="Store", tools=(tool,)),
        initial=encode_state({"orders": {f"O-{number}": [1, ""] for number in (11, 12, 17, 44)}}),
        reference=reference(moved),
    )
    made = make_call_mutants(sandbox, task, (0,))
    altered = {(one.place, one.after) for one in made.mutants if one.kind == "argument_altered"}
    assert ("order", "O-44") in altered
    assert {after for place, after in altered if place == "note"} == {OTHER_TEXT, f"celadon and not oatmeal {CONTRARY}"}
    assert made.unaltered == ("call 1 (move): shelf",)  # 5 is not near enough to be tried
    found = audit_task(sandbox, task)
    (note,) = [fault.message for fault in found.faults if fault.kind == "argument_unaltered"]
    assert "call 1 (move): shelf" in note


def test_who_reads_the_answer() -> None:
    assert reads_answer(ANSWER)
    assert reads_answer(check("len(text) > 3", "a, b, text"))
    assert not reads_answer(OTHERS)
    assert not reads_answer("not python (")


def test_calls_that_belong_together_are_left_out_together() -> None:
    calls = [("move", "A", "east"), ("move", "B", "east"), ("close", "A", "west"), ("move", "C", "west")]
    known = reference(*(ReferenceCall(tool=tool, arguments={"key": key, "to": to}) for tool, key, to in calls))
    found = remove_call_groups(known, (0, 1, 2, 3))
    assert {one.place for one in found} == {"1, 2, 4", "1, 3", "1, 2", "3, 4"}
    assert describe_mutant(found[0]) == "calls 1, 2, 4 removed"
    assert remove_call_groups(known, (0,)) == []
