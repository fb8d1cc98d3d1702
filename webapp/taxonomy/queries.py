"""Reads of the tree: the open levels only, with their counts, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import NullIf, RowNumber
from django.http import QueryDict

from webapp.common.lists.columns import Column, RowList
from webapp.common.query_params import Params
from webapp.common.templatetags.show import percent, plain
from webapp.taxonomy.labels import FIRST_LEVEL, KNOWN, SEPARATOR, fold_name
from webapp.taxonomy.models import SPECIFIED, Node, NodeCounts, Origin, Theme, ThemeTool

SHOWN = 200
"""Nodes of one parent that are shown at once; the rest is a link away."""
OPEN_UP_TO = 60
FOUND_UP_TO = 200
ORDER = ("position", "path")
PASS_RATE = F("counts__solved") * 1.0 / NullIf(F("counts__scored"), 0)
SIBLING_ORDERS: dict[str, tuple[Any, ...]] = {
    "name": ORDER,
    "-name": ("position", "-path"),
    **{
        f"{sign}{name}": (f"{sign}counts__{name}", *ORDER)
        for name in ("environments", "themes", "tasks")
        for sign in ("", "-")
    },
    "rate": (PASS_RATE.asc(nulls_last=True), *ORDER),
    "-rate": (PASS_RATE.desc(nulls_last=True), *ORDER),
}
"""Orders of the labels below each one: the order of the tree, then by the counts of its columns."""
TREE = RowList(
    "tree",
    "Taxonomy",
    (
        Column("name", "Label", ascending="name", descending="-name", needed=True),
        *(
            Column(name, label, ascending=name, descending=f"-{name}", numeric=True)
            for name, label in (("environments", "Environments"), ("themes", "Themes"), ("tasks", "Tasks (audit)"))
        ),
        Column("rate", "Pass rate", ascending="rate", descending="-rate", numeric=True),
    ),
    default_order="name",
    order_parameter="sort",
)


@dataclass
class Branch:
    """A node of the tree as it is shown: its place among its siblings, and its children if it is open."""

    node: Node
    place: int
    size: int
    is_open: bool = False
    hit: bool = False
    nodes: list[Branch] = field(default_factory=list)
    toggle: str = ""
    """Target of a click that opens or closes it without a script."""
    rest: int = 0
    """Children that are not among `nodes`."""

    @property
    def counts(self) -> NodeCounts:
        return self.node.counts

    @property
    def said(self) -> str:
        """The text that a screen reader speaks for the row."""
        counts = self.counts
        numbers = {"environment": counts.environments, "theme": counts.themes, "task": counts.tasks}
        parts = [f"{number:,} {word}{'' if number == 1 else 's'}" for word, number in numbers.items()]
        if counts.tasks:
            parts += [f"{counts.green:,} green", f"{counts.red:,} red"]
        rate = percent(counts.pass_rate) if counts.scored > 0 else "not known"
        return f"{plain(self.node.name)}: {', '.join(parts)}, pass rate {rate}"


def nodes_with_counts() -> QuerySet[Node]:
    return Node.objects.select_related("counts")


def list_siblings(parent: int | None, order: str = "name") -> QuerySet[Node]:
    return nodes_with_counts().filter(parent=parent).order_by(*SIBLING_ORDERS[order])


def filter_nodes(text: str, parent: int | None, level: int | None) -> QuerySet[Node]:
    """Return nodes by part of their name, their parent or their level."""
    rows = nodes_with_counts()
    if text:
        rows = rows.filter(name__icontains=text)
    if parent is not None:
        rows = rows.filter(parent=parent)
    return rows.filter(level=level) if level is not None else rows


def load_children(parents: Iterable[int], shown: int = SHOWN, order: str = "name") -> dict[int, list[Node]]:
    """Return the first children of several nodes, by parent, in one query."""
    ranked = Window(RowNumber(), partition_by=F("parent"), order_by=SIBLING_ORDERS[order])
    rows = nodes_with_counts().filter(parent__in=list(parents)).annotate(rank=ranked).filter(rank__lte=shown)
    children: dict[int, list[Node]] = {}
    for node in rows.order_by("parent_id", "rank"):
        children.setdefault(node.parent_id or 0, []).append(node)
    return children


def build_tree(opened: Sequence[int], start: int = 0, order: str = "name") -> tuple[list[Branch], bool]:
    """Return the first level from `start` on and what is open below it; the second value says whether there is more."""
    top = list(list_siblings(None, order)[start : start + SHOWN + 1])
    children = load_children(opened, order=order) if opened else {}
    return build_branches(top[:SHOWN], set(opened), children, start + len(top), start), len(top) > SHOWN


def build_branches(
    nodes: Sequence[Node], opened: set[int], children: dict[int, list[Node]], size: int = 0, start: int = 0
) -> list[Branch]:
    """Return nodes of one parent as branches. `size` is how many siblings there are, if more than these."""
    result = []
    for place, node in enumerate(nodes, start + 1):
        is_open = node.pk in opened and node.counts.children > 0
        branch = Branch(node, place, max(size, len(nodes)), is_open)
        if is_open:
            inner = children.get(node.pk, [])
            branch.nodes = build_branches(inner, opened, children, node.counts.children)
            branch.rest = max(0, node.counts.children - len(inner))
        result.append(branch)
    return result


def search_tree(text: str) -> tuple[list[Branch], list[Node]]:
    """Return nodes whose name holds `text` (of siblings the one of that very name first), each below its ancestors,
    and those that matched (`FOUND_UP_TO` at most)."""
    hits = list(filter_nodes(text, None, None).order_by("level", *ORDER)[:FOUND_UP_TO])
    nodes_by_pk = {node.pk: node for node in hits}
    for _ in range(2):
        missing = {node.parent_id for node in nodes_by_pk.values() if node.parent_id} - nodes_by_pk.keys()
        if missing:
            nodes_by_pk.update({node.pk: node for node in nodes_with_counts().filter(pk__in=missing)})
    children: dict[int, list[Node]] = {}
    same = fold_name(text)
    for node in sorted(nodes_by_pk.values(), key=lambda node: (fold_name(node.name) != same, node.position, node.path)):
        children.setdefault(node.parent_id or 0, []).append(node)
    roots = _build_hit_branches(children.get(0, []), children, {node.pk for node in hits})
    return roots, hits


def _build_hit_branches(nodes: list[Node], children: dict[int, list[Node]], hits: set[int]) -> list[Branch]:
    result = []
    for place, node in enumerate(nodes, 1):
        inner = _build_hit_branches(children.get(node.pk, []), children, hits)
        result.append(Branch(node, place, len(nodes), bool(inner), node.pk in hits, inner))
    return result


def first_level_names() -> list[str]:
    """Return the labels of the first level that exist, then those of the known list that do not yet."""
    names = list(Node.objects.filter(parent=None).order_by(*ORDER).values_list("name", flat=True))
    present = {fold_name(name) for name in names}
    return names + [name for name in FIRST_LEVEL if fold_name(name) not in present]


def is_first_level(category: str) -> bool:
    """Return whether a category is a label of the first level, or one of the known list or its other words."""
    return fold_name(category) in KNOWN or Node.objects.filter(path=fold_name(category), parent=None).exists()


def list_ancestors(node: Node) -> list[Node]:
    """Return the nodes from the first level down to the parent, in one query."""
    parts = node.path.split(SEPARATOR)
    paths = [SEPARATOR.join(parts[:depth]) for depth in range(1, len(parts))]
    return list(Node.objects.filter(path__in=paths).order_by("level")) if paths else []


THEME_SORTS = {
    "new": ("-id", "newest first"),
    "old": ("id", "oldest first"),
    "name": ("name", "name"),
    "tools": ("-tool_count", "most tools"),
    "usage": ("-usage", "most used"),
}
THEMES = RowList(
    "themes",
    "Themes",
    (
        Column("name", "Theme", ascending="name", needed=True),
        Column("node", "Hangs on"),
        Column("labels", "Labels"),
        Column("tools", "Tools", descending="tools", numeric=True),
        Column("usage", "Uses", descending="usage", numeric=True, help="How often its source says it was used"),
        Column("origin", "Origin", extra=True),
        Column("source", "Source"),
        Column("added", "Added", ascending="old", descending="new"),
        Column("grow", "Grow", help="A new batch that grows environments from this theme alone"),
    ),
    default_order="new",
    order_parameter="sort",
)
THEME_FIELDS = (
    "key", "name", "description", "labels", "usage", "tool_count", "source", "created_at", "node__name", "node__path",
    "origin", "folded_into_id", "similarity", "duplicates", "node__level", "node__parent", "node__parent__name",
    "node__parent__parent", "node__parent__parent__name", "node__parent__parent__parent",
)  # fmt: skip
FIRST_TOOLS = 4
"""Number of tool names in a row of a list."""


@dataclass(frozen=True)
class ThemeFilters:
    text: str = ""
    label: str = ""
    sort: str = "new"
    errors: tuple[str, ...] = ()
    origin: str = ""
    folded: bool = False
    """Also those that are folded into another one."""
    ids: tuple[int, ...] = ()
    """Ticked ones."""

    @property
    def narrowed(self) -> bool:
        return bool(self.text or self.label or self.origin or self.ids)

    @property
    def fit_a_batch(self) -> bool:
        """True if the form of a new batch can choose the same themes: it knows text and ticked ones alone."""
        return not (self.label or self.origin or self.folded)

    @property
    def batch_query(self) -> str:
        """The parameters with which that form chooses them."""
        chosen = {"themes_ids": list(self.ids)} if self.ids else {"use_themes": 1, "themes_text": self.text}
        return urlencode(chosen, doseq=True, quote_via=quote)

    @property
    def order(self) -> str:
        return THEME_SORTS[self.sort][0]


LEFT_OUT = {
    "sort": "This order is not known; the newest are shown first.",
    "origin": "This origin is not known; themes of every origin are shown.",
}
"""What a page says of a filter that cannot be understood."""


def parse_theme_filters(query: QueryDict) -> ThemeFilters:
    """Return the filters that an address names."""
    params = Params(query)
    sort, origin = params.choice("sort", THEME_SORTS, "new"), params.choice("origin", Origin.values)
    text, label = params.search_text("q"), params.text("label", strip=True)
    errors = tuple(params.list_messages(LEFT_OUT))
    return ThemeFilters(text, label, sort, errors, origin, params.flag("folded"), params.picks("ids"))


def filter_themes(filters: ThemeFilters, node: Node | None = None) -> QuerySet[Theme]:
    """Return themes that fit, of one node and below it or of the whole tree."""
    rows = Theme.objects.select_related("node__parent__parent").only(*THEME_FIELDS)
    if node is not None:
        rows = rows.filter(node__in=select_subtree(node))
    if filters.text:
        rows = rows.filter(name__icontains=filters.text)
    if filters.label:
        rows = rows.filter(labels__contains=[filters.label])
    if filters.origin:
        rows = rows.filter(origin=filters.origin)
    if filters.ids:
        return rows.filter(pk__in=filters.ids)
    return rows if filters.folded else rows.filter(folded_into=None)


def count_selection(ids: Sequence[int]) -> tuple[int, int]:
    """Return (themes of a selection, those of them that an environment can grow from: a server has to have content)."""
    found = list(Theme.objects.filter(pk__in=ids).values_list("origin", "description", "tool_count"))
    says = [origin not in SPECIFIED or bool(tools or words.strip()) for origin, words, tools in found]
    return len(found), sum(says)


def select_subtree(node: Node) -> QuerySet[Node, Any]:
    """Return the ids of a node and of all below it, from the index on `path`."""
    return Node.objects.filter(Q(pk=node.pk) | Q(path__startswith=node.path + SEPARATOR)).order_by().values("pk")


def add_tool_names(themes: Iterable[Theme]) -> None:
    """Give every theme the names of its first tools as `first_tools`, in one query."""
    rows = list(themes)
    names: dict[int, list[str]] = {theme.pk: [] for theme in rows}
    tools = ThemeTool.objects.filter(theme__in=names, position__lt=FIRST_TOOLS).order_by("theme_id", "position")
    for theme, name in tools.values_list("theme_id", "name"):
        names[theme].append(name)
    for row in rows:
        row.first_tools = names[row.pk]


def list_theme_tools(theme: Theme) -> list[ThemeTool]:
    return list(theme.tools.all())


def sum_totals() -> dict[str, int]:
    """Return the sums of the first level: the whole installation."""
    names = ("environments", "themes", "tools", "tasks", "green", "red", "trajectories", "scored", "solved")
    rows = NodeCounts.objects.filter(node__parent=None).values_list(*names)
    return {name: sum(values) for name, values in zip(names, zip(*rows, strict=True), strict=False)}
