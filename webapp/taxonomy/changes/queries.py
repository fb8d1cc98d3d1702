"""Reads of the tree's history."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.taxonomy.models import FormerNode, TreeChange


def history(node: int | None = None) -> QuerySet[TreeChange]:
    """Changes of the tree, or those that touched one node, without what was before and after."""
    rows = TreeChange.objects.select_related("by", "undone_by").defer("delta", "undone_by__delta")
    return rows.filter(node_ids__contains=[node]) if node is not None else rows


def gone(pk: int) -> FormerNode | None:
    """A node that a change took away."""
    return FormerNode.objects.select_related("change__by").filter(pk=pk).first()
