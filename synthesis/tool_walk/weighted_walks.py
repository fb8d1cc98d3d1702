"""Random walks by the weights of edges (AW 3.1.1): strong 3, weak 2, independent 1. The same seed gives the same walk.

The graph is connected without stored edges for it: two tools without an edge are independent, and a walk may go between
them in both directions. A strong edge is only walked in its direction.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from synthesis.contracts import StepKind
from synthesis.tool_graph.graph import ToolGraph
from synthesis.variant_settings import WalkSettings

WEIGHTS: dict[StepKind, float] = {"strong": 3.0, "weak": 2.0, "independent": 1.0}
"""Published, 3.1.1."""


def draw_walk(graph: ToolGraph, random: Random, numbers: WalkSettings) -> tuple[str, ...]:
    """Draw a walk of the most steps. It is shorter if no successor is left, and empty if no tool gives anything.

    A tool never follows itself, and occurs at most `visits` times.
    """
    starts = find_starts(graph)
    if not starts:
        return ()
    walk = [random.choice(starts)]
    while len(walk) < numbers.most_steps:
        visit_counts = Counter(walk)
        weights = {
            name: weight
            for name, weight in weigh_successors(graph, walk[-1], numbers).items()
            if visit_counts[name] < numbers.visits
        }
        if not weights:
            break
        walk.append(random.choices(list(weights), list(weights.values()))[0])
    return tuple(walk)


def find_starts(graph: ToolGraph) -> tuple[str, ...]:
    """Return the starting tools of walks: those that give something and take nothing strictly from another; if there
    are none, any that give something (ours). Queries give something, and tools with an edge to another.
    """
    fed = {edge.source for edge in graph.edges}
    giving = tuple(tool.name for tool in graph.tools if tool.kind == "query" or tool.name in fed)
    return tuple(name for name in giving if name not in graph.producers) or giving


def weigh_successors(graph: ToolGraph, source: str, numbers: WalkSettings) -> dict[str, float]:
    """Return by tool that may follow `source` the weight of the step to it, in the order of the tools."""
    factors: dict[StepKind, float] = {
        "strong": 1.0,
        "weak": numbers.weak_factor,
        "independent": numbers.independent_factor,
    }
    weights: dict[str, float] = {}
    for tool in graph.tools:
        kind = classify_step(graph, source, tool.name)
        backward = kind == "independent" and source in graph.successors[tool.name]
        weight = 0.0 if backward or tool.name == source else WEIGHTS[kind] * factors[kind]
        if weight > 0:
            weights[tool.name] = weight
    return weights


def classify_step(graph: ToolGraph, source: str, target: str) -> StepKind:
    """Return how one call follows another. Against a strong edge no value is passed: such a step is independent."""
    if target in graph.successors[source]:
        return "strong"
    pair = {source, target}
    weak = any(edge.kind == "weak" and {edge.source, edge.target} == pair for edge in graph.edges)
    return "weak" if weak and len(pair) == 2 else "independent"
