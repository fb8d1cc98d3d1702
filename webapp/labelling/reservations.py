"""Reservations: the person who holds each item of a round, since when and until when.

A change to an item's free places first locks the row of its `Ask`; `SKIP LOCKED` lets many people pull at one time,
each another item. Closing a round locks all of them, so that nothing is submitted to it afterwards.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils import timezone

from webapp.common import leases
from webapp.common.errors import Conflict, NotFound
from webapp.common.leases import ON_A_PLACE, AssignmentState
from webapp.labelling.models import Ask, LabelRound, LabelSession, Reservation
from webapp.labelling.rights import require_labeller

KEPT = "What you filled in is kept as a draft."


def find_open_round(session: LabelSession) -> LabelRound | None:
    """Return the round in which people label now; None if none is open."""
    return session.rounds.filter(is_open=True).first()


def require_open_round(session: LabelSession) -> LabelRound:
    """Return the open round. Raises Conflict: none is open."""
    found = find_open_round(session)
    if found is None:
        raise Conflict(f"No round of “{session.name}” is open: nothing can be labelled now.", code="round_closed")
    return found


@transaction.atomic
def pull_next(user: Any, session: LabelSession) -> Reservation | None:
    """Return the person's next item, held for them from now on; None if nothing is left for them.

    An item that they already hold comes first. Raises Conflict: it is not theirs to label, or no round is open.
    """
    require_labeller(user, session)
    open_round = require_open_round(session)
    lapse_reservations(open_round)
    rows = Reservation.objects.filter(user=user, round=open_round, state=AssignmentState.HELD)
    held_item = rows.select_related("ask__item", "ask__session").order_by("id").first()
    if held_item is not None:
        return leases.extend_lease(held_item)
    ask = _lock_free_ask(user, open_round)
    if ask is None:
        return None
    _require_still_open(open_round)
    own_reservation = ask.reservations.filter(user=user, state=AssignmentState.HELD).select_related("ask__item").first()
    return own_reservation or leases.take_place(_build_hold(user, ask), ask, ask.reservations.all())


def _lock_free_ask(user: Any, found: LabelRound) -> Ask | None:
    """Return a free item whose row is locked: one that no other person has locked, else one after waiting for its lock.

    If others hold the locks of all free items for a moment, that does not mean that nothing is left.
    """
    rows = free_asks(user, found).order_by("position")
    ask = rows.select_for_update(skip_locked=True, of=("self",)).first()
    while ask is None and rows.exists():
        ask = rows.select_for_update(of=("self",)).first()
    return ask


def free_asks(user: Any, found: LabelRound) -> QuerySet[Ask]:
    """Return the items of a round with a free place that the person has not had."""
    mine = Reservation.objects.filter(ask=OuterRef("pk"), user=user)
    mine = mine.exclude(state__in=(AssignmentState.LAPSED, AssignmentState.RELEASED))
    rows = Ask.objects.select_related("item", "session").filter(round=found, free__gt=0)
    return rows.exclude(Exists(mine))


def _require_still_open(found: LabelRound) -> None:
    """Raise Conflict if the round was closed meanwhile. Call it after the row of an item was locked."""
    if not LabelRound.objects.filter(pk=found.pk, is_open=True).exists():
        raise Conflict(f"Round {found.number} was closed meanwhile. {KEPT}", code="round_closed")


def _build_hold(user: Any, ask: Ask) -> Reservation:
    return Reservation(ask=ask, round_id=ask.round_id, user=user)


def lapse_reservations(found: LabelRound) -> int:
    """Give back the places of expired reservations; return how many there were."""
    ended = Reservation.objects.filter(round=found, state=AssignmentState.HELD, expires_at__lt=timezone.now())
    return leases.release_expired(ended, Ask.objects.all(), "ask") if ended.exists() else 0


def give_up_all(found: LabelRound) -> int:
    """Release all holds in a round that is being closed; its items stay locked until that is done."""
    list(Ask.objects.filter(round=found).order_by("pk").select_for_update().values_list("pk", flat=True))
    held = Reservation.objects.filter(round=found, state=AssignmentState.HELD)
    for pk in held.values_list("ask", flat=True):
        Ask.objects.filter(pk=pk).update(free=F("free") + 1)
    return held.update(state=AssignmentState.RELEASED, ended_at=timezone.now())


def require_reservation(user: Any, pk: int) -> Reservation:
    """Return a person's own reservation, its item's row locked, then its own. Raises NotFound. Call it in a
    transaction."""
    ask_id = Reservation.objects.filter(pk=pk, user=user).values_list("ask_id", flat=True).first()
    if ask_id is None:
        raise NotFound("There is no such item of yours.")
    asks = Ask.objects.select_for_update(of=("self",)).select_related("item", "round", "session")
    ask = asks.get(pk=ask_id)
    row = Reservation.objects.select_for_update(of=("self",)).get(pk=pk)
    row.ask, row.round = ask, ask.round
    return row


def require_held(user: Any, pk: int) -> Reservation:
    """Return a person's own reservation, held in an open round: an expired one is renewed if its place is still free.

    Raises Conflict: the round is closed, others have the item now, or it was given up.
    """
    row = require_reservation(user, pk)
    _require_still_open(row.round)
    if row.state == AssignmentState.HELD:
        return row
    if row.state == AssignmentState.LAPSED:
        newer = row.ask.reservations.filter(user=user, state__in=ON_A_PLACE).first()
        if newer is None and row.ask.free > 0:
            renewed = leases.retake_place(row, _build_hold(user, row.ask), row.ask, row.ask.reservations.all())
            renewed.round = row.round
            return renewed
    if row.state == AssignmentState.DECIDED:
        raise Conflict("You labelled this already; undo that first.", code="decided")
    raise Conflict(f"{explain_loss(row)} {KEPT}", code="lease_lost")


def explain_loss(row: Reservation) -> str:
    """Return why a person no longer holds an item. It does not name the holder: that would reveal who labels what."""
    said = {
        AssignmentState.LAPSED: "Your reservation ended, and as many people as are needed have this item now.",
        AssignmentState.SKIPPED: "You skipped this item.",
        AssignmentState.RELEASED: "You gave this item back.",
    }
    return said.get(AssignmentState(row.state), "You do not hold this item.")


@transaction.atomic
def extend_reservation(user: Any, pk: int, seconds: float = 0.0) -> Reservation:
    """Keep an item for another lease; `seconds` is how long the person has looked at it in all.

    Raises NotFound; Conflict: it is no longer held.
    """
    return leases.renew_hold(require_held(user, pk), seconds)


@transaction.atomic
def give_back_item(user: Any, pk: int) -> Reservation:
    """Let others have the item; it may come back to this person. Raises NotFound; Conflict."""
    return _end_reservation(user, pk, AssignmentState.RELEASED)


@transaction.atomic
def skip_item(user: Any, pk: int) -> Reservation:
    """Let others have the item, and do not offer it to this person again. Raises NotFound; Conflict."""
    return _end_reservation(user, pk, AssignmentState.SKIPPED)


def _end_reservation(user: Any, pk: int, state: str) -> Reservation:
    row = require_held(user, pk)
    leases.free_place(row, row.ask, state)
    return row


@transaction.atomic
def unskip_items(user: Any, session: LabelSession) -> int:
    """Offer again what the person skipped in the open round; return how many items that are."""
    found = require_open_round(session)
    rows = Reservation.objects.filter(user=user, round=found, state=AssignmentState.SKIPPED)
    return rows.update(state=AssignmentState.RELEASED)
