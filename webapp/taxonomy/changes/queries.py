"""Reads of the tree's history."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import QuerySet

from webapp.taxonomy.changes.delta import Delta
from webapp.taxonomy.models import ChangeKind, FormerNode, TreeChange


def list_changes(node: int | None = None) -> QuerySet[TreeChange]:
    """Return changes of the tree, or those that touched one node, without what was before and after."""
    rows = TreeChange.objects.select_related("by", "undone_by").defer("delta", "undone_by__delta")
    return rows.filter(node_ids__contains=[node]) if node is not None else rows


def find_moved_by_people(kind: str, standing: Mapping[int, int]) -> set[int]:
    """Return those things, given with the node that each hangs on, that a change hung there and that was not undone."""
    if not standing:
        return set()
    changes = TreeChange.objects.filter(node_ids__overlap=sorted(set(standing.values())), undone_by=None)
    moved_ids: set[int] = set()
    for change in changes.exclude(kind=ChangeKind.UNDO).only("delta").iterator(chunk_size=50):
        moves = Delta.of_json(change.delta).get_moves(kind)
        moved_ids.update(thing for thing, (_, to) in moves.items() if standing.get(thing) == to)
    return moved_ids


def find_former_node(pk: int) -> FormerNode | None:
    """Return a node that a change removed; None if there is none."""
    return FormerNode.objects.select_related("change__by").filter(pk=pk).first()
