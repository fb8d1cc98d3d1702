"""Blueprints of tasks: the directed acyclic graph of tool calls and reasoning that a task is written from (AF 3.2)."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from synthesis.contracts.base import Frozen

NodeKind = Literal["tool", "reason"]
EdgeKind = Literal["output", "reason"]
"""`output`: what the source returns goes into a parameter as it is. `reason`: it is used through reasoning, by a
reasoning node or to work out a parameter (AF's reasoning edges)."""
ArgumentSource = Literal["intent", "result", "derivation", "tool"]
"""Where a value comes from: the words of the task, an executed result, code over executed results, or the tool's own
documentation (a documented choice, true, false or nothing)."""
StepKind = Literal["strong", "weak", "independent"]
"""How a call of a walk follows the one before it (AW 3.1.1): by the edge between their tools, either way."""
MOST_NODES = 40


class NodeArgument(Frozen):
    """Value of a call's parameter with its source.

    `nodes` are those from whose results it was taken or derived; `derivation` is the code of a derived value.
    """

    name: str
    value: Any = None
    source: ArgumentSource
    nodes: tuple[str, ...] = ()
    derivation: str = ""


class BlueprintNode(Frozen):
    """Call of a tool, or a reasoning node.

    A reasoning node names its result (`purpose`) and its computation: `derivation` is Python, `def derive(results)`
    over the results of earlier nodes by their ids, executed in the sandbox. `arguments` are filled when a call is
    executed.
    """

    id: str = Field(pattern=r"^[tr][1-9][0-9]{0,2}$")
    kind: NodeKind
    tool: str = ""
    arguments: tuple[NodeArgument, ...] = ()
    purpose: str = ""
    derivation: str = ""

    @property
    def label(self) -> str:
        """Name of the node: its tool, or the purpose of its reasoning."""
        return self.tool or self.purpose

    @property
    def call_arguments(self) -> dict[str, Any]:
        """The arguments of the call, by parameter."""
        return {argument.name: argument.value for argument in self.arguments}


class BlueprintEdge(Frozen):
    """Value passed from one node to another: into `parameter`, if it is known. `why` is the reasoning in words."""

    source: str
    target: str
    kind: EdgeKind = "output"
    parameter: str = ""
    why: str = ""


class Blueprint(Frozen):
    """Graph of a task.

    `nodes` are in the order of execution, and every edge points forward in it, so that there can be no cycle. `walks`
    are the merged walks that it was pruned from, `digest` is its identity. For a chain that was made by one weighted
    walk, `steps` gives the relation of each call but the first to the one before it.
    """

    nodes: tuple[BlueprintNode, ...] = Field(min_length=1, max_length=MOST_NODES)
    edges: tuple[BlueprintEdge, ...] = ()
    walks: tuple[tuple[str, ...], ...] = ()
    steps: tuple[StepKind, ...] = Field(default=(), exclude_if=lambda value: not value)
    digest: str = ""

    @model_validator(mode="after")
    def _require_forward_edges(self) -> Self:
        places = {node.id: place for place, node in enumerate(self.nodes)}
        if len(places) < len(self.nodes):
            raise ValueError("two nodes of a blueprint have the same id")
        for edge in self.edges:
            unknown = {edge.source, edge.target} - places.keys()
            if unknown:
                raise ValueError(f"an edge names the node {min(unknown)!r:.40}, which the blueprint does not have")
            if places[edge.source] >= places[edge.target]:
                raise ValueError(
                    f"the edge from {edge.source} to {edge.target} points backward: a blueprint has no cycles"
                )
        return self

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that are called, in order."""
        return tuple(node.tool for node in self.nodes if node.kind == "tool")

    def sources(self, node: str) -> tuple[str, ...]:
        """Return the nodes from which a node takes a value, in order."""
        source_ids = {edge.source for edge in self.edges if edge.target == node}
        return tuple(item.id for item in self.nodes if item.id in source_ids)

    def levels(self) -> dict[str, int]:
        """Return the length of the longest path to each node."""
        levels: dict[str, int] = {}
        for node in self.nodes:
            levels[node.id] = max((levels[source] + 1 for source in self.sources(node.id)), default=0)
        return levels
