"""Blueprints of sequences of tools: edges of the graph first, then a model's additions by reasoning (AF 3.2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from pydantic import Field, ValidationError

from synthesis.contracts import Blueprint, BlueprintEdge, BlueprintNode
from synthesis.errors import InputError
from synthesis.scenarios.states import AuthorReply
from synthesis.tool_graph.derivations import find_returned_literals, require_derivation
from synthesis.tool_graph.graph import ToolGraph

PURPOSE_CHARS = 300
LEAST_CHOICES = 2
"""Values that a derivation chooses among if it works none out."""


class AddedNode(AuthorReply):
    """A reasoning node as a model adds it: after the call `after`, over the results that its code reads."""

    after: str = Field(max_length=10)
    purpose: str = Field(min_length=5, max_length=PURPOSE_CHARS)
    derivation: str = Field(min_length=10, max_length=4_000)


class AddedEdge(AuthorReply):
    """A reasoning edge as a model adds it. `start` and `end` are ids of nodes."""

    start: str = Field(max_length=10)
    end: str = Field(max_length=10)
    parameter: str = Field(default="", max_length=200)
    why: str = Field(default="", max_length=PURPOSE_CHARS)


class WrongEdge(AuthorReply):
    """An output edge that does not hold in a task: it was drawn because its tools can feed one another."""

    start: str = Field(max_length=10)
    end: str = Field(max_length=10)
    parameter: str = Field(default="", max_length=200)


def build_blueprint(graph: ToolGraph, tools: Sequence[str]) -> Blueprint:
    """Return the blueprint of a sequence: one node per call, and for each parameter with a producer in the graph that
    was called earlier, an edge from the nearest such call.
    """
    nodes = tuple(BlueprintNode(id=f"t{place}", kind="tool", tool=tool) for place, tool in enumerate(tools, 1))
    latest: dict[str, str] = {}
    edges: list[BlueprintEdge] = []
    for node in nodes:
        nearest: dict[str, str] = {}
        for parameter, source in graph.producers.get(node.tool, ()):
            known_node = latest.get(source)
            if known_node is not None and int(known_node[1:]) > int(nearest.get(parameter, "t0")[1:]):
                nearest[parameter] = known_node
        edges += [
            BlueprintEdge(source=source, target=node.id, parameter=parameter)
            for parameter, source in sorted(nearest.items())
        ]
        latest[node.tool] = node.id
    return Blueprint(nodes=nodes, edges=tuple(edges))


def add_reasoning_nodes(blueprint: Blueprint, added: Sequence[AddedNode]) -> Blueprint:
    """Return the blueprint with reasoning nodes `r1`, `r2`, ... inserted after the calls that they name.

    A node may read earlier nodes, reasoning nodes included. Raises InputError: a derivation that cannot be used, or
    that reads an unknown or later node.
    """
    nodes = list(blueprint.nodes)
    edges = list(blueprint.edges)
    for number, item in enumerate(added, 1):
        ids = [node.id for node in nodes]
        if item.after not in ids:
            raise InputError(
                f"reasoning node {number}: `after` names {item.after!r}, and the nodes are {_join_names(ids)}"
            )
        place = ids.index(item.after) + 1
        while place < len(nodes) and nodes[place].kind == "reason":
            place += 1
        name = f"r{number}"
        try:
            inputs = require_derivation(item.derivation, ids[:place])
        except InputError as error:
            raise InputError(f"reasoning node {number}: {error}") from error
        literals = find_returned_literals(item.derivation)
        if literals.is_all and len(literals.values) < LEAST_CHOICES:
            literal_text = json.dumps(literals.values[0]) if literals.values else "nothing"
            raise InputError(
                f"reasoning node {number}: it returns {literal_text} whatever the results are; work it out"
            )
        nodes.insert(
            place, BlueprintNode(id=name, kind="reason", purpose=item.purpose, derivation=item.derivation.strip())
        )
        edges += [BlueprintEdge(source=source, target=name, kind="reason", why=item.purpose) for source in inputs]
    return make_blueprint(nodes, edges, blueprint.walks)


def add_reasoning_edges(blueprint: Blueprint, added: Sequence[AddedEdge], graph: ToolGraph) -> Blueprint:
    """Return the blueprint with reasoning edges, which may only point forward.

    An edge into a parameter replaces an output edge into the same one; an edge that exists already stays as it is.
    Raises InputError: an edge that points backward (with the cycle that it would close), an unknown node or parameter.
    """
    nodes = {node.id: node for node in blueprint.nodes}
    places = {name: place for place, name in enumerate(nodes)}
    parameters = {tool.name: tool.parameters for tool in graph.tools}
    edges = list(blueprint.edges)
    for item in added:
        for name in (item.start, item.end):
            if name not in nodes:
                raise InputError(f"an edge names the node {name!r}, and the nodes are {_join_names(list(nodes))}")
        if places[item.start] >= places[item.end]:
            raise InputError(_describe_backward(blueprint, item))
        target = nodes[item.end]
        if target.kind == "reason":
            raise InputError(f"an edge goes into {item.end}, and what a reasoning node reads was said with it")
        if item.parameter and item.parameter not in parameters[target.tool]:
            raise InputError(f"{item.end} is {target.tool}, which takes no parameter {item.parameter!r}")
        if any((edge.source, edge.target, edge.parameter) == (item.start, item.end, item.parameter) for edge in edges):
            continue
        edges = [edge for edge in edges if not _is_replaced(item, edge)]
        edges.append(
            BlueprintEdge(source=item.start, target=item.end, kind="reason", parameter=item.parameter, why=item.why)
        )
    return make_blueprint(list(blueprint.nodes), edges, blueprint.walks)


def remove_edges(blueprint: Blueprint, wrong: Sequence[WrongEdge]) -> Blueprint:
    """Return the blueprint without output edges that do not hold. Raises InputError: an edge does not exist, or is one
    by reasoning.
    """
    named_edges = {(item.start, item.end, item.parameter) for item in wrong}
    output = {(edge.source, edge.target, edge.parameter) for edge in blueprint.edges if edge.kind == "output"}
    if unknown := sorted(named_edges - output):
        start, end, parameter = unknown[0]
        place = f" ({parameter})" if parameter else ""
        raise InputError(f"`wrong` names {start} -> {end}{place}, and no edge “as it is” is there")
    edges = [edge for edge in blueprint.edges if (edge.source, edge.target, edge.parameter) not in named_edges]
    return make_blueprint(blueprint.nodes, edges, blueprint.walks)


def make_blueprint(
    nodes: Sequence[BlueprintNode], edges: Sequence[BlueprintEdge], walks: Sequence[tuple[str, ...]] = ()
) -> Blueprint:
    """Return a blueprint with its edges in a canonical order. Raises InputError, which names a cycle."""
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
    """Return the nodes of a cycle among the edges, the first one again at the end; empty if there is none."""
    sources: dict[str, set[str]] = {}
    for edge in edges:
        sources.setdefault(edge.target, set()).add(edge.source)
    try:
        TopologicalSorter(sources).prepare()
    except CycleError as error:
        return [str(name) for name in reversed(error.args[1])]
    return []


def _is_replaced(item: AddedEdge, edge: BlueprintEdge) -> bool:
    if edge.target != item.end:
        return False
    same_place = bool(item.parameter) and edge.parameter == item.parameter and edge.kind == "output"
    return same_place or (edge.source == item.start and edge.parameter in ("", item.parameter))


def _describe_backward(blueprint: Blueprint, item: AddedEdge) -> str:
    edge = BlueprintEdge(source=item.start, target=item.end, kind="reason")
    cycle = find_cycle([*blueprint.edges, edge])
    closes = f", and would close the cycle {' -> '.join(cycle)}" if cycle else ""
    return f"the edge from {item.start} to {item.end} points backward{closes}: edges point forward only"


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names)
