"""Objects that a change affects, part by part: apps register what of theirs hangs on the nodes or names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from django.db.models import QuerySet
from django.urls import reverse

from webapp.common.lists.models import SavedView
from webapp.common.lists.registry import LISTS, PAGES
from webapp.taxonomy.changes.hung import KINDS, THEMES

NAMED = 8
"""Number of each sort that are named with a link."""
LOOKED_AT = 2_000
"""Number of saved views that are read."""


@dataclass(frozen=True)
class Scope:
    """The nodes and things that a change touches: nodes that get another name, place or address, with all below
    them, and things that hang elsewhere afterwards (by kind of `hung.KINDS`)."""

    nodes: frozenset[int]
    moved: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def rows(self, kind: str) -> QuerySet:
        """Return the things of a kind that are touched."""
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
    """A sort of things that a change touches. `lines` names some of them; `words` describes what becomes of them."""

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
    """Register at `AppConfig.ready` what of an app a change of the tree touches (None: nothing); lowest rank first."""
    PARTS.append((rank, part))


def list_affected_parts(scope: Scope) -> list[AffectedPart]:
    """Return everything that a change touches."""
    ranked = sorted(PARTS, key=lambda pair: pair[0])
    return [found for _, part in ranked if (found := part(scope)) is not None]


def find_affected_themes(scope: Scope) -> AffectedPart | None:
    rows = scope.rows(THEMES.name)
    number = rows.count()
    lines = (Named(name, reverse("taxonomy:theme", args=[pk])) for pk, name in rows.values_list("pk", "name")[:NAMED])
    return AffectedPart("Themes", number, tuple(lines)) if number else None


def find_affected_views(scope: Scope) -> AffectedPart | None:
    """Return shared views whose filters name a node that is touched; personal ones are left to their owners."""
    affected_views = []
    rows = SavedView.objects.filter(shared=True, query__contains="node=").order_by("-id")[:LOOKED_AT]
    for view in rows:
        named_nodes = {
            int(value) for value in parse_qs(view.query).get("node", ()) if value.isascii() and value.isdigit()
        }
        if named_nodes & scope.nodes and view.list_name in PAGES:
            words = f"{view.name} ({LISTS[view.list_name].title})"
            affected_views.append(Named(words, f"{reverse(PAGES[view.list_name])}?{view.query}"))
    if not affected_views:
        return None
    return AffectedPart(
        "Saved views", len(affected_views), tuple(affected_views[:NAMED]), "They show what becomes of the label."
    )
