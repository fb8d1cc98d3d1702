"""Reservations: who holds which item of a round, since when and until when.

Whoever changes an item's free places holds the row of its `Ask`; `SKIP LOCKED` lets many people pull at one time, each
another item. Closing a round holds all of them, so that nothing is submitted to it afterwards.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils import timezone

from webapp.errors import Conflict, NotFound
from webapp.labelling.models import Ask, LabelRound, LabelSession, Reservation
from webapp.labelling.rights import require_labeller
from webapp.review.assignments import LAPSED_AT_ONCE
from webapp.review.models import ON_A_PLACE, AssignmentState

KEPT = "What you filled in is kept as a draft."


def open_round_of(session: LabelSession) -> LabelRound | None:
    """The round in which people label now."""
    return session.rounds.filter(is_open=True).first()


def require_open_round(session: LabelSession) -> LabelRound:
    """The same. Raises Conflict: none is open."""
    found = open_round_of(session)
    if found is None:
        raise Conflict(f"No round of “{session.name}” is open: nothing can be labelled now.", code="round_closed")
    return found


@transaction.atomic
def pull_next(user: Any, session: LabelSession) -> Reservation | None:
    """The person's next item, held for them from now on; None where nothing is left for them.

    One that they hold already comes first. Raises Conflict: it is not theirs to label, or no round is open.
    """
    require_labeller(user, session)
    found = require_open_round(session)
    lapse(found)
    rows = Reservation.objects.filter(user=user, round=found, state=AssignmentState.HELD)
    held = rows.select_related("ask__item", "ask__session").order_by("id").first()
    if held is not None:
        held.expires_at = _lease_end(session)
        held.save(update_fields=["expires_at"])
        return held
    ask = _free_ask(user, found)
    if ask is None:
        return None
    _require_still_open(found)
    mine = ask.reservations.filter(user=user, state=AssignmentState.HELD).select_related("ask__item").first()
    return mine or _hold(user, ask)


def _free_ask(user: Any, found: LabelRound) -> Ask | None:
    """A free item whose row is locked: one that nobody else is at, else one that is waited for.

    Where others are at every free item for a moment, the person is not told that nothing is left.
    """
    rows = free_asks(user, found).order_by("position")
    ask = rows.select_for_update(skip_locked=True, of=("self",)).first()
    while ask is None and rows.exists():
        ask = rows.select_for_update(of=("self",)).first()
    return ask


def free_asks(user: Any, found: LabelRound) -> QuerySet[Ask]:
    """The items of a round with a free place that the person has not had."""
    mine = Reservation.objects.filter(ask=OuterRef("pk"), user=user)
    mine = mine.exclude(state__in=(AssignmentState.LAPSED, AssignmentState.RELEASED))
    rows = Ask.objects.select_related("item", "session").filter(round=found, free__gt=0)
    return rows.exclude(Exists(mine))


def _require_still_open(found: LabelRound) -> None:
    """Read after the row of an item was locked: a round that was closed meanwhile takes nothing."""
    if not LabelRound.objects.filter(pk=found.pk, is_open=True).exists():
        raise Conflict(f"Round {found.number} was closed meanwhile. {KEPT}", code="round_closed")


def _hold(user: Any, ask: Ask) -> Reservation:
    """Put a person on a free place of an item whose row is locked."""
    taken = set(ask.reservations.filter(state__in=ON_A_PLACE).values_list("place", flat=True))
    place = next(number for number in range(1, ask.overlap + 1) if number not in taken)
    ask.free -= 1
    ask.save(update_fields=["free"])
    return Reservation.objects.create(
        ask=ask, round_id=ask.round_id, user=user, place=place, expires_at=_lease_end(ask.session)
    )


def _lease_end(session: LabelSession) -> datetime:
    return timezone.now() + timedelta(minutes=session.lease_minutes)


def lapse(found: LabelRound) -> int:
    """Give back the places of those whose reservation has ended; how many there were."""
    ended = Reservation.objects.filter(round=found, state=AssignmentState.HELD, expires_at__lt=timezone.now())
    if not ended.exists():
        return 0
    asks = Ask.objects.select_for_update(skip_locked=True, of=("self",)).filter(
        pk__in=ended.order_by("expires_at").values("ask")[:LAPSED_AT_ONCE]
    )
    count = 0
    for ask in asks.order_by("pk"):
        for row in ended.filter(ask=ask):
            _give_up(row, ask, AssignmentState.LAPSED)
            count += 1
    return count


def _give_up(row: Reservation, ask: Ask, state: str) -> None:
    """Take a person off their place; the item's row is locked."""
    row.state, row.ended_at = state, timezone.now()
    row.save(update_fields=["state", "ended_at"])
    ask.free += 1
    ask.save(update_fields=["free"])


def give_up_all(found: LabelRound) -> int:
    """Take everybody off what they hold in a round that is being closed; its items stay locked until that is done."""
    list(Ask.objects.filter(round=found).order_by("pk").select_for_update().values_list("pk", flat=True))
    held = Reservation.objects.filter(round=found, state=AssignmentState.HELD)
    for pk in held.values_list("ask", flat=True):
        Ask.objects.filter(pk=pk).update(free=F("free") + 1)
    return held.update(state=AssignmentState.RELEASED, ended_at=timezone.now())


def require_reservation(user: Any, pk: int) -> Reservation:
    """A person's own reservation, its item's row locked, then its own. Raises NotFound. Call it in a transaction."""
    known = Reservation.objects.filter(pk=pk, user=user).values_list("ask_id", flat=True).first()
    if known is None:
        raise NotFound("There is no such item of yours.")
    asks = Ask.objects.select_for_update(of=("self",)).select_related("item", "round", "session")
    ask = asks.get(pk=known)
    row = Reservation.objects.select_for_update(of=("self",)).get(pk=pk)
    row.ask, row.round = ask, ask.round
    return row


def require_held(user: Any, pk: int) -> Reservation:
    """The same, held in an open round: one that has ended is taken up again where its place is still free.

    Raises Conflict: the round is closed, others have the item now, or it was given up.
    """
    row = require_reservation(user, pk)
    _require_still_open(row.round)
    if row.state == AssignmentState.HELD:
        return row
    if row.state == AssignmentState.LAPSED:
        newer = row.ask.reservations.filter(user=user, state__in=ON_A_PLACE).first()
        if newer is None and row.ask.free > 0:
            again = _hold(user, row.ask)
            again.shown_at, again.seconds = row.shown_at, row.seconds
            again.save(update_fields=["shown_at", "seconds"])
            again.round = row.round
            return again
    if row.state == AssignmentState.DECIDED:
        raise Conflict("You labelled this already; undo that first.", code="decided")
    raise Conflict(f"{lost_words(row)} {KEPT}", code="lease_lost")


def lost_words(row: Reservation) -> str:
    """Why a person holds an item no more. It does not say who has it: that would tell who labels what."""
    said = {
        AssignmentState.LAPSED: "Your reservation ended, and as many people as are needed have this item now.",
        AssignmentState.SKIPPED: "You skipped this item.",
        AssignmentState.RELEASED: "You gave this item back.",
    }
    return said.get(AssignmentState(row.state), "You do not hold this item.")


@transaction.atomic
def heartbeat(user: Any, pk: int, seconds: float = 0.0) -> Reservation:
    """Keep an item for another lease; `seconds` is how long the person has looked at it in all.

    Raises NotFound; Conflict: it is held no more.
    """
    row = require_held(user, pk)
    row.shown_at = row.shown_at or timezone.now()
    spent = (timezone.now() - row.shown_at).total_seconds()
    row.expires_at, row.seconds = _lease_end(row.ask.session), max(row.seconds, min(max(seconds, 0.0), spent))
    row.save(update_fields=["expires_at", "seconds", "shown_at"])
    return row


def show(row: Reservation) -> Reservation:
    """Note that the person sees the item: the time they take begins."""
    if row.state == AssignmentState.HELD and row.shown_at is None:
        row.shown_at = timezone.now()
        Reservation.objects.filter(pk=row.pk, state=AssignmentState.HELD).update(shown_at=row.shown_at)
    return row


@transaction.atomic
def give_back(user: Any, pk: int) -> Reservation:
    """Let others have the item; it may come back to this person. Raises NotFound; Conflict."""
    return _end(user, pk, AssignmentState.RELEASED)


@transaction.atomic
def skip(user: Any, pk: int) -> Reservation:
    """Let others have the item, and do not offer it to this person again. Raises NotFound; Conflict."""
    return _end(user, pk, AssignmentState.SKIPPED)


def _end(user: Any, pk: int, state: str) -> Reservation:
    row = require_held(user, pk)
    _give_up(row, row.ask, state)
    return row


@transaction.atomic
def unskip(user: Any, session: LabelSession) -> int:
    """Offer again what the person skipped in the open round; how many items that are."""
    found = require_open_round(session)
    rows = Reservation.objects.filter(user=user, round=found, state=AssignmentState.SKIPPED)
    return rows.update(state=AssignmentState.RELEASED)


def finish(row: Reservation, seconds: float | None) -> None:
    """Note that the person labelled; they keep their place."""
    row.state, row.ended_at = AssignmentState.DECIDED, timezone.now()
    row.seconds = max(row.seconds, seconds or 0.0)
    row.save(update_fields=["state", "ended_at", "seconds"])


def reopen(row: Reservation) -> None:
    """Give a person whose label was undone their item again, on the place that they kept."""
    row.state, row.ended_at, row.expires_at = AssignmentState.HELD, None, _lease_end(row.ask.session)
    row.save(update_fields=["state", "ended_at", "expires_at"])
