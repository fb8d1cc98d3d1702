"""Blueprints of sequences of tools: edges of the graph first, then what a model adds by reasoning (AF 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from pydantic import Field, ValidationError

from synthesis.contracts import Blueprint, BlueprintEdge, BlueprintNode
from synthesis.errors import InputError
from synthesis.scenarios.states import AuthorReply
from synthesis.tool_graph.derivations import require_derivation
from synthesis.tool_graph.graph import ToolGraph

PURPOSE_CHARS = 300


class AddedNode(AuthorReply):
    """A reasoning node as a model adds it: behind the call `after`, over the results that its code reads."""

    after: str = Field(max_length=10)
    purpose: str = Field(min_length=5, max_length=PURPOSE_CHARS)
    derivation: str = Field(min_length=10, max_length=4_000)


class AddedEdge(AuthorReply):
    """A reasoning edge as a model adds it. `start` and `end` are ids of nodes."""

    start: str = Field(max_length=10)
    end: str = Field(max_length=10)
    parameter: str = Field(default="", max_length=200)
    why: str = Field(default="", max_length=PURPOSE_CHARS)


def build_blueprint(graph: ToolGraph, tools: Sequence[str]) -> Blueprint:
    """The blueprint of a sequence: a node a call, and for each parameter that the graph knows an earlier tool for, an
    edge from the nearest one before."""
    nodes = tuple(BlueprintNode(id=f"t{place}", kind="tool", tool=tool) for place, tool in enumerate(tools, 1))
    latest: dict[str, str] = {}
    edges: list[BlueprintEdge] = []
    for node in nodes:
        nearest: dict[str, str] = {}
        for parameter, source in graph.producers.get(node.tool, ()):
            known = latest.get(source)
            if known is not None and int(known[1:]) > int(nearest.get(parameter, "t0")[1:]):
                nearest[parameter] = known
        edges += [
            BlueprintEdge(source=source, target=node.id, parameter=parameter)
            for parameter, source in sorted(nearest.items())
        ]
        latest[node.tool] = node.id
    return Blueprint(nodes=nodes, edges=tuple(edges))


def with_reasoning_nodes(blueprint: Blueprint, added: Sequence[AddedNode]) -> Blueprint:
    """The blueprint with reasoning nodes `r1`, `r2`, ... put in behind the calls that they name.

    A node may read what stands before it, reasoning nodes included. Raises InputError: a derivation that cannot be
    used, or that reads an unknown or later node.
    """
    nodes = list(blueprint.nodes)
    edges = list(blueprint.edges)
    for number, item in enumerate(added, 1):
        ids = [node.id for node in nodes]
        if item.after not in ids:
            raise InputError(f"reasoning node {number}: `after` names {item.after!r}, and the nodes are {_listed(ids)}")
        place = ids.index(item.after) + 1
        while place < len(nodes) and nodes[place].kind == "reason":
            place += 1
        name = f"r{number}"
        try:
            inputs = require_derivation(item.derivation, ids[:place])
        except InputError as error:
            raise InputError(f"reasoning node {number}: {error}") from error
        nodes.insert(
            place, BlueprintNode(id=name, kind="reason", purpose=item.purpose, derivation=item.derivation.strip())
        )
        edges += [BlueprintEdge(source=source, target=name, kind="reason", why=item.purpose) for source in inputs]
    return make_blueprint(nodes, edges, blueprint.walks)


def with_reasoning_edges(blueprint: Blueprint, added: Sequence[AddedEdge], graph: ToolGraph) -> Blueprint:
    """The blueprint with reasoning edges, which may only point forward.

    An edge into a parameter takes the place of an output edge into the same one. Raises InputError: an edge that points
    backward (with the cycle that it would close), an unknown node or parameter.
    """
    nodes = {node.id: node for node in blueprint.nodes}
    places = {name: place for place, name in enumerate(nodes)}
    parameters = {tool.name: tool.parameters for tool in graph.tools}
    edges = list(blueprint.edges)
    for item in added:
        for name in (item.start, item.end):
            if name not in nodes:
                raise InputError(f"an edge names the node {name!r}, and the nodes are {_listed(list(nodes))}")
        if places[item.start] >= places[item.end]:
            raise InputError(_say_backward(blueprint, item))
        target = nodes[item.end]
        if target.kind == "reason":
            raise InputError(f"an edge goes into {item.end}, and what a reasoning node reads was said with it")
        if item.parameter and item.parameter not in parameters[target.tool]:
            raise InputError(f"{item.end} is {target.tool}, which takes no parameter {item.parameter!r}")
        edges = [edge for edge in edges if not _replaces(item, edge)]
        edges.append(
            BlueprintEdge(source=item.start, target=item.end, kind="reason", parameter=item.parameter, why=item.why)
        )
    return make_blueprint(list(blueprint.nodes), edges, blueprint.walks)


def make_blueprint(
    nodes: Sequence[BlueprintNode], edges: Sequence[BlueprintEdge], walks: Sequence[tuple[str, ...]] = ()
) -> Blueprint:
    """A blueprint, its edges in one order. Raises InputError, which names a cycle."""
    places = {node.id: place for place, node in enumerate(nodes)}
    unknown = [name for edge in edges for name in (edge.source, edge.target) if name not in places]
    if unknown:
        raise InputError(f"an edge names the node {unknown[0]!r:.40}, which is not there")
    ordered = sorted(dict.fromkeys(edges), key=lambda edge: (places[edge.target], places[edge.source], edge.parameter))
    try:
        return Blueprint(nodes=tuple(nodes), edges=tuple(ordered), walks=tuple(walks))
    except ValidationError as error:
        cycle = find_cycle(ordered)
        if cycle:
            raise InputError(f"the edges make a cycle: {' -> '.join(cycle)}") from None
        raise InputError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from None


def find_cycle(edges: Sequence[BlueprintEdge]) -> list[str]:
    """The nodes of a cycle among the edges, the first one again at the end; empty if there is none."""
    sources: dict[str, set[str]] = {}
    for edge in edges:
        sources.setdefault(edge.target, set()).add(edge.source)
    try:
        TopologicalSorter(sources).prepare()
    except CycleError as error:
        return [str(name) for name in reversed(error.args[1])]
    return []


def _replaces(item: AddedEdge, edge: BlueprintEdge) -> bool:
    if edge.target != item.end:
        return False
    same_place = bool(item.parameter) and edge.parameter == item.parameter and edge.kind == "output"
    return same_place or (edge.source == item.start and edge.parameter in ("", item.parameter))


def _say_backward(blueprint: Blueprint, item: AddedEdge) -> str:
    edge = BlueprintEdge(source=item.start, target=item.end, kind="reason")
    cycle = find_cycle([*blueprint.edges, edge])
    closes = f", and would close the cycle {' -> '.join(cycle)}" if cycle else ""
    return f"the edge from {item.start} to {item.end} points backward{closes}: edges point forward only"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
