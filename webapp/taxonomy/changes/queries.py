"""Reads of the tree's history."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import QuerySet

from webapp.taxonomy.changes.delta import Delta
from webapp.taxonomy.models import ChangeKind, FormerNode, TreeChange


def history(node: int | None = None) -> QuerySet[TreeChange]:
    """Changes of the tree, or those that touched one node, without what was before and after."""
    rows = TreeChange.objects.select_related("by", "undone_by").defer("delta", "undone_by__delta")
    return rows.filter(node_ids__contains=[node]) if node is not None else rows


def moved_by_people(kind: str, standing: Mapping[int, int]) -> set[int]:
    """Those of some things, given with the node that each hangs on, that a change hung there and nobody undid."""
    if not standing:
        return set()
    changes = TreeChange.objects.filter(node_ids__overlap=sorted(set(standing.values())), undone_by=None)
    found: set[int] = set()
    for change in changes.exclude(kind=ChangeKind.UNDO).only("delta").iterator(chunk_size=50):
        moves = Delta.of_json(change.delta).moved(kind)
        found.update(thing for thing, (_, to) in moves.items() if standing.get(thing) == to)
    return found


def gone(pk: int) -> FormerNode | None:
    """A node that a change took away."""
    return FormerNode.objects.select_related("change__by").filter(pk=pk).first()
