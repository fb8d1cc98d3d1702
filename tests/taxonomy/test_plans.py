"""PostgreSQL answers the questions of the pages from indexes, on a large table."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db.models import QuerySet

from webapp.taxonomy import queries
from webapp.taxonomy.models import Node, Theme


def plan(rows: QuerySet[Any]) -> list[tuple[str, str]]:
    """(node type, relation or index) of every step."""
    found: list[tuple[str, str]] = []

    def walk(step: dict[str, Any]) -> None:
        found.append((step["Node Type"], step.get("Index Name") or step.get("Relation Name") or ""))
        for inner in step.get("Plans", []):
            walk(inner)

    walk(json.loads(rows.explain(format="json"))[0]["Plan"])
    return found


def uses(rows: QuerySet[Any], index: str, *read_whole: str) -> None:
    """The plan uses `index`, and reads no table from end to end but those of `read_whole`."""
    steps = plan(rows)
    assert index in [name for _, name in steps], steps
    assert not [name for kind, name in steps if kind == "Seq Scan" and name not in read_whole], steps


@pytest.mark.slow
@pytest.mark.xdist_group("forest")
def test_nodes_and_themes_come_from_indexes(forest: dict[str, int]) -> None:
    node = Node.objects.get(pk=forest["domain 07"])
    uses(Node.objects.filter(parent=None).order_by(*queries.ORDER)[:201], "node_siblings")
    uses(Node.objects.filter(parent=node).order_by(*queries.ORDER)[:201], "node_siblings")
    uses(queries.list_siblings(node.pk)[:201], "node_siblings")
    uses(queries.filter_nodes("ic 07-03-11", None, None).order_by("level", *queries.ORDER)[:200], "node_search")
    uses(Node.objects.filter(path="domain 07"), next(name for _, name in plan(Node.objects.filter(path="x")) if name))
    steps = plan(queries.select_subtree(node))
    assert not [name for kind, name in steps if kind == "Seq Scan"], steps
    assert len(forest) > 10_000
    leaf = Node.objects.get(pk=forest["domain 07 \u203a field 07-03 \u203a topic 07-03-04"])
    none = queries.ThemeFilters()
    uses(queries.filter_themes(none, leaf).order_by("-id")[:51], "theme_of_node")
    uses(queries.filter_themes(queries.ThemeFilters(text="er 00123"))[:51], "theme_search")
    uses(queries.filter_themes(queries.ThemeFilters(label="Field 03-03")).order_by("-id")[:51], "theme_labels")
    for order, index in (("-id", "theme_newest"), ("name", "theme_by_name"), ("-tool_count", "theme_by_tools")):
        keys = [order] if order == "-id" else [order, "-id" if order.startswith("-") else "id"]
        steps = plan(Theme.objects.order_by(*keys)[:51])
        indexes = {index, "taxonomy_theme_pkey"} if order == "-id" else {index}
        assert indexes & {name for _, name in steps}, steps
