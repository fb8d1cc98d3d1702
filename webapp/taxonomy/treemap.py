"""The treemap's tiles: two levels of the tree by one measure, and the table with the same in rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import wrap

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from webapp.common.templatetags.show import HIDDEN
from webapp.taxonomy.models import Node, NodeCounts
from webapp.taxonomy.queries import nodes_with_counts

MEASURES = {
    "themes": "themes",
    "environments": "environments",
    "tools": "tools",
    "tasks": "tasks",
    "trajectories": "trajectories",
}
SORTS = ("name", *MEASURES, "pass_rate")
OUTER_UP_TO = 100
INNER_UP_TO = 30
LABEL = 60
BANDS = {
    "low": "pass rate below 25 %",
    "middle": "25 to 75 %",
    "high": "above 75 %",
    "none": "no attempt with a reward yet",
}
"""What the colours of tiles mean, in words; the tiles say their pass rate in digits too."""
TAG = re.compile(r"</?[A-Za-z!][^<>]*>?")


@dataclass(frozen=True)
class Column:
    """A head of the table: the order that a click on it requests, and the table's order by it now, if any."""

    name: str
    turned: str
    order: str = ""
    """`ascending`, `descending` or nothing."""

    @property
    def label(self) -> str:
        words = {"name": "Label", "pass_rate": "Pass rate"}
        return words.get(self.name, self.name.capitalize())


def build_columns(sort: str) -> list[Column]:
    """Return the columns of a table that is sorted by `sort`. A click on that column reverses the order."""
    headings = []
    for name in SORTS:
        if sort.lstrip("-") != name:
            headings.append(Column(name, name if name == "name" else f"-{name}"))
        elif sort.startswith("-"):
            headings.append(Column(name, name, "descending"))
        else:
            headings.append(Column(name, f"-{name}", "ascending"))
    return headings


@dataclass(frozen=True)
class Tile:
    """A node as a tile and as a row. `parent` is the tile around it, None for the outer ones."""

    node: Node
    parent: Node | None
    value: int

    @property
    def counts(self) -> NodeCounts:
        return self.node.counts

    @property
    def values(self) -> list[str]:
        """The columns of its row, in the order of `MEASURES`."""
        return [f"{getattr(self.counts, name):,}" for name in MEASURES]

    @property
    def band(self) -> str:
        """The band of `BANDS` that its pass rate is in."""
        rate = self.counts.pass_rate
        if rate is None:
            return "none"
        return "low" if rate < 0.25 else "high" if rate > 0.75 else "middle"


@dataclass(frozen=True)
class Map:
    """The tiles of a map. `left_out`: inner labels that are too many to be drawn, and so are in neither map nor
    table."""

    tiles: list[Tile]
    measure: str
    left_out: int = 0


def load_tiles(root: Node | None, measure: str) -> Map:
    """Return the largest labels below `root` and the largest below those, in two queries. Labels of nothing are left
    out."""
    column = f"counts__{measure}"
    outer = nodes_with_counts().filter(parent=root, **{f"{column}__gt": 0}).order_by(f"-{column}", "path")
    all_tiles = [Tile(node, None, getattr(node.counts, measure)) for node in outer[:OUTER_UP_TO]]
    around = {tile.node.pk: tile.node for tile in all_tiles}
    ranked = Window(RowNumber(), partition_by=F("parent"), order_by=[F(column).desc(), F("path").asc()])
    inner = nodes_with_counts().filter(parent__in=around, **{f"{column}__gt": 0}).annotate(rank=ranked)
    rows = list(inner.filter(rank__lte=INNER_UP_TO).order_by("parent_id", "rank"))
    all_tiles += [Tile(node, around[node.parent_id or 0], getattr(node.counts, measure)) for node in rows]
    all_inner = sum(node.counts.children for node in around.values())
    return Map(all_tiles, measure, max(0, all_inner - len(rows)))


def choose_default_measure(totals: dict[str, int]) -> str:
    """Return themes if there are some: they are many long before environments are."""
    return next((name for name in MEASURES if totals.get(name)), "themes")


def sort_tiles(rows: list[Tile], sort: str) -> list[Tile]:
    """Sort the rows by one column, `-` for downwards; tiles without a pass rate come last both ways."""
    name, downwards = sort.lstrip("-"), sort.startswith("-")
    if name == "name":
        return sorted(rows, key=lambda tile: tile.node.path.rpartition("\u203a")[2].strip(), reverse=downwards)

    def build_sort_key(tile: Tile) -> tuple[bool, float]:
        value = getattr(tile.counts, name)
        return value is None, -(value or 0) if downwards else (value or 0)

    return sorted(rows, key=build_sort_key)


def format_drawn_label(name: str, width: int = LABEL) -> str:
    """Return a label as plotly draws it, in lines of `width`: it reads a subset of HTML and entities, so none of the
    name's own is left, and line breaks are the only markup."""
    text = HIDDEN.sub(" ", TAG.sub(" ", name)).replace("<", "\u2039").replace(">", "\u203a")
    text = " ".join(text.split()) or "(no name)"
    lines = wrap(text if len(text) <= LABEL else text[: LABEL - 1] + "…", width, break_long_words=False)
    return "<br>".join(line.replace("&", "&amp;") for line in lines)
