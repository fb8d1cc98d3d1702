"""The differences of a change: nodes before and after, and things with the node they hung on and the one they hang
on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webapp.common.errors import Conflict
from webapp.taxonomy.changes.draft import TreeDraft
from webapp.taxonomy.changes.hung import KINDS
from webapp.taxonomy.models import LEVELS

Moves = dict[int, tuple[int, int]]
"""Things, each with the node that it hung on before and the one after."""


@dataclass(frozen=True)
class Shape:
    """The name of a node, its parent, and its creation time ("": now)."""

    parent: int | None
    name: str
    made: str = ""


@dataclass(frozen=True)
class NodeStep:
    """A node before and after; None: it does not exist. `into` is the target of its address while it does not."""

    pk: int
    before: Shape | None
    after: Shape | None
    into: int | None = None


@dataclass(frozen=True)
class Delta:
    nodes: tuple[NodeStep, ...] = ()
    hung: Mapping[str, Moves] = field(default_factory=dict)
    """By kind (`hung.KINDS`)."""

    def get_moves(self, kind: str) -> Moves:
        return self.hung.get(kind, {})

    @property
    def is_empty(self) -> bool:
        return not self.nodes and not any(self.hung.values())

    def node_ids(self) -> set[int]:
        """Return the nodes it writes, their parents before and after, and those that things come from and go to."""
        found: set[int | None] = set()
        for step in self.nodes:
            shapes = [shape for shape in (step.before, step.after) if shape is not None]
            found |= {step.pk, step.into, *(shape.parent for shape in shapes)}
        for moves in self.hung.values():
            found |= {node for pair in moves.values() for node in pair}
        return {pk for pk in found if pk is not None}

    def renumber_nodes(self, made: Mapping[int, int]) -> Delta:
        """Return the delta with the ids of new nodes, instead of those that the draft gave them."""

        def map_id(pk: int) -> int:
            return made.get(pk, pk)

        def map_shape(shape: Shape | None) -> Shape | None:
            parent = shape.parent if shape is not None else None
            return shape and Shape(map_id(parent) if parent is not None else None, shape.name, shape.made)

        steps = (NodeStep(map_id(one.pk), map_shape(one.before), map_shape(one.after), one.into) for one in self.nodes)
        hung = {
            kind: {thing: (map_id(source), map_id(to)) for thing, (source, to) in moves.items()}
            for kind, moves in self.hung.items()
        }
        return Delta(tuple(steps), hung)

    def as_json(self) -> dict[str, Any]:
        return {
            "nodes": [
                [one.pk, _serialize_shape(one.before), _serialize_shape(one.after), one.into] for one in self.nodes
            ],
            "hung": {kind: list(_group_moves(moves)) for kind, moves in self.hung.items() if moves},
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


def _serialize_shape(shape: Shape | None) -> list[Any] | None:
    return [shape.parent, shape.name, shape.made] if shape is not None else None


def _group_moves(moves: Moves) -> Iterator[list[Any]]:
    groups: dict[tuple[int, int], list[int]] = {}
    for thing, pair in moves.items():
        groups.setdefault(pair, []).append(thing)
    for (source, to), things in groups.items():
        yield [source, to, things]


def build_delta(draft: TreeDraft) -> Delta:
    """Return the differences of a draft to the tree. Raises Conflict: something would be lost, or be too deep."""
    steps = []
    for pk in sorted({*draft.was, *draft.nodes}, key=abs):
        was, now = draft.was.get(pk), draft.nodes.get(pk)
        before = Shape(was.parent, was.name, was.made) if was else None
        after = Shape(now.parent, now.name, was.made if was else draft.made.get(pk, "")) if now else None
        if before != after:
            steps.append(NodeStep(pk, before, after, draft.into.get(pk) if now is None else draft.origin.get(pk)))
            if after is not None and draft.level(pk) + draft.height(pk) - 1 > LEVELS:
                raise Conflict(f"Below “{after.name}” there would be a fourth level.", code="too_deep")
    delta = Delta(tuple(steps), {name: _collect_moves(draft, name) for name in KINDS})
    _require_nothing_left(draft, delta)
    return delta


def _collect_moves(draft: TreeDraft, name: str) -> Moves:
    kind, wanted = KINDS[name], draft.hung.get(name, {})
    standing = kind.on(draft.all_of.keys()) | kind.standing(wanted)
    homes = {thing: draft.home(wanted.get(thing, node)) for thing, node in standing.items()}
    return {thing: (node, homes[thing]) for thing, node in sorted(standing.items()) if homes[thing] != node}


def _require_nothing_left(draft: TreeDraft, delta: Delta) -> None:
    """Raise Conflict if something hangs on a node that would be gone."""
    removed_ids = [step.pk for step in delta.nodes if step.after is None]
    for name, kind in KINDS.items():
        left_things = kind.on(removed_ids).keys() - delta.get_moves(name).keys()
        if left_things:
            words = ", ".join(f"“{called}”" for _, called in kind.names(left_things, 3))
            raise Conflict(
                f"{len(left_things):,} {kind.noun}{'s' * (len(left_things) != 1)} "
                f"({words}{', …' * (len(left_things) > 3)}) would hang nowhere. "
                "Say which label takes what hangs there.",
                code="not_empty",
            )


def list_repathed_nodes(draft: TreeDraft, delta: Delta) -> list[int]:
    """Return the nodes that get another path, parents first: those that are written, and all below them."""
    found: dict[int, None] = {}
    for step in delta.nodes:
        if step.after is not None:
            found |= dict.fromkeys(pk for pk in draft.subtree(step.pk) if _has_other_path(draft, pk))
    return sorted(found, key=draft.level)


def _has_other_path(draft: TreeDraft, pk: int) -> bool:
    was = draft.was.get(pk)
    return was is None or was.path != draft.path(pk)
