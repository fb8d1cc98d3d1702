"""What a change would touch, part by part: apps say what of theirs hangs on the nodes or names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from django.db.models import QuerySet
from django.urls import reverse

from webapp.lists.models import SavedView
from webapp.lists.registry import LISTS, PAGES
from webapp.taxonomy.changes.hung import KINDS, THEMES

NAMED = 8
"""So many of each sort are named with a link."""
LOOKED_AT = 2_000
"""So many saved views are read."""


@dataclass(frozen=True)
class Scope:
    """What a change touches: nodes that get another name, place or address, with all below them, and things that
    hang elsewhere then (by kind of `hung.KINDS`)."""

    nodes: frozenset[int]
    moved: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def rows(self, kind: str) -> QuerySet:
        """The things of a kind that are touched."""
        found = KINDS[kind].rows
        on, moved = found.filter(node__in=self.nodes), self.moved.get(kind, ())
        return on | found.filter(pk__in=moved) if moved else on


@dataclass(frozen=True)
class Named:
    """One thing with its address."""

    words: str
    url: str


@dataclass(frozen=True)
class AffectedPart:
    """A sort of things that a change touches. `lines` names some of them; `words` says what becomes of them."""

    title: str
    number: int
    lines: tuple[Named, ...] = ()
    words: str = ""
    numbers: tuple[tuple[str, int], ...] = ()
    """How many of them are how: `("green", 12)`."""

    @property
    def more(self) -> int:
        return self.number - len(self.lines) if self.lines else 0


Asked = Callable[[Scope], AffectedPart | None]
PARTS: list[tuple[int, Asked]] = []


def register_affected(part: Asked, rank: int) -> None:
    """Say at `AppConfig.ready` what of an app a change of the tree touches (None: nothing); lowest rank first."""
    PARTS.append((rank, part))


def affected(scope: Scope) -> list[AffectedPart]:
    """Everything that a change touches."""
    ranked = sorted(PARTS, key=lambda pair: pair[0])
    return [found for _, part in ranked if (found := part(scope)) is not None]


def themes(scope: Scope) -> AffectedPart | None:
    rows = scope.rows(THEMES.name)
    number = rows.count()
    lines = (Named(name, reverse("taxonomy:theme", args=[pk])) for pk, name in rows.values_list("pk", "name")[:NAMED])
    return AffectedPart("Themes", number, tuple(lines)) if number else None


def saved_views(scope: Scope) -> AffectedPart | None:
    """Shared views whose filters name a node that is touched; people's own are theirs to look after."""
    found = []
    rows = SavedView.objects.filter(shared=True, query__contains="node=").order_by("-id")[:LOOKED_AT]
    for view in rows:
        named = {int(value) for value in parse_qs(view.query).get("node", ()) if value.isascii() and value.isdigit()}
        if named & scope.nodes and view.list_name in PAGES:
            words = f"{view.name} ({LISTS[view.list_name].title})"
            found.append(Named(words, f"{reverse(PAGES[view.list_name])}?{view.query}"))
    if not found:
        return None
    return AffectedPart("Saved views", len(found), tuple(found[:NAMED]), "They show what becomes of the label.")
