"""Adjudication: what people disagree on, most of it first, and what an adjudicator makes of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

from django.db import transaction
from django.db.models import Count

from synthesis.errors import InputError
from synthesis.taxonomy.agreement import disagreement
from webapp.accounts.services import audit
from webapp.errors import Conflict, NotFound
from webapp.labelling.answers import LabelChoice, answer_values
from webapp.labelling.frozen import FrozenTree
from webapp.labelling.grouping.label_groups import is_lone
from webapp.labelling.models import Label, LabelItem, LabelSession, SessionKind, SessionState, Settlement
from webapp.labelling.rights import require_adjudicator
from webapp.labelling.sessions import APPLIED, locked_session
from webapp.labelling.visibility import closed_labels
from webapp.templatetags.show import counted


@dataclass(frozen=True)
class Dispute:
    """An item, the labels of the last closed round that asked it, and how far they lie apart.

    `distance` is the mean distance of each two people's labels in the tree, None where fewer than two labelled it;
    `odd` is who stands alone against all others. Models' labels stand beside and count for neither.
    """

    item: LabelItem
    labels: tuple[Label, ...]
    judges: tuple[Label, ...]
    distance: float | None
    odd: int | None = None

    @property
    def settlement(self) -> Settlement | None:
        return getattr(self.item, "settlement", None)


@dataclass(frozen=True)
class PartedLabel:
    """A label of a list, with the group that each person put it in, and how unlike those groups are.

    `distance` is the mean over each two people of 1 - (labels in both groups) / (labels in either).
    """

    id: int
    name: str
    parent_name: str
    groups: tuple[tuple[str, int], ...]
    """By person: the group's name, and how many labels it has; without a name the label stands alone."""
    distance: float


@dataclass(frozen=True)
class RankedItem:
    """How far the labels of an item lie apart, without its rows: of thousands a page shows few."""

    item: int
    position: int
    distance: float | None
    is_settled: bool


def newest_labels(session: LabelSession, items: Collection[int] | None = None) -> dict[int, list[Label]]:
    """By item (of these, where they are named), the labels of the last closed round that asked it."""
    labels = closed_labels(session)
    found: dict[int, list[Label]] = {}
    for label in labels if items is None else labels.filter(item__in=items):
        kept = found.setdefault(label.item_id, [])
        if kept and kept[0].round_id != label.round_id:
            kept.clear()
        kept.append(label)
    return found


def ranked(session: LabelSession, *, all_items: bool = False) -> list[RankedItem]:
    """What people disagree on, the most first; with `all_items` what they agree on too. Known answers are left out."""
    items = session.items.filter(gold__isnull=True).order_by("position")
    if session.kind == SessionKind.MERGE:
        found = [
            RankedItem(one.item.pk, one.item.position, one.distance, one.settlement is not None)
            for one in _read(session, list(items.values_list("pk", flat=True)))
        ]
    else:
        said = _newest_nodes(session)
        tree = FrozenTree.of(session)
        distance = cache(lambda nodes: disagreement(dict(enumerate(map(tree.path, nodes)))).distance)
        rows = items.values_list("pk", "position", "settlement")
        found = [
            RankedItem(pk, position, distance(tuple(said.get(pk, ()))), settled is not None)
            for pk, position, settled in rows
        ]
    if not all_items:
        found = [one for one in found if one.distance != 0]
    return sorted(found, key=lambda one: (-(one.distance if one.distance is not None else 2.0), one.position))


def _newest_nodes(session: LabelSession) -> dict[int, list[int | None]]:
    """By item, where people placed it in the last closed round that asked it."""
    rows = closed_labels(session).filter(user__isnull=False).values_list("item", "round", "node")
    asked: dict[int, int] = {}
    found: dict[int, list[int | None]] = {}
    for item, number, node in rows:
        if asked.get(item) != number:
            asked[item], found[item] = number, []
        found[item].append(node)
    return found


def disputes(session: LabelSession, *, all_items: bool = False) -> list[Dispute]:
    """What people disagree on with all its rows, in the order of `ranked`."""
    return opened_disputes(session, ranked(session, all_items=all_items))


def opened_disputes(session: LabelSession, chosen: Sequence[RankedItem]) -> list[Dispute]:
    """These items with their labels, in this order."""
    by_item = {one.item.pk: one for one in _read(session, [one.item for one in chosen])}
    return [by_item[one.item] for one in chosen]


def _read(session: LabelSession, items: Sequence[int]) -> list[Dispute]:
    tree, labels = FrozenTree.of(session), newest_labels(session, items)
    rows = session.items.filter(pk__in=items).select_related("settlement__by")
    if session.kind == SessionKind.PLACE:
        rows = rows.defer("content")
    return [_dispute(tree, item, labels.get(item.pk, [])) for item in rows]


def _dispute(tree: FrozenTree, item: LabelItem, labels: Sequence[Label]) -> Dispute:
    people = tuple(label for label in labels if label.user_id is not None)
    judges = tuple(label for label in labels if label.user_id is None)
    if any(label.groups is not None for label in people):
        parted = parted_labels(item, people)
        mean = sum(one.distance for one in parted) / len(parted) if parted and len(people) > 1 else None
        return Dispute(item, people, judges, mean)
    said = disagreement({label.user_id: tree.path(label.node) for label in people})
    odd = said.odd if isinstance(said.odd, int) else None
    return Dispute(item, people, judges, said.distance, odd)


def parted_labels(item: LabelItem, labels: Sequence[Label]) -> list[PartedLabel]:
    """The labels of a list as people grouped them, those that people part on most first."""
    of_person = [_group_of(label.groups or []) for label in labels]
    found = []
    for one in item.content["labels"]:
        groups = [groups[one["id"]] for groups in of_person]
        apart = [1 - len(a[1] & b[1]) / len(a[1] | b[1]) for a, b in combinations(groups, 2)]
        distance = sum(apart) / len(apart) if apart else 0.0
        named = tuple((name, len(members)) for name, members in groups)
        found.append(PartedLabel(one["id"], one["name"], one["parent_name"], named, distance))
    return sorted(found, key=lambda one: -one.distance)


def _group_of(groups: Sequence[Mapping[str, Any]]) -> dict[int, tuple[str, set[int]]]:
    return {
        pk: ("" if is_lone(group) else group["name"], set(group["labels"]))
        for group in groups
        for pk in group["labels"]
    }


def locked_item(pk: int) -> tuple[LabelSession, LabelItem]:
    """An item with its session, whose row is locked, in adjudication. Raises NotFound; Conflict."""
    known = LabelItem.objects.filter(pk=pk).values_list("session_id", flat=True).first()
    if known is None:
        raise NotFound("There is no such item.")
    locked_session(known)
    session = LabelSession.objects.get(pk=known)
    if session.state == SessionState.APPLIED:
        raise Conflict(APPLIED)
    if session.state != SessionState.CLOSED:
        raise Conflict("People still label: close the round before anything is settled.", code="round_open")
    return session, LabelItem.objects.get(pk=pk)


@transaction.atomic
def settle(user: Any, pk: int, given: LabelChoice) -> Settlement:
    """Say what becomes of an item: another node or grouping than anybody's, or one that was said.

    Raises NotFound; InputError: it was not asked; Conflict: a round is open, it is applied, or who asks.
    """
    require_adjudicator(user)
    session, item = locked_item(pk)
    if item.gold is not None:
        raise Conflict("The answer of this item is known: there is nothing to settle.")
    values = answer_values(session, item, given)
    settled = {"node": values["node"], "groups": values.get("groups"), "words": values["comment"]}
    same = [label for label in newest_labels(session, [item.pk]).get(item.pk, []) if _says(label, settled)]
    return _keep(user, session, item, settled | {"label": same[0] if same else None, "agreed": False})


@transaction.atomic
def take(user: Any, pk: int, label: int, words: str = "") -> Settlement:
    """Settle an item as one person, or a model, labelled it. Raises NotFound; InputError; Conflict."""
    require_adjudicator(user)
    session, item = locked_item(pk)
    row = closed_labels(session).filter(pk=label, item=item).first()
    if row is None:
        raise NotFound("There is no such label of this item.")
    if item.gold is not None:
        raise Conflict("The answer of this item is known: there is nothing to settle.")
    values = {"node": row.node, "groups": row.groups, "label": row, "agreed": False, "words": words.strip()[:2_000]}
    return _keep(user, session, item, values)


def _says(label: Label, settled: Mapping[str, Any]) -> bool:
    return label.node == settled["node"] and label.groups == settled["groups"]


def _keep(user: Any, session: LabelSession, item: LabelItem, values: dict[str, Any]) -> Settlement:
    row, _ = Settlement.objects.update_or_create(item=item, defaults=values | {"by": user})
    audit(user, "label_session.settle", session, item=item.pk)
    count_settled(session)
    return row


@transaction.atomic
def unsettle(user: Any, pk: int) -> LabelItem:
    """Open an item again. Raises NotFound; Conflict."""
    require_adjudicator(user)
    session, item = locked_item(pk)
    Settlement.objects.filter(item=item).delete()
    audit(user, "label_session.unsettle", session, item=item.pk)
    count_settled(session)
    return item


@transaction.atomic
def settle_agreed(user: Any, pk: int) -> int:
    """Settle every open item on which all people, two at least, said the same; how many. Raises NotFound; Conflict."""
    require_adjudicator(user)
    locked_session(pk)
    session = LabelSession.objects.get(pk=pk)
    if session.state != SessionState.CLOSED:
        raise Conflict("People still label." if session.state == SessionState.OPEN else APPLIED, code="round_open")
    open_ones = [one for one in ranked(session, all_items=True) if one.distance == 0 and not one.is_settled]
    agreed = opened_disputes(session, open_ones)
    Settlement.objects.bulk_create(
        Settlement(item=one.item, by=user, node=first.node, groups=first.groups, label=first, agreed=True)
        for one in agreed
        for first in one.labels[:1]
    )
    audit(user, "label_session.settle_agreed", session, items=len(agreed))
    count_settled(session)
    return len(agreed)


def count_settled(session: LabelSession) -> int:
    """Keep the session's count of settled items; its row is locked."""
    number = Settlement.objects.filter(item__session=session).aggregate(n=Count("pk"))["n"]
    LabelSession.objects.filter(pk=session.pk).update(settled_count=number)
    session.settled_count = number
    return number


def require_settled(session: LabelSession) -> None:
    """Raises InputError: some items are open."""
    left = session.item_count - session.settled_count
    if left:
        be = "is" if left == 1 else "are"
        raise InputError(
            f"{left} of {counted(session.item_count, 'item')} {be} not settled yet. Settle them, then apply."
        )
