"""Shapes of a laid out graph, in pixels: boxes of nodes, paths and words of links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from webapp.common.templatetags.show import cut, plain
from webapp.environments.graph_drawing.layered_layout import Layout, Link, lay_out_nodes

LETTER, SMALL_LETTER = 7.6, 6.7
"""How wide a letter of a node and of a link is drawn, in pixels, at most."""
LEAST_WIDTH, MOST_WIDTH, HEIGHT = 96, 230, 30
GAP, PITCH = 26, 82
"""Between nodes side by side, and from level to level."""
MARGIN, RULER = 8, 24
WORD_ROWS, WORD_HEIGHT, WORD_CHARS = 4, 11, 24
BESIDE = 5
"""Distance between a link and its words."""
PORTS = 0.7
"""The share of a node's edge over which links that end there are spread."""
MOST_NODES, MOST_LINKS = 60, 160
"""A larger graph is not drawn: it would be unreadable, and would take seconds."""

Point = tuple[float, float]
Word = tuple[float, float, float]
"""Left and right end and height of words."""


@dataclass(frozen=True)
class GraphNode:
    """A node, drawn as a box: `kind` and `state` (`on`, `dim`) are its CSS classes, `href` is the target of its
    link."""

    key: str
    label: str
    kind: str = ""
    number: str = ""
    href: str = ""
    state: str = ""
    title: str = ""


@dataclass(frozen=True)
class GraphLink:
    """A link, drawn as an arrow between two nodes, given by their numbers, with `words` beside its end."""

    source: int
    target: int
    words: str = ""
    kind: str = ""
    state: str = ""
    title: str = ""


@dataclass(frozen=True)
class NodeShape:
    """A node with its position; `label` is cut to the width."""

    node: GraphNode
    label: str
    x: float
    y: float
    width: int

    @property
    def left(self) -> float:
        """The left edge of the node; `x` is its center."""
        return round(self.x - self.width / 2, 1)

    @property
    def middle(self) -> tuple[float, float]:
        """The position of the node's text."""
        return round(self.x, 1), round(self.y + HEIGHT / 2 + 4, 1)


@dataclass(frozen=True)
class LinkShape:
    """A link with its path, and the position of its words."""

    link: GraphLink
    path: str
    words: str = ""
    x: float = 0.0
    y: float = 0.0


@dataclass(frozen=True)
class Drawing:
    """All shapes of a graph; `box` is the width and height of a node, `ruler` the levels with their vertical
    positions."""

    width: int
    height: int
    box: tuple[int, int]
    nodes: tuple[NodeShape, ...]
    links: tuple[LinkShape, ...]
    ruler: tuple[tuple[int, float], ...] = ()


def draw_graph(
    nodes: Sequence[GraphNode], links: Sequence[GraphLink], levels: Sequence[int] | None = None, widest: int = 8
) -> Drawing | None:
    """Return the drawing of a graph; None if it is empty or too large to read. Two nodes have at most one link each
    way.

    With `levels` (by node) there is a ruler that names them.
    """
    if not nodes or len(nodes) > MOST_NODES or len(links) > MOST_LINKS:
        return None
    pairs = [(link.source, link.target) for link in links]
    layout = lay_out_nodes(len(nodes), pairs, levels, widest)
    longest = max(len(plain(node.label)) + len(node.number) + (1 if node.number else 0) for node in nodes)
    width = ceil(min(MOST_WIDTH, max(LEAST_WIDTH, longest * LETTER + 20)))
    canvas = _Canvas(layout, width, MARGIN + (RULER if levels is not None else 0))
    shapes = tuple(
        NodeShape(node, _fit_label(node, int((width - 20) / LETTER)), canvas.x(number), canvas.y(number), width)
        for number, node in enumerate(nodes)
    )
    named = sorted(set(layout.levels)) if levels is not None else ()
    return Drawing(
        width=int(canvas.width + MARGIN),
        height=int(canvas.top(max(layout.levels)) + HEIGHT + MARGIN),
        box=(width, HEIGHT),
        nodes=shapes,
        links=tuple(_draw_links(canvas, links)),
        ruler=tuple((level, canvas.top(level) + HEIGHT / 2 + 4) for level in named),
    )


def _fit_label(node: GraphNode, room: int) -> str:
    """Return the label, cut to `room` letters including the number before it."""
    return cut(plain(node.label), max(3, room - len(node.number) - (1 if node.number else 0)))


class _Canvas:
    """Conversion of a layout to pixels."""

    def __init__(self, layout: Layout, box: int, left: int) -> None:
        self.layout, self.box, self.left = layout, box, left + box / 2
        self.unit = box + GAP
        routed = [place for route in layout.between.values() for place in route]
        self.width = self.left + max([*layout.places, *routed], default=0.0) * self.unit + box / 2

    def place(self, place: float) -> float:
        return self.left + place * self.unit

    def x(self, node: int) -> float:
        """Return the horizontal center of a node."""
        return self.place(self.layout.places[node])

    def y(self, node: int) -> float:
        """Return the upper edge of a node."""
        return self.top(self.layout.levels[node])

    def top(self, level: int) -> float:
        return MARGIN + level * PITCH


def _draw_links(canvas: _Canvas, links: Sequence[GraphLink]) -> Iterator[LinkShape]:
    """Yield each link from the lower edge of its upper node, through its places between, to the upper edge of its lower
    node."""
    lanes = {(link.source, link.target): _order_ends(canvas, link) for link in links}
    starts = _spread_ports(canvas, lanes, upper=True)
    ends = _spread_ports(canvas, lanes, upper=False)
    taken_places: dict[int, list[Word]] = {}
    for link in links:
        pair = link.source, link.target
        upper, lower = lanes[pair]
        points = [(starts[pair], canvas.y(upper) + HEIGHT)]
        for number, place in enumerate(canvas.layout.between[pair], 1):
            top = canvas.top(canvas.layout.levels[upper] + number)
            points += [(canvas.place(place), top), (canvas.place(place), top + HEIGHT)]
        points.append((ends[pair], canvas.y(lower)))
        is_upward = pair in canvas.layout.upward
        yield _place_words(link, points, is_upward, taken_places)


def _order_ends(canvas: _Canvas, link: GraphLink) -> Link:
    """Return the upper and the lower node of a link."""
    pair = link.source, link.target
    return (link.target, link.source) if pair in canvas.layout.upward else pair


def _spread_ports(canvas: _Canvas, lanes: dict[Link, Link], *, upper: bool) -> dict[Link, float]:
    """Return the x position at which each link meets the edge of a node: side by side, in the order of their other
    ends."""
    by_node: dict[int, list[tuple[float, Link]]] = {}
    for pair, (above, below) in lanes.items():
        route = [canvas.place(place) for place in canvas.layout.between[pair]]
        if upper:
            by_node.setdefault(above, []).append((route[0] if route else canvas.x(below), pair))
        else:
            by_node.setdefault(below, []).append((route[-1] if route else canvas.x(above), pair))
    port_positions = {}
    for node, meeting in by_node.items():
        meeting.sort()
        for number, (_, pair) in enumerate(meeting):
            share = (number + 0.5) / len(meeting) - 0.5
            port_positions[pair] = canvas.x(node) + share * PORTS * canvas.box
    return port_positions


def _place_words(link: GraphLink, points: list[Point], is_upward: bool, taken: dict[int, list[Word]]) -> LinkShape:
    """Return the path of a link with its words near its end, in the first free row there."""
    path = _format_path(points[::-1] if is_upward else points)
    words = cut(plain(link.words), WORD_CHARS)
    if not words:
        return LinkShape(link, path)
    (x0, y0), (x1, y1) = points[:2] if is_upward else points[-2:]
    gap = round(y0)
    width = len(words) * SMALL_LETTER
    for row in range(WORD_ROWS):
        distance = 10 + row * WORD_HEIGHT
        y = y0 + distance if is_upward else y1 - distance + 3
        x = _compute_curve_x(x0, x1, (y - y0) / (y1 - y0))
        if not any(
            abs(y - other) < WORD_HEIGHT and start < x + width + BESIDE and x < end
            for start, end, other in taken.get(gap, [])
        ):
            break
    taken.setdefault(gap, []).append((x, x + width + 2 * BESIDE, y))
    return LinkShape(link, path, words, round(x + BESIDE, 1), round(y, 1))


def _compute_curve_x(x0: float, x1: float, height: float) -> float:
    """Return the x position of a link's curve at a share of its height; `_format_path` draws the same curve."""
    low, high = 0.0, 1.0
    for _ in range(12):
        t = (low + high) / 2
        reached = 1.5 * t * (1 - t) ** 2 + 1.5 * t**2 * (1 - t) + t**3
        low, high = (t, high) if reached < height else (low, t)
    share = 3 * low**2 - 2 * low**3
    return x0 + (x1 - x0) * share


def _format_path(points: Sequence[Point]) -> str:
    """Return the SVG path through the points: vertical at each point, with curves between."""
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        parts.append(
            f"V{y1:.1f}" if abs(x0 - x1) < 0.05 else f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
        )
    return "".join(parts)
