"""Weighted walks and the values of their calls: pure, seeded, without any model."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from synthesis.contracts import BlueprintNode, Tool
from synthesis.tool_graph.graph import GraphEdge, GraphTool, ToolGraph
from synthesis.tool_walk.call_arguments import draw_arguments, trace_arguments
from synthesis.tool_walk.hidden_words import find_order_words
from synthesis.tool_walk.weighted_walks import classify_step, draw_walk, find_starts, weigh_successors
from synthesis.variant_settings import WalkSettings

GRAPH = ToolGraph(
    tools=(
        GraphTool(name="find_guest", parameters=("text",)),
        GraphTool(name="list_stays", parameters=("guest_id",)),
        GraphTool(name="list_rooms", parameters=("floor",)),
        GraphTool(name="move_stay", kind="change", parameters=("stay_id", "room_id")),
        GraphTool(name="ring_bell", kind="change"),
    ),
    edges=(
        GraphEdge(source="find_guest", target="list_stays", parameter="guest_id"),
        GraphEdge(source="list_stays", target="move_stay", parameter="stay_id"),
        GraphEdge(source="list_rooms", target="move_stay", parameter="room_id", kind="weak"),
    ),
    graded=True,
)
MOVE = Tool(
    name="move_stay",
    parameters={
        "type": "object",
        "properties": {"stay_id": {"type": "string"}, "room_id": {"type": "string"}, "late": {"type": "boolean"}},
        "required": ["stay_id", "room_id"],
    },
)
STATE: dict[str, Any] = {
    "stays": {"S-1": {"guest_id": "G-1"}, "S-2": {"guest_id": "G-2"}},
    "rooms": {"R-1": {"floor": 1}, "R-2": {"floor": 2}},
}


def test_steps_weigh_three_two_and_one_and_none_goes_against_a_strong_edge() -> None:
    plain = WalkSettings()
    assert weigh_successors(GRAPH, "find_guest", plain) == {
        "list_stays": 3.0, "list_rooms": 1.0, "move_stay": 1.0, "ring_bell": 1.0,
    }  # fmt: skip
    assert weigh_successors(GRAPH, "move_stay", plain) == {"find_guest": 1.0, "list_rooms": 2.0, "ring_bell": 1.0}
    raised = WalkSettings(weak_factor=4, independent_factor=0)
    assert weigh_successors(GRAPH, "move_stay", raised) == {"list_rooms": 8.0}
    steps = [classify_step(GRAPH, *pair) for pair in pairwise(("list_rooms", "move_stay", "list_rooms", "find_guest"))]
    assert steps == ["weak", "weak", "independent"]
    assert classify_step(GRAPH, "move_stay", "list_stays") == "independent", (
        "against a strong edge nothing is handed on"
    )


def test_walks_begin_at_tools_that_give_and_take_nothing_strictly_and_are_the_same_for_the_same_seed() -> None:
    assert find_starts(GRAPH) == ("find_guest", "list_rooms")
    fed = GRAPH.model_copy(update={"tools": GRAPH.tools[1:2], "edges": GRAPH.edges[:1]})
    assert find_starts(fed) == ("list_stays",), "if all are fed, any that gives"
    numbers = WalkSettings(most_steps=6, visits=2)
    walks = [draw_walk(GRAPH, Random(seed), numbers) for seed in range(200)]
    assert walks == [draw_walk(GRAPH, Random(seed), numbers) for seed in range(200)]
    assert {len(walk) for walk in walks} == {6}
    assert all(max(Counter(walk).values()) <= 2 for walk in walks)
    assert all(one != other for walk in walks for one, other in pairwise(walk))
    assert {walk[0] for walk in walks} == {"find_guest", "list_rooms"}


@pytest.mark.parametrize(("factor", "more"), [("weak_factor", "weak"), ("independent_factor", "independent")])
def test_a_larger_factor_gives_more_such_steps(factor: str, more: str) -> None:
    def share(value: float) -> float:
        numbers = WalkSettings(most_steps=6, visits=3).model_copy(update={factor: value})
        walks = [draw_walk(GRAPH, Random(seed), numbers) for seed in range(300)]
        steps = [classify_step(GRAPH, *pair) for walk in walks for pair in pairwise(walk)]
        return steps.count(more) / len(steps)  # type: ignore[arg-type]

    assert share(0.1) < share(1.0) < share(10.0)


def test_values_come_along_edges_or_are_drawn_from_the_state_and_are_traced_back() -> None:
    earlier = [BlueprintNode(id="t1", kind="tool", tool="list_stays")]
    results = {"t1": {"stays": [{"stay_id": "S-2"}]}}
    drawn = [draw_arguments(Random(seed), MOVE, GRAPH, earlier, results, STATE) for seed in range(40)]
    assert {given["stay_id"] for given in drawn} == {"S-2"}, "as the latest call with an edge returned it"
    assert {given["room_id"] for given in drawn} == {"R-1", "R-2"}, "no call returned one: drawn from the state"
    assert {given.get("late") for given in drawn} == {None, True, False}
    free = [draw_arguments(Random(seed), MOVE, GRAPH, [], {}, STATE)["stay_id"] for seed in range(40)]
    assert set(free) == {"S-1", "S-2"}
    traced = trace_arguments(MOVE, {"stay_id": "S-2", "room_id": "R-1", "late": True}, GRAPH, earlier, results)
    assert [(one.name, one.source, one.nodes) for one in traced] == [
        ("stay_id", "result", ("t1",)),
        ("room_id", "intent", ()),
        ("late", "tool", ()),
    ]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("First, look up Ann. Then, move her.", ["First", "Then"]),
        ("1. Look up Ann\n2. Move her", ["1.", "2."]),
        ("She was first in line, and the next room is hers.", []),
        ("Please see that Ann has a room on the first floor by then.", []),
    ],
)
def test_words_of_order_are_found_where_they_begin_a_part(words: str, found: list[str]) -> None:
    assert find_order_words(words) == found
