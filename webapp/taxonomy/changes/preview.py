"""What a change would do, before anything is done: nodes before and after, and everything that it touches."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.taxonomy.changes.affected import AffectedPart, Scope, affected
from webapp.taxonomy.changes.delta import Delta, NodeStep, paths_changed
from webapp.taxonomy.changes.draft import TreeDraft
from webapp.taxonomy.changes.services import drawn, serial
from webapp.taxonomy.changes.wishes import Wish
from webapp.taxonomy.labels import SEPARATOR

LINES = 12
"""So many nodes are shown before and after; of more, how many there are."""


@dataclass(frozen=True)
class NodeLine:
    """A node before and after, in words; "" where it is not there."""

    pk: int
    before: str
    after: str
    into: str = ""
    """Of one that goes: what its address leads to."""


@dataclass(frozen=True)
class ChangePreview:
    """`serial` is the state of the tree that it was looked at in: who carries it out says so."""

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


def previewed(wish: Wish) -> ChangePreview:
    """Look at a wish. Raises what drawing it raises."""
    now = serial()
    draft, delta, words = drawn(wish)
    scope = scope_of(draft, delta)
    steps = sorted(delta.nodes, key=lambda step: (step.after is None, step.pk))
    lines = tuple(_line(draft, step) for step in steps[:LINES])
    moved = {kind: len(delta.moved(kind)) for kind in ("environments", "themes")}
    return ChangePreview(wish.kind, words, now, lines, len(steps), len(scope.nodes), tuple(affected(scope)), **moved)


def scope_of(draft: TreeDraft, delta: Delta) -> Scope:
    nodes = {pk for pk in paths_changed(draft, delta) if pk in draft.was}
    nodes |= {step.pk for step in delta.nodes if step.before is not None}
    return Scope(frozenset(nodes), {kind: tuple(moves) for kind, moves in delta.hung.items() if moves})


def _line(draft: TreeDraft, step: NodeStep) -> NodeLine:
    after = draft.words(step.pk) if step.after is not None else ""
    into = draft.words(draft.home(step.into)) if step.after is None and step.into is not None else ""
    return NodeLine(step.pk, _was(draft, step.pk), after, into)


def _was(draft: TreeDraft, pk: int) -> str:
    """A node with those above it, as they are in the database."""
    names: list[str] = []
    at: int | None = pk
    while at is not None and at in draft.was:
        names.append(draft.was[at].name)
        at = draft.was[at].parent
    return SEPARATOR.join(reversed(names))
