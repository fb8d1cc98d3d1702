"""Random walks on a graph of tools (AF 3.2): thousands of short sequences, the same for the same seed."""

from __future__ import annotations

from random import Random

from synthesis.tool_graph.graph import ToolGraph

MOST_WALKS = 100_000
Sequence = tuple[str, ...]


def draw_walks(graph: ToolGraph, seed: int, count: int, steps: tuple[int, int]) -> dict[Sequence, int]:
    """Draw `count` walks and return how often each one was drawn, in the order of their first occurrence.

    A walk has a number of tools drawn from `steps` (both ends allowed), and fewer if no successor is left: no tool
    occurs twice in one walk (ours). Walks shorter than the lower end are left out, so fewer than `count` may be
    counted.
    """
    random = Random(seed)
    walk_counts: dict[Sequence, int] = {}
    if not graph.starts:
        return walk_counts
    for _ in range(min(count, MOST_WALKS)):
        walk = _draw_walk(graph, random, random.randint(*steps))
        if len(walk) >= steps[0]:
            walk_counts[walk] = walk_counts.get(walk, 0) + 1
    return walk_counts


def _draw_walk(graph: ToolGraph, random: Random, length: int) -> Sequence:
    walk = [random.choice(graph.starts)]
    while len(walk) < length:
        following = [name for name in graph.successors[walk[-1]] if name not in walk]
        if not following:
            break
        walk.append(random.choice(following))
    return tuple(walk)
