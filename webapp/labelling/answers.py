"""Answers on items: checked against what was asked, submitted, kept as a draft, and taken back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict, NotFound
from webapp.common.leases import AssignmentState, finish_hold, reopen_hold
from webapp.labelling.frozen import FrozenTree
from webapp.labelling.grouping.label_groups import clean_groups, list_renamed_labels, map_group_names
from webapp.labelling.models import (
    Confidence,
    Label,
    LabelDraft,
    LabelItem,
    LabelSession,
    Reservation,
    SessionKind,
)
from webapp.labelling.reservations import require_held, require_reservation

COMMENT_CHARS = 2_000
DRAFT_BYTES = 64 << 10


@dataclass(frozen=True)
class Placing:
    """The node of a thing. Without a `node` no node fits; `second` is another one that fits too."""

    node: int | None
    second: int | None = None


@dataclass(frozen=True)
class LabelChoice:
    """The filled-in form of a label: a placing or a grouping, the confidence, and a comment."""

    placing: Placing | None = None
    groups: Sequence[Mapping[str, Any]] | None = None
    confidence: int = Confidence.FAIR
    comment: str = ""
    guideline: int = 0
    """The number of the version that they saw; 0: the newest."""
    seconds: float | None = None


def clean_placing(tree: FrozenTree, given: Placing) -> Placing:
    """Return a placing on nodes that were asked. Raises InputError."""
    for pk in (given.node, given.second):
        if pk is not None and tree.get(pk) is None:
            raise InputError(f"There is no node {pk} in the tree of this session.")
    if given.node is None and given.second is not None:
        raise InputError("Name the first node before a second one.")
    if given.node is not None and given.second == given.node:
        raise InputError("The second node is the first one. Choose another, or none.")
    return given


def clean_comment(text: str) -> str:
    words = clean_text(text).strip()
    if len(words) > COMMENT_CHARS:
        raise InputError(f"A comment may have {COMMENT_CHARS:,} characters; this one has {len(words):,}.")
    return words


@transaction.atomic
def submit_label(user: Any, pk: int, given: LabelChoice) -> Label:
    """Submit a label for an item that the person holds. Raises NotFound; InputError; Conflict: it is no longer held."""
    row = require_held(user, pk)
    session, item = LabelSession.objects.get(pk=row.ask.session_id), row.ask.item
    values = build_label_values(session, item, given)
    number = given.guideline
    versions = session.guidelines.order_by("-number")
    guideline = (versions.filter(number=number) if number else versions).first()
    if guideline is None:
        raise InputError(f"The guideline of this session has no version {number}.")
    finish_hold(row, given.seconds)
    label = Label.objects.create(
        ask=row.ask, item=item, round=row.round, reservation=row, user=user, guideline=guideline,
        seconds=row.seconds, gold_right=None if item.gold is None else values["node"] == item.gold, **values,
    )  # fmt: skip
    LabelDraft.objects.filter(ask=row.ask, user=user).delete()
    return label


def build_label_values(session: LabelSession, item: LabelItem, given: LabelChoice) -> dict[str, Any]:
    """Return the columns of a label. Raises InputError for values that cannot be used."""
    if given.confidence not in Confidence.values:
        raise InputError("Say how sure you are: 1 a guess, 2 fair, 3 sure.")
    values: dict[str, Any] = {"confidence": given.confidence, "comment": clean_comment(given.comment)}
    if session.kind == SessionKind.MERGE:
        if given.groups is None:
            raise InputError("This session groups labels: say which labels are together.")
        return values | {"groups": clean_groups(item, given.groups), "node": None, "second": None}
    if given.placing is None:
        raise InputError("Choose the node it belongs on, or say that no node fits.")
    placing = clean_placing(FrozenTree.of(session), given.placing)
    return values | {"node": placing.node, "second": placing.second}


@transaction.atomic
def undo_label(user: Any, pk: int) -> Reservation:
    """Take back one's own label while its round is open: the item is held again, with what was filled in as its draft.

    Raises NotFound; Conflict: the round is closed, or it was undone.
    """
    label = Label.objects.filter(pk=pk, user=user).select_related("reservation", "round").first()
    if label is None or label.reservation is None:
        raise NotFound("There is no such label of yours.")
    row = require_reservation(user, label.reservation.pk)
    label = Label.objects.select_for_update(of=("self",)).get(pk=pk)
    if not row.round.is_open:
        raise Conflict("This round is closed; its labels stay. Say what you think now in the discussion.")
    if label.undone_at is not None or row.state != AssignmentState.DECIDED:
        raise Conflict("This label was taken back already.")
    label.undone_at = timezone.now()
    label.save(update_fields=["undone_at"])
    reopen_hold(row)
    body: dict[str, Any] = {
        "node": label.node,
        "second": label.second,
        "none": label.groups is None and label.node is None,
    }
    if label.groups is not None:
        body = {"groups": map_group_names(row.ask.item, label.groups), "renamed": list_renamed_labels(label.groups)}
    body |= {"confidence": label.confidence, "comment": label.comment}
    LabelDraft.objects.update_or_create(ask=row.ask, user=user, defaults={"body": body})
    write_audit_entry(user, "label.undo", label)
    return row


@transaction.atomic
def save_draft(user: Any, pk: int, body: Mapping[str, Any]) -> LabelDraft:
    """Store what is filled in for a reserved item, even after the reservation ended. Raises NotFound; InputError."""
    row = Reservation.objects.filter(pk=pk, user=user).select_related("ask").first()
    if row is None:
        raise NotFound("There is no such item of yours.")
    cleaned_body = {name: clean_text(value) if isinstance(value, str) else value for name, value in body.items()}
    if len(json.dumps(cleaned_body)) > DRAFT_BYTES:
        raise InputError(f"A draft may have {DRAFT_BYTES >> 10} KiB; shorten the comment.")
    draft, _ = LabelDraft.objects.update_or_create(ask=row.ask, user=user, defaults={"body": cleaned_body})
    return draft


def find_draft(user: Any, ask: int) -> LabelDraft | None:
    return LabelDraft.objects.filter(ask=ask, user=user).first()
