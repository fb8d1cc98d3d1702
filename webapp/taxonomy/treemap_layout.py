"""The treemap as a drawing: the places of tiles are computed here, so that the browser only has to show them.

Places across are shares of the drawing's width, places down are pixels: the drawing is as wide as the page has room for
and always equally high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from webapp.taxonomy.models import Node
from webapp.taxonomy.treemap import MEASURES, Map, Tile

WIDE = (1200.0, 640.0)
"""Width and height for which tiles are laid out; squares become oblongs on a page of another width."""
NARROW = (360.0, 520.0)
HEAD = 22.0
"""Height of the line above the tiles of a label."""
EDGE = 3.0
LEAST_WIDTH, LEAST_HEIGHT = 56.0, 26.0
LEAST_AREA = 1_500.0
"""Smaller tiles cannot hold a name and are drawn as one."""
REST = 20.0
"""Height of the strip that represents smaller labels."""
LINE = 15.0
MOST_LINES = 4


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Drawn:
    """A tile in its place. `kind` is `outer` (a label with tiles in it), `inner`, or `rest` (several as one)."""

    kind: str
    name: str
    value: int
    rate: float | None
    band: str
    url: str
    box: Box
    canvas: tuple[float, float]

    @property
    def left(self) -> str:
        return f"{100 * self.box.left / self.canvas[0]:.3f}%"

    @property
    def width(self) -> str:
        return f"{100 * max(1.0, self.box.width) / self.canvas[0]:.3f}%"

    @property
    def top(self) -> str:
        return f"{self.box.top:.1f}"

    @property
    def height(self) -> str:
        return f"{max(1.0, self.box.height):.1f}"

    @property
    def lines(self) -> int:
        """Lines of the name that fit above its numbers; 0 if both share one line."""
        return 0 if self.kind == "outer" else max(0, min(MOST_LINES, int((self.box.height - 8) // LINE) - 1))


def squarify_boxes(values: Sequence[float], box: Box) -> list[Box]:
    """Split a box into boxes with areas in proportion to `values` (largest first), each as square as possible.

    The algorithm is that of Bruls, Huizing and van Wijk (2000).
    """
    total = sum(values)
    if total <= 0 or box.width <= 0 or box.height <= 0:
        return [Box(box.left, box.top, 0, 0) for _ in values]
    areas = [value * box.width * box.height / total for value in values]
    boxes: list[Box] = []
    start = 0
    while start < len(areas):
        side = min(box.width, box.height)
        end = start + 1
        while end < len(areas) and _compute_worst_ratio(areas[start : end + 1], side) <= _compute_worst_ratio(
            areas[start:end], side
        ):
            end += 1
        row, box = _lay_out_row(areas[start:end], box)
        boxes += row
        start = end
    return boxes


def _compute_worst_ratio(areas: Sequence[float], side: float) -> float:
    """Return the greatest ratio of the sides of the boxes in a row along a side."""
    total = sum(areas)
    if side <= 0 or total <= 0 or min(areas) <= 0:
        return float("inf")
    return max(side * side * max(areas) / total**2, total**2 / (side * side * min(areas)))


def _lay_out_row(areas: Sequence[float], box: Box) -> tuple[list[Box], Box]:
    """Return the boxes of a row along the shorter side, and the box that is left."""
    total = sum(areas)
    boxes = []
    if box.width >= box.height:
        depth, at = total / box.height if box.height > 0 else 0.0, box.top
        for area in areas:
            height = area / depth if depth > 0 else 0.0
            boxes.append(Box(box.left, at, depth, height))
            at += height
        return boxes, Box(box.left + depth, box.top, max(0.0, box.width - depth), box.height)
    depth, at = total / box.width if box.width > 0 else 0.0, box.left
    for area in areas:
        width = area / depth if depth > 0 else 0.0
        boxes.append(Box(at, box.top, width, depth))
        at += width
    return boxes, Box(box.left, box.top + depth, box.width, max(0.0, box.height - depth))


def draw_tiles(tile_map: Map, root: Node | None, canvas: tuple[float, float], levels: int = 2) -> list[Drawn]:
    """Return the tiles of a map in their places; with one level, the outer ones alone."""
    inner: dict[int, list[Tile]] = {}
    for tile in tile_map.tiles:
        if tile.parent is not None and levels > 1:
            inner.setdefault(tile.parent.pk, []).append(tile)
    outer = [tile for tile in tile_map.tiles if tile.parent is None]
    whole = getattr(root.counts, tile_map.measure) if root else 0
    drawing = Drawing(tile_map.measure, canvas)
    placed, rest = drawing.place(outer, Box(0, 0, *canvas), root, whole)
    for tile, box in placed:
        below = inner.get(tile.node.pk, [])
        room = Box(box.left + EDGE, box.top + HEAD, box.width - 2 * EDGE, box.height - HEAD - EDGE)
        deeper, remainder = drawing.place(below, room, tile.node, tile.value)
        drawing.add("outer" if deeper else "inner", tile, box)
        for inner_tile, place in deeper:
            drawing.add("inner", inner_tile, place)
        drawing.drawn += remainder if deeper else []
    return drawing.drawn + rest


class Drawing:
    """Tiles that were placed so far."""

    def __init__(self, measure: str, canvas: tuple[float, float]) -> None:
        self.measure = measure
        self.canvas = canvas
        self.drawn: list[Drawn] = []

    def add(self, kind: str, tile: Tile, box: Box) -> None:
        url = build_label_url(tile.node, self.measure)
        rate = tile.counts.pass_rate
        self.drawn.append(Drawn(kind, tile.node.name, tile.value, rate, tile.band, url, box, self.canvas))

    def place(
        self, tiles: list[Tile], box: Box, parent: Node | None, whole: int
    ) -> tuple[list[tuple[Tile, Box]], list[Drawn]]:
        """Return the tiles that can be read, with their boxes, and one tile for what else `parent` counts, if it counts
        more.

        That one is a strip below the others, whatever it counts: in proportion it would often be the largest of all.
        Without a readable tile both are empty.
        """
        shown_tiles = list(tiles)
        total = max(whole, sum(tile.value for tile in tiles))
        while shown_tiles:
            remaining = total - sum(tile.value for tile in shown_tiles)
            strip = min(REST, box.height) if remaining else 0.0
            room = Box(box.left, box.top, box.width, box.height - strip)
            boxes = squarify_boxes([tile.value for tile in shown_tiles], room)
            small = next((at for at, one in enumerate(boxes) if is_too_small(one)), None)
            if small is None:
                below = Box(box.left, box.top + room.height, box.width, strip)
                rest = [self._rest(len(tiles) - len(shown_tiles), remaining, below, parent)] if remaining else []
                return list(zip(shown_tiles, boxes, strict=True)), rest
            shown_tiles = shown_tiles[:small]
        return [], []

    def _rest(self, fewer: int, left: int, box: Box, parent: Node | None) -> Drawn:
        """Return one tile for smaller labels and for what hangs on no deeper label; it leads to the page that shows
        them."""
        name = f"{fewer:,} smaller label{'' if fewer == 1 else 's'}" if fewer else "On no deeper label"
        url = "#twin"
        if parent is not None:
            url = build_label_url(parent, self.measure) if fewer else parent.get_absolute_url()
        return Drawn("rest", name, left, None, "none", url, box, self.canvas)


def is_too_small(box: Box) -> bool:
    return box.width < LEAST_WIDTH or box.height < LEAST_HEIGHT or box.width * box.height < LEAST_AREA


def build_label_url(node: Node, measure: str) -> str:
    """Return the URL of a tile: the treemap of its label, or the label's page if it has no label below it."""
    if node.counts.children:
        return f"{reverse('taxonomy:map')}?node={node.pk}&size={measure}"
    return node.get_absolute_url()


def build_drawings(tile_map: Map, root: Node | None) -> dict[str, object]:
    """Return the context of the page's drawing: both levels for wide pages, the outer one for narrow ones."""
    return {
        "wide": draw_tiles(tile_map, root, WIDE),
        "wide_height": int(WIDE[1]),
        "narrow": draw_tiles(tile_map, root, NARROW, levels=1),
        "narrow_height": int(NARROW[1]),
        "measure": MEASURES[tile_map.measure],
    }
