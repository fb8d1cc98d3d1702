"""Graphs of tools, walks, merges and blueprints: pure, seeded, without any model."""

from __future__ import annotations

import random

import pytest

from synthesis.contracts import Blueprint, BlueprintEdge, BlueprintNode, GraphEdge
from synthesis.errors import InputError
from synthesis.tool_graph.blueprint_stage import draw_walks
from synthesis.tool_graph.canonical import hash_blueprint
from synthesis.tool_graph.dag import (
    AddedEdge,
    AddedNode,
    WrongEdge,
    add_reasoning_edges,
    add_reasoning_nodes,
    build_blueprint,
    make_blueprint,
    remove_edges,
)
from synthesis.tool_graph.graph import GraphTool, ToolGraph
from synthesis.tool_graph.merges import Merges, is_pruned_from, merge_walks

GRAPH = ToolGraph(
    tools=(
        GraphTool(name="find_guest", parameters=("text",)),
        GraphTool(name="list_stays", parameters=("guest_id",)),
        GraphTool(name="list_rooms", parameters=("floor",)),
        GraphTool(name="move_stay", kind="change", parameters=("stay_id", "room_id")),
        GraphTool(name="clean_room", kind="change", parameters=("room_id",)),
    ),
    edges=(
        GraphEdge(source="find_guest", target="list_stays", parameter="guest_id"),
        GraphEdge(source="list_stays", target="move_stay", parameter="stay_id"),
        GraphEdge(source="list_rooms", target="move_stay", parameter="room_id"),
        GraphEdge(source="list_rooms", target="clean_room", parameter="room_id"),
    ),
)
SUM = 'def derive(results):\n    return sum(room["price"] for room in results["t1"]["rooms"])\n'


def test_walks_follow_edges_and_are_the_same_for_the_same_seed() -> None:
    walks = draw_walks(GRAPH, 3, 500, (2, 4))
    assert walks == draw_walks(GRAPH, 3, 500, (2, 4)) != draw_walks(GRAPH, 4, 500, (2, 4))
    assert set(walks) == {
        ("find_guest", "list_stays"),
        ("find_guest", "list_stays", "move_stay"),
        ("list_rooms", "move_stay"),
        ("list_rooms", "clean_room"),
    }
    assert sum(walks.values()) == 500


def test_a_graph_in_which_every_tool_takes_something_has_starts_all_the_same() -> None:
    tools = tuple(GraphTool(name=name, parameters=("x",)) for name in "ab")
    edges = tuple(GraphEdge(source=one, target=other, parameter="x") for one, other in ("ab", "ba"))
    graph = ToolGraph(tools=tools, edges=edges)
    assert set(draw_walks(graph, 0, 20, (2, 5))) == {("a", "b"), ("b", "a")}
    assert not draw_walks(ToolGraph(tools=tools), 0, 20, (2, 5))


def test_merges_hold_a_change_and_no_two_are_alike() -> None:
    walks = draw_walks(GRAPH, 0, 200, (2, 4))
    merges = Merges(GRAPH, walks, 0, most_tools=7)
    made = merges.draw(50)
    assert merges.duplicates > 0
    digests = [hash_blueprint(build_blueprint(GRAPH, merge.tools)) for merge in made]
    assert len(set(digests)) == len(digests) > 4
    assert all({"move_stay", "clean_room"} & set(merge.tools) for merge in made)
    assert not merges.draw(50), "what was drawn once does not come again"


def test_a_shared_end_stands_once_in_a_merge() -> None:
    assert merge_walks(("a", "b"), ("b", "c")) == ("a", "b", "c")
    assert merge_walks(("a", "b"), ("c", "b")) == ("a", "b", "c", "b")
    assert is_pruned_from(("a", "c"), ("a", "b", "c"))
    assert not is_pruned_from(("c", "a"), ("a", "b", "c"))


def test_a_blueprint_takes_each_parameter_from_the_nearest_tool_before() -> None:
    tools = ("list_rooms", "find_guest", "list_stays", "list_rooms", "move_stay")
    blueprint = build_blueprint(GRAPH, tools)
    assert [(edge.source, edge.target, edge.parameter) for edge in blueprint.edges] == [
        ("t2", "t3", "guest_id"),
        ("t4", "t5", "room_id"),
        ("t3", "t5", "stay_id"),
    ]
    assert blueprint.levels() == {"t1": 0, "t2": 0, "t3": 1, "t4": 0, "t5": 2}


def test_reasoning_is_put_in_behind_what_it_reads() -> None:
    blueprint = build_blueprint(GRAPH, ("list_rooms", "clean_room"))
    node = AddedNode(after="t1", purpose="what all rooms cost", derivation=SUM)
    thought = add_reasoning_nodes(blueprint, [node])
    assert [item.id for item in thought.nodes] == ["t1", "r1", "t2"]
    whole = add_reasoning_edges(thought, [AddedEdge(start="r1", end="t2", parameter="room_id")], GRAPH)
    assert {(edge.source, edge.target, edge.kind) for edge in whole.edges} == {
        ("t1", "r1", "reason"),
        ("r1", "t2", "reason"),
    }


def test_edges_that_do_not_hold_are_taken_out_and_none_is_drawn_twice() -> None:
    blueprint = build_blueprint(GRAPH, ("find_guest", "list_stays", "list_rooms", "move_stay"))
    again = add_reasoning_edges(blueprint, [AddedEdge(start="t1", end="t2", parameter="guest_id")], GRAPH)
    assert set(again.edges) == set(blueprint.edges), "what is handed on as it is stays so"
    left = remove_edges(blueprint, [WrongEdge(start="t3", end="t4", parameter="room_id")])
    assert [(edge.source, edge.target) for edge in left.edges] == [("t1", "t2"), ("t2", "t4")]
    with pytest.raises(InputError, match=r"t3 -> t4 \(stay_id\)"):
        remove_edges(blueprint, [WrongEdge(start="t3", end="t4", parameter="stay_id")])


@pytest.mark.parametrize(
    ("added", "said"),
    [
        (AddedEdge(start="t2", end="t1"), "t2 -> t1 -> t2"),
        (AddedEdge(start="t1", end="t1"), "points backward"),
        (AddedEdge(start="t9", end="t2"), "names the node 't9'"),
        (AddedEdge(start="t1", end="t2", parameter="colour"), "takes no parameter 'colour'"),
    ],
)
def test_edges_that_close_a_cycle_or_lead_nowhere_are_refused(added: AddedEdge, said: str) -> None:
    blueprint = build_blueprint(GRAPH, ("list_rooms", "clean_room"))
    with pytest.raises(InputError, match=said):
        add_reasoning_edges(blueprint, [added], GRAPH)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"after": "t7"}, "`after` names 't7'"),
        ({"derivation": "def work(results):\n    return 1"}, "one function `def derive"),
        ({"derivation": 'def derive(results):\n    return results["t2"]'}, "reads 't2'"),
        ({"derivation": 'def derive(results):\n    return open("x").read()'}, "uses what it must not"),
        ({"derivation": "def derive(results):\n    return 12 + 4"}, "reads no result"),
        ({"derivation": 'def derive(results):\n    return "R-1" if results["t1"] else None'}, 'returns "R-1" whatever'),
    ],
)
def test_reasoning_nodes_that_cannot_be_used_are_refused(change: dict[str, object], said: str) -> None:
    blueprint = build_blueprint(GRAPH, ("list_rooms", "clean_room"))
    node = {"after": "t1", "purpose": "what all rooms cost", "derivation": SUM} | change
    with pytest.raises(InputError, match=said):
        add_reasoning_nodes(blueprint, [AddedNode.model_validate(node)])


def test_a_cycle_is_named_whatever_the_order_of_nodes() -> None:
    nodes = [BlueprintNode(id=name, kind="tool", tool=name) for name in ("t1", "t2", "t3")]
    edges = [BlueprintEdge(source=one, target=other) for one, other in (("t1", "t2"), ("t2", "t3"), ("t3", "t1"))]
    with pytest.raises(InputError, match=r"make a cycle: t\d -> "):
        make_blueprint(nodes, edges)


def _shuffled(blueprint: Blueprint, seed: int) -> Blueprint:
    """The same graph, written down in another order that keeps edges forward, its nodes called otherwise."""
    chance = random.Random(seed)
    left, order = list(blueprint.nodes), []
    while left:
        placed = {node.id for node in order}
        free = [node for node in left if set(blueprint.sources(node.id)) <= placed]
        order.append(chance.choice(free))
        left.remove(order[-1])
    names = {node.id: f"t{place}" for place, node in enumerate(order, 1)}
    nodes = [node.model_copy(update={"id": names[node.id]}) for node in order]
    edges = [
        edge.model_copy(update={"source": names[edge.source], "target": names[edge.target]}) for edge in blueprint.edges
    ]
    return make_blueprint(nodes, edges)


@pytest.mark.parametrize("seed", range(12))
def test_isomorphic_blueprints_have_one_hash_and_others_have_not(seed: int) -> None:
    chance = random.Random(seed)
    nodes = [BlueprintNode(id=f"t{place}", kind="tool", tool=chance.choice("abc")) for place in range(1, 11)]
    pairs = [(one, other) for one in range(1, 11) for other in range(one + 1, 11) if chance.random() < 0.25]
    edges = [BlueprintEdge(source=f"t{one}", target=f"t{other}", parameter=chance.choice("xy")) for one, other in pairs]
    blueprint = make_blueprint(nodes, edges)
    digest = hash_blueprint(blueprint)
    assert {hash_blueprint(_shuffled(blueprint, other)) for other in range(8)} == {digest}
    assert edges
    fewer = make_blueprint(nodes, edges[1:])
    assert hash_blueprint(fewer) != digest


def test_interchangeable_parts_make_no_difference_and_cost_no_search() -> None:
    twins = make_blueprint([BlueprintNode(id=f"t{place}", kind="tool", tool="look") for place in range(1, 31)], [])
    assert hash_blueprint(twins) == hash_blueprint(_shuffled(twins, 1))
    chains = [BlueprintNode(id=f"t{place}", kind="tool", tool="look") for place in range(1, 9)]
    edges = [BlueprintEdge(source=f"t{place}", target=f"t{place + 4}") for place in range(1, 5)]
    crossed = [BlueprintEdge(source=f"t{place}", target=f"t{9 - place}") for place in range(1, 5)]
    assert hash_blueprint(make_blueprint(chains, edges)) == hash_blueprint(make_blueprint(chains, crossed))


def build_reading(body: str) -> str:
    """Return the hash of a blueprint in which two different calls are read by a derivation with this body."""
    nodes = [BlueprintNode(id="t1", kind="tool", tool="a"), BlueprintNode(id="t2", kind="tool", tool="b")]
    source = f"def derive(results):\n    {body}\n"
    nodes.append(BlueprintNode(id="r1", kind="reason", purpose="the difference", derivation=source))
    edges = [BlueprintEdge(source=name, target="r1") for name in ("t1", "t2")]
    return hash_blueprint(make_blueprint(nodes, edges))


def test_derivations_count_by_what_they_do() -> None:
    blueprint = build_blueprint(GRAPH, ("list_rooms", "clean_room"))

    def digest(source: str) -> str:
        node = AddedNode(after="t1", purpose="what all rooms cost", derivation=source)
        return hash_blueprint(add_reasoning_nodes(blueprint, [node]))

    swapped = [
        build_reading(f'return results["{first}"]["rooms"] - results["{second}"]["rooms"], "t1"')
        for first, second in (("t1", "t2"), ("t2", "t1"))
    ]
    assert swapped[0] != swapped[1] != build_reading('return results["t2"]["rooms"] - results["t1"]["rooms"], "t2"')
    spaced = SUM.replace("    return", "    # all of them\n    return")
    assert digest(SUM) == digest(spaced) != digest(SUM.replace("price", "beds"))
