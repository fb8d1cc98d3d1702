"""Labels that a person may choose as the place, or the target, of a change."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Max

from webapp.taxonomy import queries
from webapp.taxonomy.labels import SEPARATOR, fold_name
from webapp.taxonomy.models import LEVELS, Node, NodeCounts

SHOWN = 40


@dataclass(frozen=True)
class Candidate:
    """A label with those above it in words, and what hangs there."""

    node: Node
    words: str

    @property
    def counts(self) -> NodeCounts:
        return self.node.counts


@dataclass(frozen=True)
class Candidates:
    rows: tuple[Candidate, ...]
    more: bool
    """Whether there are others: a search finds them."""

    @property
    def only(self) -> int | None:
        """The one label that a search found; None if there are several."""
        return self.rows[0].node.pk if len(self.rows) == 1 and not self.more else None


def list_candidates(node: Node, kind: str, find: str, chosen: Collection[int] = ()) -> Candidates:
    """Return labels that can be the new parent, or that can take the things of a label: those whose name holds
    `find`, or without it the nearest ones; chosen ones first. Never the label itself, nor what is below it, nor a
    place that is too low for all that moves along."""
    rows = queries.nodes_with_counts().select_related("parent__parent").exclude(pk__in=queries.select_subtree(node))
    if kind == "move":
        lowest = (
            Node.objects.filter(pk__in=queries.select_subtree(node)).aggregate(level=Max("level"))["level"]
            or node.level
        )
        rows = rows.filter(level__lt=LEVELS - (lowest - node.level))
    if find:
        named_rows = list(rows.filter(name__icontains=find).order_by("level", "position", "path")[: SHOWN + 1])
        same = [row for row in named_rows if fold_name(row.name) == fold_name(find)]
        return _to_candidates(same if len(same) == 1 else named_rows)
    ticked = list(rows.filter(pk__in=chosen).order_by("path"))
    near = list(rows.filter(parent=node.parent).exclude(pk__in=chosen).order_by("position", "path")[: SHOWN + 1])
    if node.parent_id is not None:
        near += list(rows.filter(level=1).exclude(pk__in=chosen).order_by("position", "path")[: SHOWN + 1])
    return _to_candidates(ticked + near)


def _to_candidates(rows: list[Node]) -> Candidates:
    named = tuple(Candidate(row, describe_node(row)) for row in rows[:SHOWN])
    return Candidates(named, len(rows) > SHOWN)


def describe_node(node: Node) -> str:
    """Return a label with those above it; the caller has fetched them."""
    names = [node.name]
    at = node.parent
    while at is not None:
        names.append(at.name)
        at = at.parent
    return SEPARATOR.join(reversed(names))
