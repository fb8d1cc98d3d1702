"""Execution of blueprints in the sandbox, sources of their values, and the words that are left of a task."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.contracts import Blueprint, BlueprintNode, NodeArgument, Program, Tool
from synthesis.errors import InputError
from synthesis.runtime import Sandbox, encode_state
from synthesis.tool_graph.argument_sources import is_held, is_said, require_source
from synthesis.tool_graph.argument_stage import with_taken_values
from synthesis.tool_graph.derivations import run_derivation
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
INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
LIST = Tool(name="list_rooms", parameters={"type": "object", "properties": {"floor": INTEGER}, "required": ["floor"]})
PRICE = Tool(
    name="set_price",
    kind="change",
    description='Set the price of a room, of the kind "single" or "double".',
    parameters={
        "type": "object",
        "properties": {"room_id": TEXT, "price": INTEGER},
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
        (fill("price", 61, "intent"), "it dangles"),
        (fill("room_id", "R-9", "result", "t1"), "it dangles"),
        (fill("room_id", "R-1", "result", "t7"), "result of t7"),
        (fill("room_id", "R-1", "result"), "result of no node"),
        (fill("room_id", "suite", "tool"), "documentation lacks it"),
    ],
)
def test_values_that_stand_nowhere_are_refused(argument: NodeArgument, said: str) -> None:
    with pytest.raises(InputError, match=said):
        require_source(argument, "The room for 60 francs.", {"t1": {"rooms": [{"id": "R-1"}]}}, PRICE)


def test_values_that_stand_where_they_are_said_to_are_taken() -> None:
    for argument in (fill("price", 60, "intent"), fill("room_id", "R-1", "result", "t1"), fill("x", "double", "tool")):
        require_source(argument, "The room for 60 francs.", {"t1": {"rooms": [{"id": "R-1"}]}}, PRICE)


def test_a_blueprint_gets_an_edge_for_each_value_that_is_taken() -> None:
    nodes = chain()
    edges = [{"source": "t1", "target": "r1", "kind": "reason"}, {"source": "r1", "target": "t2", "kind": "reason"}]
    drawn = Blueprint.model_validate({"nodes": [node.model_dump() for node in nodes], "edges": edges})
    whole = with_taken_values(drawn, nodes)
    assert [(edge.source, edge.target, edge.parameter) for edge in whole.edges] == [
        ("t1", "r1", ""),
        ("r1", "t2", "room_id"),
    ]
    bare = with_taken_values(Blueprint(nodes=tuple(nodes)), nodes)
    assert [(edge.source, edge.kind) for edge in bare.edges] == [("r1", "reason")]


def test_words_that_leave_out_what_only_they_can_tell_are_found() -> None:
    blueprint = Blueprint(nodes=tuple(chain()))
    assert find_unsaid(blueprint, "On floor 2 the cheapest room is 60 francs from now on.") == []
    assert find_unsaid(blueprint, "On the floor the cheapest room is 60 francs from now on.") == ["floor = 2"]
    assert split_sentences("It is at 9.30 a day. Is it? Yes!") == ["It is at 9.30 a day.", "Is it?", "Yes!"]
