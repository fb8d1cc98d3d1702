"""Items that are given to a named person: sent by who has one in hand, or assigned by who makes queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists

from synthesis.errors import InputError
from synthesis.formats.values import clean
from webapp.accounts.row_log import acting
from webapp.errors import ChangedMeanwhile, Conflict
from webapp.review.assignments import give_up, may_work, require_held, votes_of
from webapp.review.models import Assignment, AssignmentState, QueueItem, ReviewItemState

NOTE_CHARS = 500


def send(user: Any, pk: int, to: Any, note: str = "") -> Assignment:
    """Send the item in hand to another person, whose alone it is from now on.

    Raises NotFound; InputError: the note; Conflict: they do not work this queue, or had the item.
    """
    with acting(user, clean(note).strip()):
        row = require_held(user, pk)
        _require_taker(row.item, to, note)
        if to.pk == user.pk:
            raise Conflict("You have this item already. Choose somebody else.")
        give_up(row, row.item, AssignmentState.SENT)
        _give_to(row.item, user, to, note)
    return row


def assign(user: Any, item: QueueItem, to: Any, note: str = "", *, seen: int | None = None) -> QueueItem:
    """Give an open item to one person, or with None to everybody again; `seen`: whose it was by then, 0 for nobody's.

    Raises InputError: the note; Conflict: it is decided, they do not work this queue, or had it; ChangedMeanwhile.
    """
    with acting(user, clean(note).strip()):
        row = QueueItem.objects.select_for_update(of=("self",)).select_related("queue", "assignee").get(pk=item.pk)
        if row.state != ReviewItemState.OPEN:
            raise Conflict("Only an open item can be given to somebody.")
        if seen is not None and seen != (row.assignee_id or 0):
            raise ChangedMeanwhile(f"It is {row.assignee or 'everybody'}'s by now. Nothing was changed: look again.")
        if to is not None:
            _require_taker(row, to, note)
        _give_to(row, user, to, note)
    return row


def assign_many(user: Any, items: Iterable[QueueItem], to: Any) -> tuple[int, list[str]]:
    """Give open items to one person, or with None to everybody again: how many were given, and why others were not."""
    given, refusals = 0, []
    for item in items:
        try:
            assign(user, item, to)
        except InputError as error:
            refusals.append(str(error))
        else:
            given += 1
    return given, list(dict.fromkeys(refusals))


def _require_taker(item: QueueItem, to: Any, note: str) -> None:
    if len(note) > NOTE_CHARS:
        raise InputError(f"Write a note of at most {NOTE_CHARS} characters.")
    if not may_work(to, item.queue):
        raise Conflict(f"{to} does not work this queue.")
    if item.assignments.filter(user=to, state=AssignmentState.DECIDED).exists():
        raise Conflict(f"{to} decided on this item already.")
    if QueueItem.objects.filter(pk=item.pk, gold__isnull=True).filter(Exists(votes_of(to, item.kind))).exists():
        raise Conflict(f"{to} decided on this already, in another queue or on its own page.")


def _give_to(item: QueueItem, by: Any, to: Any, note: str) -> None:
    item.assignee, item.sent_by, item.note = to, (by if to is not None else None), clean(note).strip()
    item.save(update_fields=["assignee", "sent_by", "note"])
