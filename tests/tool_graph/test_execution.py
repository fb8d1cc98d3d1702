"""Execution of blueprints in the sandbox, sources of their values, and the words that are left of a task."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.contracts import Blueprint, BlueprintEdge, BlueprintNode, NodeArgument, Program, Tool
from synthesis.errors import InputError
from synthesis.runtime import Sandbox, encode_state
from synthesis.tool_graph.argument_sources import (
    is_choice,
    is_held,
    is_said,
    mark_documented_choice,
    require_source,
)
from synthesis.tool_graph.argument_stage import connect_taken_values
from synthesis.tool_graph.derivations import find_returned_literals, run_derivation
from synthesis.tool_graph.execution import execute_nodes
from synthesis.tool_graph.refinement import find_unsaid, split_sentences

SOURCE = '''
class Rooms:
    """Keeps rooms."""

    def __init__(self, state):
        self.rooms = {key: dict(room) for key, room in state["rooms"].items()}

    def list_rooms(self, floor: int) -> dict:
        """List rooms."""
        return {"rooms": [{"id": key, **room} for key, room in self.rooms.items() if room["floor"] == floor]}

    def set_price(self, room_id: str, price: int) -> dict:
        """Set the price of a room."""
        if room_id not in self.rooms:
            return {"success": False, "error": f"There is no room {room_id}"}
        self.rooms[room_id]["price"] = price
        return {"success": True}
'''
CHOICE = {"anyOf": [{"type": "string", "enum": ["in_use", "cancelled", "kept"]}, {"type": "null"}]}
INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
LIST = Tool(name="list_rooms", parameters={"type": "object", "properties": {"floor": INTEGER}, "required": ["floor"]})
PRICE = Tool(
    name="set_price",
    kind="change",
    description='Set the price of a room such as "R-7", of the kind "single" or "double".',
    parameters={
        "type": "object",
        "properties": {"room_id": TEXT, "price": INTEGER, "state": CHOICE},
        "required": ["room_id", "price"],
    },
)
PROGRAM = Program(source=SOURCE, class_name="Rooms", tools=(LIST, PRICE))
STATE = encode_state({"rooms": {"R-1": {"floor": 2, "price": 70}, "R-2": {"floor": 2, "price": 90}}})
CHEAPEST = 'def derive(results):\n    return min(results["t1"]["rooms"], key=lambda room: room["price"])["id"]\n'


def fill(name: str, value: Any, source: str, *nodes: str) -> NodeArgument:
    return NodeArgument.model_validate({"name": name, "value": value, "source": source, "nodes": nodes})


def chain(room: str = "R-1", derivation: str = CHEAPEST) -> list[BlueprintNode]:
    price = (fill("room_id", room, "result", "r1"), fill("price", 60, "intent"))
    return [
        BlueprintNode(id="t1", kind="tool", tool="list_rooms", arguments=(fill("floor", 2, "intent"),)),
        BlueprintNode(id="r1", kind="reason", purpose="the cheapest room", derivation=derivation),
        BlueprintNode(id="t2", kind="tool", tool="set_price", arguments=price),
    ]


def test_nodes_are_executed_in_order_and_the_same_every_time(sandbox: Sandbox) -> None:
    done = execute_nodes(sandbox, PROGRAM, STATE, chain())
    assert done == execute_nodes(sandbox, PROGRAM, STATE, chain())
    assert (done.failed, done.results["r1"], done.changing) == ("", "R-1", ("t2",))
    assert done.state is not None
    assert done.state["rooms"]["R-1"]["price"] == 60


def test_a_refusal_and_a_derivation_that_fails_end_the_execution_with_their_reason(sandbox: Sandbox) -> None:
    refused = execute_nodes(sandbox, PROGRAM, STATE, chain(room="R-9"))
    assert refused.failed == "t2"
    assert "There is no room R-9" in refused.message
    broken = execute_nodes(sandbox, PROGRAM, STATE, chain(derivation=CHEAPEST.replace('"id"', '"name"')))
    assert broken.failed == "r1"
    assert "KeyError" in broken.message
    assert "t2" not in broken.results


def test_derivations_cannot_reach_out_of_the_sandbox(sandbox: Sandbox) -> None:
    with pytest.raises(InputError, match="the derivation fails"):
        run_derivation(sandbox, 'def derive(results):\n    return open("/etc/passwd").read()', {})
    with pytest.raises(InputError, match="returns nothing"):
        run_derivation(sandbox, "def derive(results):\n    pass", {})


@pytest.mark.parametrize(
    ("body", "values", "is_all"),
    [
        ('return "R-1" if results["t1"] else None', ("R-1",), True),
        ('found = 60\n    return results["t1"] and found', (60,), False),
        ('return results["t1"]["price"] - 30', (), False),
        ('return True if results["t1"] else 0', (0,), False),
        ('def rank(room):\n        return 1\n    return max(results["t1"], key=rank)', (), False),
    ],
)
def test_what_a_derivation_returns_as_it_is_written_is_found(body: str, values: Any, is_all: bool) -> None:
    assert find_returned_literals(f"def derive(results):\n    {body}\n") == (values, is_all)


@pytest.mark.parametrize(
    ("words", "value", "said"),
    [
        ("Book it for Anna Keller.", "anna keller", True),
        ("Book it for Anna Keller.", "Anna Kell", False),
        ("Move it to R-10.", "R-1", False),
        ("Move it to R-10.", 10, False),
        ("It costs 1,250.50 francs.", 1250.5, True),
        ("It costs 120 francs.", 12, False),
        ("Two rooms, please.", 2, True),
        ("From 3 April 2026 on.", "2026-04-03", True),
        ("From 13 April 2026 on.", "2026-04-03", False),
        ("Beans and peas.", ["peas", "beans"], True),
        ("Beans and peas.", ["peas", "corn"], False),
        ("As soon as can be.", True, True),
    ],
)
def test_a_value_is_said_or_not(words: str, value: Any, said: bool) -> None:
    assert is_said(words, value) is said


def test_a_value_is_held_by_a_result_as_value_or_key() -> None:
    result = {"rooms": {"R-1": {"price": 70, "free": True}}, "count": 1}
    assert all(is_held(result, value) for value in ("R-1", 70, True, ["R-1", 70]))
    assert not any(is_held(result, value) for value in ("R-2", 71, ["R-1", "R-2"], []))
    assert not is_held({"count": 1}, True)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        (fill("price", 61, "intent"), "does not say it in these words"),
        (fill("room_id", "R-9", "result", "t1"), "does not stand in the result of t1"),
        (fill("room_id", "R-1", "result", "t7"), "result of t7"),
        (fill("room_id", "R-1", "result"), "result of no node"),
        (fill("room_id", "suite", "tool"), "names no such one"),
        (fill("room_id", "R-7", "tool"), "names no such one"),
        (fill("room_id", "doubl", "tool"), "names no such one"),
        (fill("state", "double", "tool"), "names no such one"),
    ],
)
def test_values_that_stand_nowhere_are_refused(argument: NodeArgument, said: str) -> None:
    with pytest.raises(InputError, match=said):
        require_source(argument, "The room for 60 francs.", {"t1": {"rooms": [{"id": "R-1"}]}}, PRICE)


@pytest.mark.parametrize(
    ("argument", "other"),
    [
        (fill("price", 60, "intent"), 61),
        (fill("room_id", "R-1", "result", "t1"), "R-2"),
        (fill("x", "double", "tool"), "treble"),
    ],
)
def test_a_value_is_taken_from_its_source_and_its_neighbour_is_not(argument: NodeArgument, other: object) -> None:
    results = {"t1": {"rooms": [{"id": "R-1"}]}}
    require_source(argument, "The room for 60 francs.", results, PRICE)
    with pytest.raises(InputError):
        require_source(argument.model_copy(update={"value": other}), "The room for 60 francs.", results, PRICE)


def test_a_choice_that_the_words_mean_or_spell_as_code_is_a_documented_one() -> None:
    """A refined instruction may not say `in_use`, so nothing may rest on the draft's saying it."""
    words = "The room that is in_use or kept costs 61 francs."
    cases = {"in_use": "tool", "cancelled": "tool", "kept": "intent", "lost": "intent"}
    for value, source in cases.items():
        assert mark_documented_choice(fill("state", value, "intent"), words, PRICE).source == source
    assert mark_documented_choice(fill("room_id", "kept", "intent"), words, PRICE).source == "intent"
    assert not is_choice(PRICE, "price", 61)


def test_edges_into_parameters_that_took_nothing_from_there_are_gone() -> None:
    nodes = chain()
    drawn = [("t1", "t2", "room_id"), ("t1", "t2", "price"), ("r1", "t2", "room_id")]
    edges = tuple(BlueprintEdge(source=source, target=end, parameter=name) for source, end, name in drawn)
    whole = connect_taken_values(Blueprint(nodes=tuple(nodes), edges=edges), nodes)
    assert [(edge.source, edge.parameter, edge.kind) for edge in whole.edges] == [("r1", "room_id", "reason")]


def test_a_blueprint_gets_an_edge_for_each_value_that_is_taken() -> None:
    nodes = chain()
    edges = [{"source": "t1", "target": "r1", "kind": "reason"}, {"source": "r1", "target": "t2", "kind": "reason"}]
    drawn = Blueprint.model_validate({"nodes": [node.model_dump() for node in nodes], "edges": edges})
    whole = connect_taken_values(drawn, nodes)
    assert [(edge.source, edge.target, edge.parameter) for edge in whole.edges] == [
        ("t1", "r1", ""),
        ("r1", "t2", "room_id"),
    ]
    bare = connect_taken_values(Blueprint(nodes=tuple(nodes)), nodes)
    assert [(edge.source, edge.kind) for edge in bare.edges] == [("r1", "reason")]


def test_words_that_leave_out_what_only_they_can_tell_are_found() -> None:
    blueprint = Blueprint(nodes=tuple(chain()))
    assert find_unsaid(blueprint, "On floor 2 the cheapest room is 60 francs from now on.") == []
    assert find_unsaid(blueprint, "On the floor the cheapest room is 60 francs from now on.") == ["floor = 2"]
    assert split_sentences("It is at 9.30 a day. Is it? Yes!") == ["It is at 9.30 a day.", "Is it?", "Yes!"]
