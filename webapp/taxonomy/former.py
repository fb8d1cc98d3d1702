"""Successors of nodes and paths that changes of the tree removed: old addresses and old labels lead there."""

from __future__ import annotations

from collections.abc import Iterable

from webapp.taxonomy.models import FormerNode, FormerPath, Node


def find_present_node(pk: int | None) -> Node | None:
    """Return the node of this id, or the one that it became; None if there is none."""
    now = map_present_ids([pk]).get(pk) if pk is not None else None
    return Node.objects.filter(pk=now).first() if now is not None else None


def map_present_ids(pks: Iterable[int]) -> dict[int, int]:
    """Return for each id of a node, past or present, the id of the node that it is now; what is gone is left out."""
    at = {pk: pk for pk in pks}
    present: dict[int, int] = {}
    seen: dict[int, set[int]] = {pk: {pk} for pk in at}
    while at:
        existing = set(Node.objects.filter(pk__in=set(at.values())).values_list("pk", flat=True))
        present |= {pk: now for pk, now in at.items() if now in existing}
        missing = {pk: now for pk, now in at.items() if now not in existing}
        into = dict(FormerNode.objects.filter(pk__in=set(missing.values())).values_list("pk", "into"))
        at = {pk: onward for pk, now in missing.items() if (onward := into.get(now)) and onward not in seen[pk]}
        for pk, now in at.items():
            seen[pk].add(now)
    return present


def map_former_paths(texts: Iterable[str]) -> dict[str, int]:
    """Return for each path that named a node before, the node that it names now."""
    rows = FormerPath.objects.filter(path__in=set(texts)).order_by("path", "-id").distinct("path")
    named = dict(rows.values_list("path", "node"))
    now = map_present_ids(named.values())
    return {text: now[node] for text, node in named.items() if node in now}
