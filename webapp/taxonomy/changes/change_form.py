"""The form of one change of a label: the wish that its address spells, and what of it is still open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from webapp.common.query_params import Params
from webapp.taxonomy.changes import wishes
from webapp.taxonomy.changes.candidates import Candidates, list_candidates
from webapp.taxonomy.changes.hung import KINDS
from webapp.taxonomy.changes.wishes import Parting, Wish
from webapp.taxonomy.models import Node

TOP = "top"
"""How an address says the first level."""
MOST_PICKS = 2_000
SHOWN = 100
"""Number of things of each kind that can be selected at once; a search narrows them."""
NAME = 200


@dataclass(frozen=True)
class KindOfChange:
    """A kind of change as pages offer it."""

    name: str
    does: str
    words: str
    key: str


KINDS_OF_CHANGE = (
    KindOfChange("move", "Move", "Put it, with all below it, below another label or on the first level.", "m"),
    KindOfChange("merge", "Merge", "Let it, and others, become another label, which has what hung there then.", "g"),
    KindOfChange("split", "Split", "Move some of its contents to a new label next to or below it.", "s"),
    KindOfChange("rename", "Rename", "Give it another name. What comes in under the old one still hangs here.", "n"),
    KindOfChange("delete", "Delete", "Take it away. Another label takes what hangs there, if anything does.", "d"),
)


@dataclass(frozen=True)
class Tickable:
    """Things, or labels, that may be ticked; `kept` are ticked ones that are not among `rows`."""

    field: str
    title: str
    rows: tuple[tuple[int, str, bool], ...]
    kept: tuple[int, ...]
    more: bool


class ChangeForm:
    """The parameters of an address, or of a sent form, for a change of `node`."""

    def __init__(self, node: Node, kind: str, query: QueryDict) -> None:
        params = Params(query)
        self.node, self.kind = node, kind
        self.find = params.search_text("find")
        self.name = params.whole_text("name", NAME, strip=True)
        self.top = query.get("to") == TOP
        self.to = None if self.top else Params(query).id("to")
        self.also = params.picks("also", MOST_PICKS)
        self.below = params.flag("below")
        self.ticked = {field: params.picks(field, MOST_PICKS) for field in (*KINDS, "labels")}
        self.seen = params.number("serial")
        self.why = params.whole_text("why", 2_000)
        self.sure = params.flag("sure")
        self.candidates: Candidates | None = None
        if kind in ("move", "merge", "delete"):
            self.candidates = list_candidates(node, kind, self.find, [pk for pk in (self.to, *self.also) if pk])
            if self.find and self.to is None and not self.top:
                self.to = self.candidates.only

    def wish(self) -> Wish | None:
        """Return the wish; None if something is still open."""
        pk = self.node.pk
        if self.kind == "move":
            return wishes.build_move(pk, self.to) if self.to or self.top else None
        if self.kind == "merge":
            return wishes.build_merge([pk, *self.also], self.to, self.name) if self.to else None
        if self.kind == "rename":
            return wishes.build_rename(pk, self.name) if self.name else None
        if self.kind == "delete":
            return wishes.build_delete(pk, self.to) if self.to or self.is_empty else None
        if not self.name:
            return None
        things = {field: self.ticked[field] for field in KINDS if self.ticked[field]}
        return wishes.build_split(pk, self.name, Parting(things, self.ticked["labels"]), below=self.below)

    @property
    def is_empty(self) -> bool:
        counts = self.node.counts
        return not (counts.children or any(KINDS[name].on([self.node.pk]) for name in KINDS))

    def hidden(self) -> list[tuple[str, Any]]:
        """Return the hidden fields that repeat the form."""
        found: list[tuple[str, Any]] = [("to", TOP if self.top else self.to), ("name", self.name)]
        found += [("below", "1" if self.below else "")]
        found += [("also", pk) for pk in self.also]
        found += [(field, pk) for field, picks in self.ticked.items() for pk in picks]
        return [(name, value) for name, value in found if value]

    def tickables(self) -> list[Tickable]:
        """Return what a split may take: what hangs on the label itself, and the labels right below it."""
        below = Node.objects.filter(parent=self.node).order_by("position", "path")
        found = [self._tickable("labels", "Labels below", below)]
        for name, kind in KINDS.items():
            found.append(self._tickable(name, kind.name.capitalize(), kind.rows.filter(node=self.node)))
        return [one for one in found if one.rows or one.kept]

    def _tickable(self, field: str, title: str, rows: Any) -> Tickable:
        ticked = set(self.ticked[field])
        narrowed = rows.filter(name__icontains=self.find) if self.find else rows
        listed = list(narrowed.values_list("pk", "name")[: SHOWN + 1])
        shown = tuple((pk, name, pk in ticked) for pk, name in listed[:SHOWN])
        kept = tuple(ticked - {pk for pk, _, _ in shown})
        return Tickable(field, title, shown, kept, len(listed) > SHOWN)
