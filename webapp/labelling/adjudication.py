"""Adjudication: the items people disagree on, most disagreement first, and how an adjudicator settles them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

from django.db import transaction
from django.db.models import Count

from synthesis.errors import InputError
from synthesis.taxonomy.agreement import measure_disagreement
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict, NotFound
from webapp.common.templatetags.show import counted
from webapp.labelling.answers import LabelChoice, build_label_values
from webapp.labelling.frozen import FrozenTree
from webapp.labelling.grouping.label_groups import is_lone
from webapp.labelling.models import Label, LabelItem, LabelSession, SessionKind, SessionState, Settlement
from webapp.labelling.rights import require_adjudicator
from webapp.labelling.sessions import APPLIED, lock_session
from webapp.labelling.visibility import closed_labels


@dataclass(frozen=True)
class Dispute:
    """An item, the labels of the last closed round that asked it, and how far they lie apart.

    `distance` is the mean distance of each two people's labels in the tree, None if fewer than two labelled it; `odd`
    is the person who differs from all others. Models' labels are listed beside these and count for neither.
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
    """By person: the group's name, and how many labels it has; without a name the label is ungrouped."""
    distance: float


@dataclass(frozen=True)
class RankedItem:
    """The disagreement on an item, without its rows: of thousands a page shows few."""

    item: int
    position: int
    distance: float | None
    is_settled: bool


def newest_labels(session: LabelSession, items: Collection[int] | None = None) -> dict[int, list[Label]]:
    """Return by item (all, or the given ones) the labels of the last closed round that asked it."""
    labels = closed_labels(session)
    labels_by_item: dict[int, list[Label]] = {}
    for label in labels if items is None else labels.filter(item__in=items):
        item_labels = labels_by_item.setdefault(label.item_id, [])
        if item_labels and item_labels[0].round_id != label.round_id:
            item_labels.clear()
        item_labels.append(label)
    return labels_by_item


def rank_items(session: LabelSession, *, all_items: bool = False) -> list[RankedItem]:
    """Return the items people disagree on, the most first; with `all_items` also those they agree on. Known answers
    are left out."""
    items = session.items.filter(gold__isnull=True).order_by("position")
    if session.kind == SessionKind.MERGE:
        ranked_items = [
            RankedItem(one.item.pk, one.item.position, one.distance, one.settlement is not None)
            for one in _read_disputes(session, list(items.values_list("pk", flat=True)))
        ]
    else:
        nodes_by_item = _newest_nodes(session)
        tree = FrozenTree.of(session)
        distance = cache(lambda nodes: measure_disagreement(dict(enumerate(map(tree.path, nodes)))).distance)
        rows = items.values_list("pk", "position", "settlement")
        ranked_items = [
            RankedItem(pk, position, distance(tuple(nodes_by_item.get(pk, ()))), settled is not None)
            for pk, position, settled in rows
        ]
    if not all_items:
        ranked_items = [one for one in ranked_items if one.distance != 0]
    return sorted(ranked_items, key=lambda one: (-(one.distance if one.distance is not None else 2.0), one.position))


def _newest_nodes(session: LabelSession) -> dict[int, list[int | None]]:
    """Return by item the nodes on which people placed it in the last closed round that asked it."""
    rows = closed_labels(session).filter(user__isnull=False).values_list("item", "round", "node")
    round_by_item: dict[int, int] = {}
    nodes_by_item: dict[int, list[int | None]] = {}
    for item, number, node in rows:
        if round_by_item.get(item) != number:
            round_by_item[item], nodes_by_item[item] = number, []
        nodes_by_item[item].append(node)
    return nodes_by_item


def list_disputes(session: LabelSession, *, all_items: bool = False) -> list[Dispute]:
    """Return the items people disagree on with all their rows, in the order of `rank_items`."""
    return load_disputes(session, rank_items(session, all_items=all_items))


def load_disputes(session: LabelSession, chosen: Sequence[RankedItem]) -> list[Dispute]:
    """Return these items with their labels, in this order."""
    by_item = {one.item.pk: one for one in _read_disputes(session, [one.item for one in chosen])}
    return [by_item[one.item] for one in chosen]


def _read_disputes(session: LabelSession, items: Sequence[int]) -> list[Dispute]:
    tree, labels = FrozenTree.of(session), newest_labels(session, items)
    rows = session.items.filter(pk__in=items).select_related("settlement__by")
    if session.kind == SessionKind.PLACE:
        rows = rows.defer("content")
    return [_build_dispute(tree, item, labels.get(item.pk, [])) for item in rows]


def _build_dispute(tree: FrozenTree, item: LabelItem, labels: Sequence[Label]) -> Dispute:
    people = tuple(label for label in labels if label.user_id is not None)
    judges = tuple(label for label in labels if label.user_id is None)
    if any(label.groups is not None for label in people):
        parted_rows = compare_grouped_labels(item, people)
        mean = sum(one.distance for one in parted_rows) / len(parted_rows) if parted_rows and len(people) > 1 else None
        return Dispute(item, people, judges, mean)
    disagreements = measure_disagreement({label.user_id: tree.path(label.node) for label in people})
    odd = disagreements.odd if isinstance(disagreements.odd, int) else None
    return Dispute(item, people, judges, disagreements.distance, odd)


def compare_grouped_labels(item: LabelItem, labels: Sequence[Label]) -> list[PartedLabel]:
    """Return the labels of a list as people grouped them, those with the most disagreement first."""
    of_person = [_map_label_groups(label.groups or []) for label in labels]
    parted = []
    for one in item.content["labels"]:
        groups = [groups[one["id"]] for groups in of_person]
        apart = [1 - len(a[1] & b[1]) / len(a[1] | b[1]) for a, b in combinations(groups, 2)]
        distance = sum(apart) / len(apart) if apart else 0.0
        named = tuple((name, len(members)) for name, members in groups)
        parted.append(PartedLabel(one["id"], one["name"], one["parent_name"], named, distance))
    return sorted(parted, key=lambda one: -one.distance)


def _map_label_groups(groups: Sequence[Mapping[str, Any]]) -> dict[int, tuple[str, set[int]]]:
    return {
        pk: ("" if is_lone(group) else group["name"], set(group["labels"]))
        for group in groups
        for pk in group["labels"]
    }


def lock_item(pk: int) -> tuple[LabelSession, LabelItem]:
    """Return an item with its session, whose row is locked, in adjudication. Raises NotFound; Conflict."""
    session_id = LabelItem.objects.filter(pk=pk).values_list("session_id", flat=True).first()
    if session_id is None:
        raise NotFound("There is no such item.")
    lock_session(session_id)
    session = LabelSession.objects.get(pk=session_id)
    if session.state == SessionState.APPLIED:
        raise Conflict(APPLIED)
    if session.state != SessionState.CLOSED:
        raise Conflict("People still label: close the round before anything is settled.", code="round_open")
    return session, LabelItem.objects.get(pk=pk)


@transaction.atomic
def settle_item(user: Any, pk: int, given: LabelChoice) -> Settlement:
    """Settle an item: on another node or grouping than any label has, or on one of them.

    Raises NotFound; InputError: it was not asked; Conflict: a round is open, it is applied, or the user may not.
    """
    require_adjudicator(user)
    session, item = lock_item(pk)
    if item.gold is not None:
        raise Conflict("The answer of this item is known: there is nothing to settle.")
    values = build_label_values(session, item, given)
    settlement = {"node": values["node"], "groups": values.get("groups"), "words": values["comment"]}
    same_labels = [
        label for label in newest_labels(session, [item.pk]).get(item.pk, []) if _is_same_answer(label, settlement)
    ]
    return _save_settlement(
        user, session, item, settlement | {"label": same_labels[0] if same_labels else None, "agreed": False}
    )


@transaction.atomic
def settle_with_label(user: Any, pk: int, label: int, words: str = "") -> Settlement:
    """Settle an item as one person, or a model, labelled it. Raises NotFound; InputError; Conflict."""
    require_adjudicator(user)
    session, item = lock_item(pk)
    row = closed_labels(session).filter(pk=label, item=item).first()
    if row is None:
        raise NotFound("There is no such label of this item.")
    if item.gold is not None:
        raise Conflict("The answer of this item is known: there is nothing to settle.")
    values = {"node": row.node, "groups": row.groups, "label": row, "agreed": False, "words": words.strip()[:2_000]}
    return _save_settlement(user, session, item, values)


def _is_same_answer(label: Label, settled: Mapping[str, Any]) -> bool:
    return label.node == settled["node"] and label.groups == settled["groups"]


def _save_settlement(user: Any, session: LabelSession, item: LabelItem, values: dict[str, Any]) -> Settlement:
    row, _ = Settlement.objects.update_or_create(item=item, defaults=values | {"by": user})
    write_audit_entry(user, "label_session.settle", session, item=item.pk)
    update_settled_count(session)
    return row


@transaction.atomic
def unsettle_item(user: Any, pk: int) -> LabelItem:
    """Remove the settlement of an item. Raises NotFound; Conflict."""
    require_adjudicator(user)
    session, item = lock_item(pk)
    Settlement.objects.filter(item=item).delete()
    write_audit_entry(user, "label_session.unsettle", session, item=item.pk)
    update_settled_count(session)
    return item


@transaction.atomic
def settle_agreed_items(user: Any, pk: int) -> int:
    """Settle every open item on which all people, at least two, agree; return how many. Raises NotFound; Conflict."""
    require_adjudicator(user)
    lock_session(pk)
    session = LabelSession.objects.get(pk=pk)
    if session.state != SessionState.CLOSED:
        raise Conflict("People still label." if session.state == SessionState.OPEN else APPLIED, code="round_open")
    open_ones = [one for one in rank_items(session, all_items=True) if one.distance == 0 and not one.is_settled]
    agreed = load_disputes(session, open_ones)
    Settlement.objects.bulk_create(
        Settlement(item=one.item, by=user, node=first.node, groups=first.groups, label=first, agreed=True)
        for one in agreed
        for first in one.labels[:1]
    )
    write_audit_entry(user, "label_session.settle_agreed", session, items=len(agreed))
    update_settled_count(session)
    return len(agreed)


def update_settled_count(session: LabelSession) -> int:
    """Update the session's count of settled items; the caller has locked its row."""
    number = Settlement.objects.filter(item__session=session).aggregate(n=Count("pk"))["n"]
    LabelSession.objects.filter(pk=session.pk).update(settled_count=number)
    session.settled_count = number
    return number


def require_settled(session: LabelSession) -> None:
    """Raise InputError if some items are not settled."""
    left = session.item_count - session.settled_count
    if left:
        be = "is" if left == 1 else "are"
        raise InputError(
            f"{left} of {counted(session.item_count, 'item')} {be} not settled yet. Settle them, then apply."
        )
