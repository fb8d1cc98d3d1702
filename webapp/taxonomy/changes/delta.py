"""What a change differs in: nodes before and after, and things with the node they hung on and the one they hang on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webapp.errors import Conflict
from webapp.taxonomy.changes.draft import TreeDraft
from webapp.taxonomy.changes.hung import KINDS
from webapp.taxonomy.models import LEVELS

Moves = dict[int, tuple[int, int]]
"""Things, each with the node that it hung on before and the one after."""


@dataclass(frozen=True)
class Shape:
    """What a node is called, below which one it stands and when it was made ("": now)."""

    parent: int | None
    name: str
    made: str = ""


@dataclass(frozen=True)
class NodeStep:
    """A node before and after; None: it is not there. `into` is where its address leads while it is not."""

    pk: int
    before: Shape | None
    after: Shape | None
    into: int | None = None


@dataclass(frozen=True)
class Delta:
    nodes: tuple[NodeStep, ...] = ()
    hung: Mapping[str, Moves] = field(default_factory=dict)
    """By kind (`hung.KINDS`)."""

    def moved(self, kind: str) -> Moves:
        return self.hung.get(kind, {})

    @property
    def is_empty(self) -> bool:
        return not self.nodes and not any(self.hung.values())

    def node_ids(self) -> set[int]:
        """The nodes it writes, those that they stood and stand below, and those that things come from and go to."""
        found: set[int | None] = set()
        for step in self.nodes:
            shapes = [shape for shape in (step.before, step.after) if shape is not None]
            found |= {step.pk, step.into, *(shape.parent for shape in shapes)}
        for moves in self.hung.values():
            found |= {node for pair in moves.values() for node in pair}
        return {pk for pk in found if pk is not None}

    def renumbered(self, made: Mapping[int, int]) -> Delta:
        """With the ids of new nodes, instead of those that the draft gave them."""

        def now(pk: int) -> int:
            return made.get(pk, pk)

        def shaped(shape: Shape | None) -> Shape | None:
            parent = shape.parent if shape is not None else None
            return shape and Shape(now(parent) if parent is not None else None, shape.name, shape.made)

        steps = (NodeStep(now(one.pk), shaped(one.before), shaped(one.after), one.into) for one in self.nodes)
        hung = {
            kind: {thing: (now(source), now(to)) for thing, (source, to) in moves.items()}
            for kind, moves in self.hung.items()
        }
        return Delta(tuple(steps), hung)

    def as_json(self) -> dict[str, Any]:
        return {
            "nodes": [[one.pk, _listed(one.before), _listed(one.after), one.into] for one in self.nodes],
            "hung": {kind: list(_grouped(moves)) for kind, moves in self.hung.items() if moves},
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Delta:
        steps = (
            NodeStep(pk, before and Shape(*before), after and Shape(*after), into)
            for pk, before, after, into in value["nodes"]
        )
        hung = {
            kind: {thing: (source, to) for source, to, things in groups for thing in things}
            for kind, groups in value["hung"].items()
        }
        return cls(tuple(steps), hung)


def _listed(shape: Shape | None) -> list[Any] | None:
    return [shape.parent, shape.name, shape.made] if shape is not None else None


def _grouped(moves: Moves) -> Iterator[list[Any]]:
    groups: dict[tuple[int, int], list[int]] = {}
    for thing, pair in moves.items():
        groups.setdefault(pair, []).append(thing)
    for (source, to), things in groups.items():
        yield [source, to, things]


def delta_of(draft: TreeDraft) -> Delta:
    """What a draft differs in from the tree. Raises Conflict: something would be lost, or stand too deep."""
    steps = []
    for pk in sorted({*draft.was, *draft.nodes}, key=abs):
        was, now = draft.was.get(pk), draft.nodes.get(pk)
        before = Shape(was.parent, was.name, was.made) if was else None
        after = Shape(now.parent, now.name, was.made if was else draft.made.get(pk, "")) if now else None
        if before != after:
            steps.append(NodeStep(pk, before, after, draft.into.get(pk) if now is None else draft.origin.get(pk)))
            if after is not None and draft.level(pk) + draft.height(pk) - 1 > LEVELS:
                raise Conflict(f"Below “{after.name}” there would be a fourth level.", code="too_deep")
    delta = Delta(tuple(steps), {name: _moves(draft, name) for name in KINDS})
    _nothing_left(draft, delta)
    return delta


def _moves(draft: TreeDraft, name: str) -> Moves:
    kind, wanted = KINDS[name], draft.hung.get(name, {})
    standing = kind.on(draft.all_of.keys()) | kind.standing(wanted)
    homes = {thing: draft.home(wanted.get(thing, node)) for thing, node in standing.items()}
    return {thing: (node, homes[thing]) for thing, node in sorted(standing.items()) if homes[thing] != node}


def _nothing_left(draft: TreeDraft, delta: Delta) -> None:
    """Raises Conflict: something hangs on a node that would be gone."""
    gone = [step.pk for step in delta.nodes if step.after is None]
    for name, kind in KINDS.items():
        left = kind.on(gone).keys() - delta.moved(name).keys()
        if left:
            words = ", ".join(f"“{called}”" for _, called in kind.names(left, 3))
            raise Conflict(
                f"{len(left):,} {kind.noun}{'s' * (len(left) != 1)} ({words}{', …' * (len(left) > 3)}) would hang "
                f"nowhere. Say which label takes what hangs there.",
                code="not_empty",
            )


def paths_changed(draft: TreeDraft, delta: Delta) -> list[int]:
    """The nodes that have another path then, parents first: those that are written, and all below them."""
    found: dict[int, None] = {}
    for step in delta.nodes:
        if step.after is not None:
            found |= dict.fromkeys(pk for pk in draft.subtree(step.pk) if _path_differs(draft, pk))
    return sorted(found, key=draft.level)


def _path_differs(draft: TreeDraft, pk: int) -> bool:
    was = draft.was.get(pk)
    return was is None or was.path != draft.path(pk)
