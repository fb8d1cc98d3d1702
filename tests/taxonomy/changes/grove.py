"""A small tree with things on it, and shorthands to change it."""

from __future__ import annotations

from typing import Any

from tests.fixtures import pages_seed
from tests.taxonomy.samples import entries, environment, server
from webapp.environments import totals
from webapp.environments.models import Environment
from webapp.pages.recount import recount_nodes
from webapp.taxonomy.changes import services, undo, wishes
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.models import Node, NodeCounts, Theme, TreeChange
from webapp.taxonomy.services import place_paths

SEP = " \u203a "
PATHS = [
    ("Savings", "Banking", "Loans"),
    ("Savings", "Bookkeeping"),
    ("Money", "Banking", "Cards"),
    ("Money", "Insurance"),
    ("Weather", "API Integration", "Storm Warnings"),
    ("Ferries",),
]


def judge() -> Any:
    return pages_seed.person("adjudicator")


def plant() -> dict[str, int]:
    """Nodes by their path; environments on first-level ones with tasks, themes on lower ones."""
    place_paths(PATHS)
    for number, category in enumerate(("Weather", "Money", "Money", "Ferries")):
        row = environment(f"e{number}", category)
        totals.add_counts(row.pk, tasks=number + 1, green=1, trajectories=4, scored=3, solved=number)
    labels: list[dict[str, Any]] = [
        {"primary_label": "Money", "secondary_labels": ["Banking"], "custom_label": "Cards"},
        {"primary_label": "Money", "secondary_labels": ["Banking"], "custom_label": "Loans"},
        {"primary_label": "Savings", "secondary_labels": ["Banking"], "custom_label": "Loans"},
        {"primary_label": "Savings", "secondary_labels": ["Bookkeeping"], "custom_label": None},
        {},
        {},
    ]
    import_servers(entries(*(server(number, **fields) for number, fields in enumerate(labels))))
    assert recount_nodes() == []
    return nodes()


def nodes() -> dict[str, int]:
    return dict(Node.objects.values_list("path", "pk"))


def node(path: str) -> Node:
    return Node.objects.get(path=path)


def changed(user: Any, wish: wishes.Wish, why: str = "") -> TreeChange:
    """Carry out on the tree as it is, and see that every count is what a recount finds."""
    made = services.change_tree(user, wish, seen=services.get_serial(), why=why)
    assert recount_nodes() == [], made.words
    return made


def undone(user: Any, change: TreeChange) -> TreeChange:
    made = undo.take_back_change(user, change.pk)
    assert recount_nodes() == [], made.words
    return made


def picture() -> dict[str, Any]:
    """The whole tree as rows: what has to be the same after an undo."""
    kept = ("children", "environments", "themes", "tools", "tasks", "green", "trajectories", "scored", "solved")
    counts = {row.pop("node_id"): row for row in NodeCounts.objects.values("node_id", *kept)}
    rows = Node.objects.values("pk", "parent_id", "level", "position", "name", "path", "created_at")
    return {row["path"]: row | {"counts": counts[row["pk"]], "hung": hung(row["pk"])} for row in rows}


def hung(pk: int) -> list[list[int]]:
    """The environments and the themes on a node."""
    rows = Environment.objects.filter(node=pk), Theme.objects.filter(node=pk)
    return [list(found.order_by("pk").values_list("pk", flat=True)) for found in rows]
