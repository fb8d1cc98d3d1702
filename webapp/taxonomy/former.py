"""What a node or a path that changes of the tree took away became: old addresses and old labels lead there."""

from __future__ import annotations

from collections.abc import Iterable

from webapp.taxonomy.models import FormerNode, FormerPath, Node


def present_node(pk: int | None) -> Node | None:
    """The node of this id, or the one that it became; None where there is none."""
    now = present_ids([pk]).get(pk) if pk is not None else None
    return Node.objects.filter(pk=now).first() if now is not None else None


def present_ids(pks: Iterable[int]) -> dict[int, int]:
    """For each id of a node, past or present, the id of the node that it is now; what is gone is left out."""
    at = {pk: pk for pk in pks}
    found: dict[int, int] = {}
    seen: dict[int, set[int]] = {pk: {pk} for pk in at}
    while at:
        here = set(Node.objects.filter(pk__in=set(at.values())).values_list("pk", flat=True))
        found |= {pk: now for pk, now in at.items() if now in here}
        left = {pk: now for pk, now in at.items() if now not in here}
        into = dict(FormerNode.objects.filter(pk__in=set(left.values())).values_list("pk", "into"))
        at = {pk: onward for pk, now in left.items() if (onward := into.get(now)) and onward not in seen[pk]}
        for pk, now in at.items():
            seen[pk].add(now)
    return found


def nodes_of_former_paths(texts: Iterable[str]) -> dict[str, int]:
    """For each path that named a node before, the node that it names now."""
    rows = FormerPath.objects.filter(path__in=set(texts)).order_by("path", "-id").distinct("path")
    named = dict(rows.values_list("path", "node"))
    now = present_ids(named.values())
    return {text: now[node] for text, node in named.items() if node in now}
