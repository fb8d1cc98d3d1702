"""Items given to a named person: sent by the person who has one in hand, or assigned by an editor of queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from webapp.accounts.row_log import set_actor
from webapp.common.errors import ChangedMeanwhile, Conflict
from webapp.common.leases import AssignmentState, free_place
from webapp.review.assignments import can_work, filter_own_votes, lock_held_assignment
from webapp.review.models import Assignment, QueueItem, ReviewItemState

NOTE_CHARS = 500


def send_item(user: Any, pk: int, to: Any, note: str = "") -> Assignment:
    """Send the item in hand to another person; from now on only they can take it.

    Raises NotFound; InputError for the note; Conflict if they do not work this queue, or had the item.
    """
    with set_actor(user, clean_text(note).strip()):
        row = lock_held_assignment(user, pk)
        _require_taker(row.item, to, note)
        if to.pk == user.pk:
            raise Conflict("You have this item already. Choose another person.")
        free_place(row, row.item, AssignmentState.SENT)
        _set_assignee(row.item, user, to, note)
    return row


def assign_item(user: Any, item: QueueItem, to: Any, note: str = "", *, seen: int | None = None) -> QueueItem:
    """Give an open item to one person, or with None to all people again; `seen` is its assignee as read, 0 for none.

    Raises InputError for the note; Conflict if it is decided, they do not work this queue, or had it; ChangedMeanwhile.
    """
    with set_actor(user, clean_text(note).strip()):
        row = QueueItem.objects.select_for_update(of=("self",)).select_related("queue", "assignee").get(pk=item.pk)
        if row.state != ReviewItemState.OPEN:
            raise Conflict("Only an open item can be assigned to a person.")
        if seen is not None and seen != (row.assignee_id or 0):
            raise ChangedMeanwhile(f"It is {row.assignee or 'everybody'}'s by now. Nothing was changed: look again.")
        if to is not None:
            _require_taker(row, to, note)
        _set_assignee(row, user, to, note)
    return row


def assign_items(user: Any, items: Iterable[QueueItem], to: Any) -> tuple[int, list[str]]:
    """Give open items to one person, or with None to all people again; return the number given and the refusals."""
    given_count, refusals = 0, []
    for item in items:
        try:
            assign_item(user, item, to)
        except InputError as error:
            refusals.append(str(error))
        else:
            given_count += 1
    return given_count, list(dict.fromkeys(refusals))


def _require_taker(item: QueueItem, to: Any, note: str) -> None:
    """Raise InputError or Conflict if a person cannot take an item."""
    if len(note) > NOTE_CHARS:
        raise InputError(f"Write a note of at most {NOTE_CHARS} characters.")
    if not can_work(to, item.queue):
        raise Conflict(f"{to} does not work this queue.")
    if item.assignments.filter(user=to, state=AssignmentState.DECIDED).exists():
        raise Conflict(f"{to} decided on this item already.")
    if QueueItem.objects.filter(pk=item.pk, gold__isnull=True).filter(Exists(filter_own_votes(to, item.kind))).exists():
        raise Conflict(f"{to} decided on this already, in another queue or on its own page.")


def _set_assignee(item: QueueItem, by: Any, to: Any, note: str) -> None:
    item.assignee, item.sent_by, item.note = to, (by if to is not None else None), clean_text(note).strip()
    item.save(update_fields=["assignee", "sent_by", "note"])
