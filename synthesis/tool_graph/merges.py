"""Merging of pairs of walks (AF 3.2): one sequence of tools with several requirements in it.

Pairs are drawn at random among different walks (ours). A merge whose graph is isomorphic to that of an earlier one is
dropped before any model is asked. A model decides which tools of a merge are redundant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from random import Random

from synthesis.contracts import Frozen
from synthesis.tool_graph.canonical import hash_blueprint
from synthesis.tool_graph.dag import build_blueprint
from synthesis.tool_graph.graph import ToolGraph

DRAWS_A_MERGE = 20
"""So many pairs are drawn for each merge that is wanted before too few is enough (ours)."""


class Merge(Frozen):
    """Two walks, and the sequence that they were merged into."""

    walks: tuple[tuple[str, ...], tuple[str, ...]]
    tools: tuple[str, ...]


class Merges:
    """Merges of a graph's walks, drawn one after another. `duplicates` counts the dropped repetitions of earlier
    ones.
    """

    def __init__(self, graph: ToolGraph, walks: Collection[tuple[str, ...]], seed: int, most_tools: int) -> None:
        self._graph = graph
        self._walks = list(walks)
        self._random = Random(seed)
        self._most_tools = most_tools
        self._known: set[str] = set()
        self._changes = {name for name, kind in graph.kinds.items() if kind == "change"}
        self.duplicates = 0

    def draw(self, count: int) -> list[Merge]:
        """Draw up to `count` further merges, no two of them alike. If some tools of the graph change the state, each
        merge contains one that does, since a task is judged by its final state.
        """
        drawn_merges: list[Merge] = []
        for merge in self._try_pairs(count * DRAWS_A_MERGE):
            if self._changes and self._changes.isdisjoint(merge.tools):
                continue
            digest = hash_blueprint(build_blueprint(self._graph, merge.tools))
            if digest in self._known:
                self.duplicates += 1
                continue
            self._known.add(digest)
            drawn_merges.append(merge)
            if len(drawn_merges) == count:
                break
        return drawn_merges

    def _try_pairs(self, draws: int) -> Iterator[Merge]:
        if len(self._walks) < 2:
            return
        for _ in range(draws):
            first, second = self._random.sample(self._walks, 2)
            tools = merge_walks(first, second)
            if len(tools) <= self._most_tools:
                yield Merge(walks=(first, second), tools=tools)


def merge_walks(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Return one walk after the other; an end of the first that the second begins with occurs once."""
    longest = min(len(first), len(second))
    shared = next((size for size in range(longest, 0, -1) if tuple(first[-size:]) == tuple(second[:size])), 0)
    return (*first, *second[shared:])


def is_pruned_from(tools: Sequence[str], merged: Sequence[str]) -> bool:
    """Return whether a sequence is another one with tools removed, the order kept."""
    left = iter(merged)
    return all(tool in left for tool in tools)
