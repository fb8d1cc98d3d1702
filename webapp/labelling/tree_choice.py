"""The frozen tree of a session as rows of an ARIA tree in which a node is chosen; written in code because templates
are slower."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from webapp.common.templatetags.show import marked, plain, visible
from webapp.labelling.frozen import FrozenNode, FrozenTree

OPEN_UP_TO = 60
"""A tree of so few nodes is shown open."""


def build_tree_context(
    tree: FrozenTree, filled: Mapping[str, Any], find: str = "", opened: int | None = None
) -> dict[str, Any]:
    """Return the context of the tree: its rows, the chosen nodes, and the results of a search."""
    chosen_node, second = tree.get(filled.get("node")), tree.get(filled.get("second"))
    words = find.strip().casefold()
    hits = {node.id for node in tree if words in node.name.casefold()} if words else set()
    shown_ids = {pk for hit in hits for pk in tree.path(hit)} if words else set(tree.nodes)
    open_ones = {pk for node in (chosen_node, second) if node is not None for pk in node.path[:-1]}
    open_ones |= set(tree.path(opened)) | ({pk for hit in hits for pk in tree.path(hit)[:-1]} if words else set())
    if len(tree.nodes) <= OPEN_UP_TO:
        open_ones = set(tree.nodes)
    marks = {"node": chosen_node.id if chosen_node else None, "second": second.id if second else None}
    rows = _Rows(tree, shown_ids, open_ones, hits, marks, find.strip())
    return {
        "tree_rows": rows.render_rows(),
        "tree_size": len(tree.nodes),
        "found": len(hits),
        "find": find,
        "chosen": {"id": chosen_node.id, "above": tree.names(chosen_node.id)[:-1], "name": chosen_node.name}
        if chosen_node
        else None,
        "second": {"id": second.id, "words": tree.words(second.id)} if second else None,
        "about": _describe_node(tree, chosen_node),
    }


def _describe_node(tree: FrozenTree, node: FrozenNode | None) -> dict[str, Any] | None:
    if node is None:
        return None
    below = [one.name for one in tree.below.get(node.id, [])]
    return {"name": node.name, "below": below[:12], "more": max(0, len(below) - 12)}


class _Rows:
    """The rows as they are written: nodes that are not `shown` are left out."""

    def __init__(
        self,
        tree: FrozenTree,
        shown: set[int],
        opened: set[int],
        hits: set[int],
        marks: Mapping[str, int | None],
        find: str,
    ) -> None:
        self.tree, self.shown, self.opened, self.hits, self.marks, self.find = tree, shown, opened, hits, marks, find
        self.parts: list[str] = []
        self.first = True

    def render_rows(self) -> SafeString:
        self._level(None)
        return mark_safe("".join(self.parts))  # every value was escaped on its way in

    def _level(self, parent: int | None) -> None:
        nodes = [node for node in self.tree.below.get(parent, []) if node.id in self.shown]
        for place, node in enumerate(nodes, start=1):
            below = [one for one in self.tree.below.get(node.id, []) if one.id in self.shown]
            self._open_item(node, place, len(nodes), bool(below))
            if below:
                hidden = "" if node.id in self.opened else " hidden"
                self.parts.append(f'<ul role="group"{hidden}>')
                self._level(node.id)
                self.parts.append("</ul>")
            self.parts.append("</li>")

    def _open_item(self, node: FrozenNode, place: int, size: int, folds: bool) -> None:
        expanded = f' aria-expanded="{str(node.id in self.opened).lower()}"' if folds else ""
        is_chosen = node.id == self.marks["node"]
        second = ' data-second=""' if node.id == self.marks["second"] else ""
        stop, self.first = (0 if self.first else -1), False
        name = marked(visible(node.name), [self.find]) if node.id in self.hits else visible(node.name)
        twist = (
            f'<button class="twist" name="twist" value="{node.id}" tabindex="-1" '
            f'aria-label="Open or close {escape(plain(node.name))}"></button>'
            if folds
            else '<span class="twist"></span>'
        )
        self.parts.append(
            f'<li role="treeitem" id="n{node.id}" data-node="{node.id}" aria-level="{node.level}" '
            f'aria-setsize="{size}" aria-posinset="{place}" aria-selected="{str(is_chosen).lower()}"'
            f'{second}{expanded} tabindex="{stop}" '
            f'aria-label="{escape(plain(node.name))}">\n<div class="node">{twist}'
            f'<button class="name" name="choose" value="{node.id}" tabindex="-1">{name}</button></div>\n'
        )
