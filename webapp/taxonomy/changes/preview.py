"""Preview of a change: nodes before and after, and everything that it touches."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.taxonomy.changes.affected import AffectedPart, Scope, list_affected_parts
from webapp.taxonomy.changes.delta import Delta, NodeStep, list_repathed_nodes
from webapp.taxonomy.changes.draft import TreeDraft
from webapp.taxonomy.changes.services import draw_wish, get_serial
from webapp.taxonomy.changes.wishes import Wish
from webapp.taxonomy.labels import SEPARATOR

LINES = 12
"""Number of nodes that are shown before and after; of more, only the number."""


@dataclass(frozen=True)
class NodeLine:
    """A node before and after, in words; "" if it does not exist."""

    pk: int
    before: str
    after: str
    into: str = ""
    """Of one that goes: what its address leads to."""


@dataclass(frozen=True)
class ChangePreview:
    """A preview of a change. `serial` is the state of the tree that it was made for; carrying it out requires the
    same."""

    kind: str
    words: str
    serial: int
    lines: tuple[NodeLine, ...]
    nodes: int
    """How many nodes get another name or place, are new or go."""
    readdressed: int
    """How many nodes get another path, those below included, or go."""
    parts: tuple[AffectedPart, ...]
    environments: int = 0
    """How many environments hang elsewhere then; `themes` likewise. The history counts the same."""
    themes: int = 0

    @property
    def more(self) -> int:
        return self.nodes - len(self.lines)


def preview_change(wish: Wish) -> ChangePreview:
    """Preview a wish. Raises what drawing it raises."""
    now = get_serial()
    draft, delta, words = draw_wish(wish)
    scope = build_scope(draft, delta)
    steps = sorted(delta.nodes, key=lambda step: (step.after is None, step.pk))
    lines = tuple(_build_line(draft, step) for step in steps[:LINES])
    moved_counts = {kind: len(delta.get_moves(kind)) for kind in ("environments", "themes")}
    return ChangePreview(
        wish.kind, words, now, lines, len(steps), len(scope.nodes), tuple(list_affected_parts(scope)), **moved_counts
    )


def build_scope(draft: TreeDraft, delta: Delta) -> Scope:
    nodes = {pk for pk in list_repathed_nodes(draft, delta) if pk in draft.was}
    nodes |= {step.pk for step in delta.nodes if step.before is not None}
    return Scope(frozenset(nodes), {kind: tuple(moves) for kind, moves in delta.hung.items() if moves})


def _build_line(draft: TreeDraft, step: NodeStep) -> NodeLine:
    after = draft.words(step.pk) if step.after is not None else ""
    into = draft.words(draft.home(step.into)) if step.after is None and step.into is not None else ""
    return NodeLine(step.pk, _describe_former_node(draft, step.pk), after, into)


def _describe_former_node(draft: TreeDraft, pk: int) -> str:
    """Return a node with those above it, as they are in the database."""
    names: list[str] = []
    at: int | None = pk
    while at is not None and at in draft.was:
        names.append(draft.was[at].name)
        at = draft.was[at].parent
    return SEPARATOR.join(reversed(names))
