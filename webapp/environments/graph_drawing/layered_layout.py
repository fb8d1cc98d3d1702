"""Layered layout of a directed graph: nodes on levels, with few crossings (Sugiyama's method), deterministic.

Nodes and links are numbers. A link over several levels is routed through a narrow place on each level between. Links
that would close a cycle are drawn upward.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Link = tuple[int, int]
SWEEPS = 12
NARROW = 0.2
"""How wide the place of a link on a level is, in widths of a node."""


@dataclass(frozen=True)
class Layout:
    """A layout. `levels` and `places` (in widths of a node, from 0) are by node; `between` has by link the places on
    the levels between its ends, from the upper one down. `upward` are the links that point to a higher level."""

    levels: tuple[int, ...]
    places: tuple[float, ...]
    between: Mapping[Link, tuple[float, ...]]
    upward: frozenset[Link]


def lay_out_nodes(count: int, links: Sequence[Link], levels: Sequence[int] | None = None, widest: int = 8) -> Layout:
    """Lay out nodes 0 to `count` - 1. `links` are distinct and connect different nodes.

    With `levels` each link must point to a later level. Without them they are computed, with at most `widest` nodes on
    each.
    """
    upward = frozenset() if levels is not None else _find_backward(count, links)
    downward = [(target, source) if (source, target) in upward else (source, target) for source, target in links]
    own = list(levels) if levels is not None else _choose_levels(count, downward, widest)
    rows, parts, routes = _route_links(own, downward)
    widths = [1.0 if node < count else NARROW for node in range(len(parts))]
    _order_levels(rows, parts)
    places = _place_nodes(rows, parts, widths)
    least = min(places, default=0.0)
    between = {link: tuple(places[node] - least for node in route) for link, route in zip(links, routes, strict=True)}
    return Layout(tuple(own), tuple(place - least for place in places[:count]), between, upward)


def _find_backward(count: int, links: Sequence[Link]) -> frozenset[Link]:
    """Return links that close cycles: those that point backward in an order made greedily from sources and sinks."""
    following: list[set[int]] = [set() for _ in range(count)]
    preceding: list[set[int]] = [set() for _ in range(count)]
    for source, target in links:
        following[source].add(target)
        preceding[target].add(source)
    left, first, last = dict.fromkeys(range(count)), list[int](), list[int]()
    while left:
        sink = next((node for node in left if not following[node]), None)
        start = next((node for node in left if not preceding[node]), None)
        node = sink if sink is not None else start
        if node is None:
            node = max(left, key=lambda item: len(following[item]) - len(preceding[item]))
        (last if node == sink else first).append(node)
        del left[node]
        for other in following[node]:
            preceding[other].discard(node)
        for other in preceding[node]:
            following[other].discard(node)
    rank = {node: place for place, node in enumerate([*first, *reversed(last)])}
    return frozenset((source, target) for source, target in links if rank[source] > rank[target])


def _choose_levels(count: int, links: Sequence[Link], widest: int) -> list[int]:
    """Return for each node the first level below all its predecessors that has room."""
    preceding: list[set[int]] = [set() for _ in range(count)]
    following: list[set[int]] = [set() for _ in range(count)]
    for source, target in links:
        preceding[target].add(source)
        following[source].add(target)
    waiting = [len(nodes) for nodes in preceding]
    ready = [node for node in range(count) if not waiting[node]]
    levels, level_counts = [0] * count, dict[int, int]()
    while ready:
        node = ready.pop(0)
        level = max((levels[other] + 1 for other in preceding[node]), default=0)
        while level_counts.get(level, 0) >= widest:
            level += 1
        levels[node] = level
        level_counts[level] = level_counts.get(level, 0) + 1
        for other in sorted(following[node]):
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return levels


def _route_links(levels: list[int], links: Sequence[Link]) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Return the nodes by level, their neighbours on the level below, and the nodes that each link passes through,
    which are additional nodes."""
    rows: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
    for node, level in enumerate(levels):
        rows[level].append(node)
    below: list[list[int]] = [[] for _ in levels]
    routes = []
    for source, target in links:
        route, at = list[int](), source
        for level in range(levels[source] + 1, levels[target]):
            node = len(below)
            below.append([])
            below[at].append(node)
            rows[level].append(node)
            route.append(node)
            at = node
        below[at].append(target)
        routes.append(route)
    return rows, below, routes


def _order_levels(rows: list[list[int]], below: list[list[int]]) -> None:
    """Order each level by the mean position of its neighbours, down and up in turns, and keep the order with the fewest
    crossings."""
    above = _invert_neighbours(below)
    best, least = [list(row) for row in rows], _count_crossings(rows, below)
    for sweep in range(SWEEPS):
        if not least:
            break
        steps = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for level in steps:
            fixed = {node: place for place, node in enumerate(rows[level - 1 if sweep % 2 == 0 else level + 1])}
            neighbours = above if sweep % 2 == 0 else below
            own = {node: float(place) for place, node in enumerate(rows[level])}
            middles = {
                node: sum(fixed[other] for other in neighbours[node]) / len(neighbours[node])
                if neighbours[node]
                else own[node]
                for node in rows[level]
            }
            rows[level].sort(key=lambda node: (middles[node], own[node]))
        crossings = _count_crossings(rows, below)
        if crossings < least:
            best, least = [list(row) for row in rows], crossings
    rows[:] = best


def _invert_neighbours(below: list[list[int]]) -> list[list[int]]:
    above: list[list[int]] = [[] for _ in below]
    for node, others in enumerate(below):
        for other in others:
            above[other].append(node)
    return above


def _count_crossings(rows: list[list[int]], below: list[list[int]]) -> int:
    crossings = 0
    for level in range(len(rows) - 1):
        place = {node: number for number, node in enumerate(rows[level + 1])}
        sorted_ends: list[int] = []
        for node in rows[level]:
            ends = sorted(place[other] for other in below[node])
            crossings += sum(len(sorted_ends) - bisect_right(sorted_ends, end) for end in ends)
            for end in ends:
                insort(sorted_ends, end)
    return crossings


def _place_nodes(rows: list[list[int]], below: list[list[int]], widths: list[float]) -> list[float]:
    """Return the center of each node: as near to its neighbours' as the order and the widths of its level allow."""
    above = _invert_neighbours(below)
    places = [0.0] * len(widths)
    for row in rows:
        _settle_level(row, dict.fromkeys(row, 0.0), places, widths)
    for sweep in range(SWEEPS):
        for level in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            neighbours = above if sweep % 2 == 0 else below
            wanted_places = {}
            for node in rows[level]:
                near = neighbours[node] or [*above[node], *below[node]]
                wanted_places[node] = sum(places[other] for other in near) / len(near) if near else places[node]
            _settle_level(rows[level], wanted_places, places, widths)
    return places


def _settle_level(row: list[int], wanted: Mapping[int, float], places: list[float], widths: list[float]) -> None:
    """Place a level's nodes at the positions in order that are nearest to `wanted` by least squares."""
    offsets, at = list[float](), 0.0
    for number, node in enumerate(row):
        at += (widths[row[number - 1]] + widths[node]) / 2 if number else 0.0
        offsets.append(at)
    blocks: list[tuple[float, int]] = []
    for node, offset in zip(row, offsets, strict=True):
        total, size = wanted[node] - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / size:
            before = blocks.pop()
            total, size = total + before[0], size + before[1]
        blocks.append((total, size))
    settled = [total / size for total, size in blocks for _ in range(size)]
    for node, offset, base in zip(row, offsets, settled, strict=True):
        places[node] = base + offset
