"""What the settled items of a session make of the tree: things that move, labels that become one, and what hinders it.

Read against the tree as it is now, which others may have changed since the session opened.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from webapp.environments.models import Environment
from webapp.labelling.frozen import FrozenTree
from webapp.labelling.models import LabelSession, PlacedKind, SessionKind, Settlement
from webapp.taxonomy.models import Node, Theme


@dataclass(frozen=True)
class Movement:
    """Things of one kind (`PlacedKind`) that hang elsewhere than where people settled that they belong."""

    kind: str
    node: int
    words: str
    ids: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Merger:
    """Labels of one group: the `sources` become `into`, which is called `name` from then on."""

    into: int
    sources: tuple[int, ...]
    name: str
    words: str
    """The names of all of them, the one that stays first."""


@dataclass(frozen=True)
class Outcome:
    """Everything that changes, in one change. `hindrances` say what cannot be carried out, and why."""

    movements: tuple[Movement, ...] = ()
    mergers: tuple[Merger, ...] = ()
    unchanged: int = 0
    """Settled things that hang where they belong, or on no node that fits; groups of one label that keeps its name."""
    open_items: int = 0
    hindrances: tuple[str, ...] = ()

    @property
    def changes(self) -> int:
        return sum(len(one.ids) for one in self.movements) + len(self.mergers)


def outcome_of(session: LabelSession) -> Outcome:
    """What the settled items come to now."""
    if session.kind == SessionKind.MERGE:
        return _merged(session)
    return _placed(session)


def _placed(session: LabelSession) -> Outcome:
    tree = FrozenTree.of(session)
    settled = Settlement.objects.filter(item__session=session).values_list("item__key", "item__name", "node")
    wanted = {key: (name, node) for key, name, node in settled}
    model = Environment if session.places == PlacedKind.ENVIRONMENT else Theme
    now = dict(model._default_manager.filter(pk__in=wanted).values_list("pk", "node_id"))
    nodes = set(Node.objects.filter(pk__in={node for _, node in wanted.values() if node}).values_list("pk", flat=True))
    moved: dict[int, list[tuple[int, str]]] = {}
    unchanged, hindrances = 0, []
    for key, (name, node) in wanted.items():
        if key not in now:
            hindrances.append(f"“{name}” is gone.")
        elif node is None or now[key] == node:
            unchanged += 1
        elif node not in nodes:
            hindrances.append(f"“{name}” belongs on {tree.words(node)}, which is not in the tree any more.")
        else:
            moved.setdefault(node, []).append((key, name))
    movements = tuple(
        Movement(session.places, node, tree.words(node), tuple(pk for pk, _ in rows), tuple(name for _, name in rows))
        for node, rows in sorted(moved.items(), key=lambda pair: tree.words(pair[0]))
    )
    left = session.item_count - session.settled_count
    return Outcome(movements, (), unchanged, left, tuple(hindrances))


def _merged(session: LabelSession) -> Outcome:
    settlement = Settlement.objects.filter(item__session=session).select_related("item").first()
    if settlement is None or settlement.groups is None:
        return Outcome(open_items=1)
    labels = {label["id"]: label for label in settlement.item.content["labels"]}
    nodes = set(Node.objects.filter(pk__in=labels).values_list("pk", flat=True))
    mergers, hindrances, unchanged = [], [], 0
    for group in settlement.groups:
        gone = [labels[pk]["name"] for pk in group["labels"] if pk not in nodes]
        hindrances += [f"“{name}” is not in the tree any more." for name in gone]
        here = [pk for pk in group["labels"] if pk in nodes]
        if not here:
            continue
        into = _staying(here, labels, group["name"])
        others = tuple(pk for pk in here if pk != into)
        if not others and labels[into]["name"] == group["name"]:
            unchanged += 1
            continue
        words = ", ".join(labels[pk]["name"] for pk in (into, *others))
        mergers.append(Merger(into, others, group["name"], words))
    return Outcome((), tuple(mergers), unchanged, 0, tuple(hindrances))


def _staying(here: list[int], labels: dict[int, dict[str, object]], name: str) -> int:
    """Which label of a group stays: the one that is called so, else the first below the node that most of them are."""
    same = [pk for pk in here if labels[pk]["name"] == name]
    most = Counter(labels[pk]["parent"] for pk in here).most_common(1)[0][0]
    return (same or [pk for pk in here if labels[pk]["parent"] == most])[0]
