"""Random walks on a graph of tools (AF 3.2): thousands of short sequences, the same for the same seed."""

from __future__ import annotations

from random import Random

from synthesis.tool_graph.graph import ToolGraph

MOST_WALKS = 100_000
Sequence = tuple[str, ...]


def draw_walks(graph: ToolGraph, seed: int, count: int, steps: tuple[int, int]) -> dict[Sequence, int]:
    """Draw `count` walks and return how often each one came, in the order in which they first came.

    A walk has a number of tools drawn from `steps` (both ends allowed), and fewer where no successor is left: no tool
    comes twice in one walk (ours). Shorter ones than the lower end are left out, so fewer than `count` may be counted.
    """
    random = Random(seed)
    drawn: dict[Sequence, int] = {}
    if not graph.starts:
        return drawn
    for _ in range(min(count, MOST_WALKS)):
        walk = _draw_walk(graph, random, random.randint(*steps))
        if len(walk) >= steps[0]:
            drawn[walk] = drawn.get(walk, 0) + 1
    return drawn


def _draw_walk(graph: ToolGraph, random: Random, length: int) -> Sequence:
    walk = [random.choice(graph.starts)]
    while len(walk) < length:
        following = [name for name in graph.successors[walk[-1]] if name not in walk]
        if not following:
            break
        walk.append(random.choice(following))
    return tuple(walk)
