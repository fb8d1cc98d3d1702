"""Labels of the closed rounds of a session, read for measuring, and their hash."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F, QuerySet

from synthesis.taxonomy.agreement import Path
from webapp.common.content_store import content_hash
from webapp.labelling.frozen import FrozenTree
from webapp.labelling.models import Label, LabelItem, LabelRound, LabelSession, Settlement
from webapp.labelling.visibility import closed_labels

METHOD = 3
"""Raised if the same labels would be measured differently than before."""


@dataclass(frozen=True)
class Said:
    """One label: the annotator, the item, its path, and the seconds taken."""

    item: int
    annotator: str
    path: Path
    seconds: float | None = None


@dataclass(frozen=True)
class PlaceRound:
    """Labels of a round, and the answers they are compared with. Paths are ids of frozen nodes."""

    number: int
    said: Sequence[Said]
    names: Mapping[Hashable, str]
    categories: Sequence[int]
    """How many nodes could be chosen from at each level."""
    models: frozenset[str] = frozenset()
    """Annotators that are models: they are shown next to the people and count in no measure of the round."""
    settled: Mapping[int, Path] = field(default_factory=dict)
    gold: Mapping[int, Path] = field(default_factory=dict)
    """Items whose answer is known. They show what an annotator is worth, and are no part of the agreement."""


@dataclass(frozen=True)
class MergeRound:
    """Groupings of a round: by annotator, the group of each label."""

    number: int
    groups: Mapping[str, Mapping[int, Hashable]]
    labels: Mapping[int, list[str]]
    """Names of what was grouped, each below the label above it: labels of one name differ by that."""
    models: frozenset[str] = frozenset()
    settled: Mapping[int, Hashable] = field(default_factory=dict)
    """In which group each label ended, once it is settled."""


def closed_rounds(session: LabelSession) -> list[LabelRound]:
    return list(session.rounds.filter(is_open=False).order_by("number"))


def compute_digest(session: LabelSession) -> str:
    """Return the hash of all that is measured. A label is written once, so its number represents it; a settlement
    may change."""
    labels = list(closed_labels(session).order_by("round__number", "pk").values_list("round__number", "pk"))
    settled = list(
        Settlement.objects.filter(item__session=session).order_by("item").values_list("item", "node", "groups")
    )
    return content_hash([METHOD, session.pk, labels, settled])


def read_place_rounds(session: LabelSession) -> list[PlaceRound]:
    """Return every closed round with the labels that were valid when it ended: items that were not asked again keep
    theirs."""
    tree = FrozenTree.of(session)
    offered = [sum(node.level == level for node in tree) for level in (1, 2, 3)]
    gold = {
        pk: tree.path(node)
        for pk, node in LabelItem.objects.filter(session=session, gold__isnull=False).values_list("pk", "gold")
    }
    settled = Settlement.objects.filter(item__session=session).values_list("item", "node")
    labels_by_round = _group_by_round(
        closed_labels(session).annotate(name=F("user__username")), ("item", "node", "seconds")
    )
    names: Mapping[Hashable, str] = {node.id: node.name for node in tree}
    rounds: list[PlaceRound] = []
    stood: dict[int, list[Said]] = {}
    for number, rows in labels_by_round.items():
        round_items: dict[int, list[Said]] = {}
        for name, (item, node, seconds) in rows:
            round_items.setdefault(item, []).append(Said(item, name, tree.path(node), seconds))
        stood |= round_items
        rounds.append(
            PlaceRound(
                number=number,
                said=[one for given in stood.values() for one in given],
                names=names,
                categories=offered,
                models=_list_models(session),
                settled={item: tree.path(node) for item, node in settled},
                gold=gold,
            )
        )
    return rounds


def _name_path(row: Mapping[str, Any]) -> list[str]:
    """Return the name of a label that was grouped, with those above it first."""
    return [row["parent_name"], row["name"]] if row.get("parent") is not None else [row["name"]]


def read_merge_rounds(session: LabelSession) -> list[MergeRound]:
    """Return every closed round of groupings; a person who was not asked again keeps their grouping."""
    item = LabelItem.objects.filter(session=session).first()
    listed_labels = item.content.get("labels", []) if item is not None else []
    settlement = Settlement.objects.filter(item__session=session, groups__isnull=False).first()
    groups_by_round = _group_by_round(closed_labels(session).annotate(name=F("user__username")), ("groups",))
    groups: dict[str, Mapping[int, Hashable]] = {}
    rounds = []
    for number, rows in groups_by_round.items():
        for name, (label_groups,) in rows:
            groups[name] = map_group_numbers(label_groups)
        rounds.append(
            MergeRound(
                number=number,
                groups=dict(groups),
                labels={row["id"]: _name_path(row) for row in listed_labels},
                models=_list_models(session),
                settled=map_group_numbers(settlement.groups) if settlement is not None else {},
            )
        )
    return rounds


def map_group_numbers(groups: Any) -> dict[int, Hashable]:
    """Return by label the number of the group that it was put in."""
    return {label: number for number, group in enumerate(groups or ()) for label in group["labels"]}


def _group_by_round(labels: QuerySet[Label], fields: Sequence[str]) -> dict[int, list[tuple[str, tuple[Any, ...]]]]:
    """Return by number of the round the author and fields of each label."""
    found: dict[int, list[tuple[str, tuple[Any, ...]]]] = {}
    rows = labels.order_by("round__number", "pk").values_list("round__number", "name", "judge", *fields)
    for number, name, judge, *said in rows:
        found.setdefault(number, []).append((name or judge, tuple(said)))
    return found


def _list_models(session: LabelSession) -> frozenset[str]:
    return frozenset(closed_labels(session).exclude(judge="").values_list("judge", flat=True))
