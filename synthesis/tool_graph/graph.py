"""Dependency graph of an environment's tools (AF 3.2): an edge if a tool's output may be another's input."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from pydantic import Field

from synthesis.contracts import Frozen, GraphEdge, ToolKind

MOST_TOOLS = 200


class GraphTool(Frozen):
    """A node: a tool with the names of its parameters."""

    name: str
    kind: ToolKind = "query"
    parameters: tuple[str, ...] = ()


class ToolGraph(Frozen):
    """The tools of an environment and the edges between them, as judged by a model, one source at a time.

    `graded` is whether weak edges were requested; without it only strong ones are known.
    """

    tools: tuple[GraphTool, ...] = Field(max_length=MOST_TOOLS)
    edges: tuple[GraphEdge, ...] = ()
    graded: bool = False

    @functools.cached_property
    def strong(self) -> tuple[GraphEdge, ...]:
        """Edges along which values are passed."""
        return tuple(edge for edge in self.edges if edge.kind == "strong")

    @functools.cached_property
    def kinds(self) -> Mapping[str, ToolKind]:
        """Kind of each tool by name: whether it changes the state."""
        return {tool.name: tool.kind for tool in self.tools}

    @functools.cached_property
    def successors(self) -> Mapping[str, tuple[str, ...]]:
        """By tool, those that may take its output, in the order of the tools."""
        order = {tool.name: place for place, tool in enumerate(self.tools)}
        found: dict[str, set[str]] = {name: set() for name in order}
        for edge in self.strong:
            found[edge.source].add(edge.target)
        return {name: tuple(sorted(targets, key=order.__getitem__)) for name, targets in found.items()}

    @functools.cached_property
    def producers(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """By tool, the (parameter, source) pairs of the strong edges into it, sorted."""
        found: dict[str, set[tuple[str, str]]] = {}
        for edge in self.strong:
            found.setdefault(edge.target, set()).add((edge.parameter, edge.source))
        return {name: tuple(sorted(pairs)) for name, pairs in found.items()}

    @functools.cached_property
    def starts(self) -> tuple[str, ...]:
        """Starting tools of walks: those that take nothing from another and give something; if there are none, any that
        give something (ours).
        """
        giving = [tool.name for tool in self.tools if self.successors[tool.name]]
        free = [name for name in giving if name not in self.producers]
        return tuple(free or giving)
