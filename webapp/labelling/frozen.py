"""Frozen content of a session: the nodes of the tree, and the environments, themes or labels as they are when it
opens."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.http import QueryDict

from synthesis.errors import InputError
from webapp.common.templatetags.show import cut
from webapp.environments import queries as environment_queries
from webapp.environments.models import Environment, Tool
from webapp.labelling.models import LabelItem, LabelSession, PlacedKind
from webapp.taxonomy import queries as tree_queries
from webapp.taxonomy.models import Node, Theme, ThemeTool

MOST_NODES = 5_000
MOST_ITEMS = 2_000
MOST_LABELS = 300
TEXT_CHARS = 4_000
TOOLS_KEPT = 60
RULES_KEPT = 40
EXAMPLES = 3
DESCRIBED_CHARS = 160
TOOLS_NAMED = 3
SEPARATOR = " \u203a "


@dataclass(frozen=True)
class FrozenNode:
    """A node as it was. `path` is the ids from the first level down to it."""

    id: int
    level: int
    name: str
    path: tuple[int, ...]

    @property
    def parent(self) -> int | None:
        return self.path[-2] if len(self.path) > 1 else None


@dataclass(frozen=True)
class FrozenTree:
    """The nodes of a session in the order of the tree, parents before what is below them."""

    nodes: dict[int, FrozenNode] = field(default_factory=dict)

    @classmethod
    def of(cls, session: LabelSession) -> FrozenTree:
        nodes: dict[int, FrozenNode] = {}
        for pk, parent, level, name in session.tree:
            above = nodes[parent].path if parent in nodes else ()
            nodes[pk] = FrozenNode(pk, level, name, (*above, pk))
        return cls(nodes)

    def __iter__(self) -> Iterator[FrozenNode]:
        return iter(self.nodes.values())

    def get(self, pk: int | None) -> FrozenNode | None:
        return self.nodes.get(pk) if pk is not None else None

    def path(self, pk: int | None) -> tuple[int, ...]:
        """Return the ids from the first level down; empty if no node fits."""
        node = self.get(pk)
        return node.path if node is not None else ()

    def names(self, pk: int | None) -> list[str]:
        """Return the names from the first level down."""
        return [self.nodes[one].name for one in self.path(pk)]

    def words(self, pk: int | None) -> str:
        """Return a node and the names above it, in words."""
        return SEPARATOR.join(self.names(pk)) or "No node fits"

    @cached_property
    def below(self) -> dict[int | None, list[FrozenNode]]:
        """The nodes directly below each; None: the first level."""
        found: dict[int | None, list[FrozenNode]] = {}
        for node in self.nodes.values():
            found.setdefault(node.parent, []).append(node)
        return found


@dataclass(frozen=True)
class FrozenItem:
    """A thing to ask about: its id, its name and what people see of it. They do not see `node`, the node it hangs
    on."""

    key: int
    name: str
    content: dict[str, Any]
    node: int | None = None


def describe_items(items: Iterable[LabelItem]) -> dict[int, str]:
    """Return the first tools of each item and the beginning of its text, which distinguish items of one name.

    Items are listed without their content; a page reads that of the few it shows.
    """
    rows = LabelItem.objects.filter(pk__in=[item.pk for item in items]).values_list("pk", "content")
    return {pk: cut(_describe_content(content), DESCRIBED_CHARS) for pk, content in rows}


def _describe_content(content: dict[str, Any]) -> str:
    tools = ", ".join(str(tool["name"]) for tool in content.get("tools", [])[:TOOLS_NAMED])
    return " · ".join(part for part in (tools, str(content.get("text", "")).strip()) if part)


def freeze_tree() -> list[list[Any]]:
    """Return the tree as rows of (id, parent, level, name), parents first. Raises InputError: there are too many
    nodes."""
    rows = list(Node.objects.order_by("level", "position", "path").values_list("pk", "parent_id", "level", "name"))
    if not rows:
        raise InputError("The tree is empty: there is nothing to place things on. Import themes or environments first.")
    if len(rows) > MOST_NODES:
        raise InputError(f"The tree has {len(rows):,} nodes; a session can show {MOST_NODES:,}.")
    below: dict[int | None, list[Any]] = {}
    for row in rows:
        below.setdefault(row[1], []).append(row)
    ordered: list[list[Any]] = []
    stack = list(reversed(below.get(None, [])))
    while stack:
        row = stack.pop()
        ordered.append(list(row))
        stack.extend(reversed(below.get(row[0], [])))
    return ordered


def freeze_items(kind: str, query: str, most: int, known: Sequence[int] = ()) -> list[FrozenItem]:
    """Return the things that a list's filters choose now, and those with these ids, as people will see them.

    Raises InputError: there are none, or one with a known answer does not exist.
    """
    parameters = QueryDict(query)
    if kind == PlacedKind.ENVIRONMENT:
        filters = environment_queries.read_filters(parameters)
        environments = environment_queries.filter_environments(filters)
        keys = list(environments.filter(current__isnull=False).order_by("-id").values_list("pk", flat=True)[:most])
        frozen_items = _freeze_environments([*keys, *known])
    else:
        theme_filters = tree_queries.parse_theme_filters(parameters)
        themes = tree_queries.filter_themes(theme_filters)
        keys = list(themes.order_by("-id").values_list("pk", flat=True)[:most])
        frozen_items = _freeze_themes([*keys, *known])
    missing = [pk for pk in known if pk not in frozen_items or frozen_items[pk].node is None]
    if missing:
        words = PlacedKind(kind).label
        raise InputError(f"There is no {words.removesuffix('s')} {missing[0]} on the tree whose place could be known.")
    if not keys:
        raise InputError(f"These filters choose no {PlacedKind(kind).label}. Take others, or none.")
    return [frozen_items[pk] for pk in dict.fromkeys([*keys, *known]) if pk in frozen_items]


def load_thing_names(kind: str, keys: Collection[int]) -> dict[int, str]:
    """Return the names of environments or themes by their ids; things that do not exist are left out."""
    model: Any = Environment if kind == PlacedKind.ENVIRONMENT else Theme
    return dict(model.objects.filter(pk__in=keys).values_list("pk", "name"))


def _freeze_environments(keys: Sequence[int]) -> dict[int, FrozenItem]:
    environments = Environment.objects.filter(pk__in=keys).select_related("current")
    rows = list(environments.defer("current__source", "current__record", "current__state_schema"))
    tools: dict[int, list[dict[str, str]]] = {}
    tool_rows = Tool.objects.filter(version__in=[row.current_id for row in rows]).order_by("version", "position")
    for owner, name, kind, words in tool_rows.values_list("version", "name", "kind", "description"):
        tools.setdefault(owner, []).append({"name": name, "kind": kind, "description": words[:300]})
    frozen_items = {}
    for row in rows:
        version = row.current
        rules = [str(rule)[:500] for rule in (version.rules if version else [])]
        text = row.summary or (version.introduction if version else "")
        content = _build_content(text, tools.get(version.pk, []) if version else []) | {
            "rules": rules[:RULES_KEPT], "rule_count": len(rules),
        }  # fmt: skip
        frozen_items[row.pk] = FrozenItem(row.pk, row.name, content, row.node_id)
    return frozen_items


def _freeze_themes(keys: Sequence[int]) -> dict[int, FrozenItem]:
    tools: dict[int, list[dict[str, str]]] = {}
    tool_rows = ThemeTool.objects.filter(theme__in=keys).order_by("theme", "position")
    for theme, name, words in tool_rows.values_list("theme", "name", "description"):
        tools.setdefault(theme, []).append({"name": name, "kind": "", "description": words[:300]})
    rows = Theme.objects.filter(pk__in=keys).only("id", "name", "description", "node")
    return {
        row.pk: FrozenItem(row.pk, row.name, _build_content(row.description, tools.get(row.pk, [])), row.node_id)
        for row in rows
    }


def _build_content(text: str, tools: list[dict[str, str]]) -> dict[str, Any]:
    return {"text": text[:TEXT_CHARS], "tools": tools[:TOOLS_KEPT], "tool_count": len(tools)}


def freeze_labels(first_levels: Sequence[int], labels: Sequence[int] = ()) -> FrozenItem:
    """Return the one item of a session that merges: these `labels` of any level, the upper ones first, or else the
    labels of the second level below these nodes (none named: below all).

    Raises InputError: there are fewer than two, too many for one person, or one is gone.
    """
    rows = Node.objects.filter(pk__in=labels) if labels else Node.objects.filter(level=2)
    if first_levels and not labels:
        rows = rows.filter(parent__in=first_levels)
    order = ("level", "parent__position", "parent__path", "position", "path")
    nodes = list(rows.select_related("parent__parent", "counts").order_by(*order)[: MOST_LABELS + 1])
    if labels and len(nodes) < min(len(set(labels)), MOST_LABELS):
        raise InputError(
            "One of these labels no longer exists: it was merged or deleted. Look at the tree, and choose again."
        )
    if len(nodes) < 2:
        label_words = "labels" if labels else "second-level labels there"
        raise InputError(f"There are fewer than two {label_words}: nothing can be put together.")
    if len(nodes) > MOST_LABELS:
        raise InputError(f"One person can group {MOST_LABELS} labels at most. Choose fewer first-level labels.")
    child_names: dict[int | None, list[str]] = {}
    lower = Node.objects.filter(parent__in=[row.pk for row in nodes]).order_by("position", "path")
    for parent, name in lower.values_list("parent", "name"):
        child_names.setdefault(parent, []).append(name)
    frozen = [
        {
            "id": row.pk, "name": row.name,
            "parent": row.parent_id, "parent_name": row.words_above or "first level",
            "environments": row.counts.environments, "themes": row.counts.themes,
            "below": child_names.get(row.pk, [])[:EXAMPLES], "below_count": len(child_names.get(row.pk, [])),
        }
        for row in nodes
    ]  # fmt: skip
    label_words = "labels" if labels else "second-level labels"
    return FrozenItem(0, f"{len(frozen)} {label_words}", {"labels": frozen})
