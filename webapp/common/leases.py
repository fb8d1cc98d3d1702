"""Leases: how people take places on an item, keep them for a while, and give them back.

Assignments of queues and reservations of labelling sessions share them. Whoever changes an item's free places has
locked its row.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import models, transaction
from django.db.models import QuerySet
from django.utils import timezone

LAPSED_AT_ONCE = 100


class AssignmentState(models.TextChoices):
    HELD = "held", "held"
    DECIDED = "decided", "decided"
    SKIPPED = "skipped", "skipped"
    SENT = "sent", "sent to somebody"
    LAPSED = "lapsed", "lease ended"
    TAKEN = "taken", "taken over"
    RELEASED = "released", "given back"


ON_A_PLACE = (AssignmentState.HELD, AssignmentState.DECIDED)


class Hold(models.Model):
    """A person's hold of an item on one of its places, until `expires_at` or their answer.

    `seconds` is the time that the person spent on it, `shown_at` when they first saw it (it may be held in advance).
    """

    place = models.PositiveSmallIntegerField()
    state = models.CharField(max_length=10, choices=AssignmentState.choices, default=AssignmentState.HELD)
    expires_at = models.DateTimeField()
    shown_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    seconds = models.FloatField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True

    @property
    def lease_minutes(self) -> int:
        """Minutes for which a hold lasts unless it is renewed."""
        raise NotImplementedError

    @property
    def lease_left(self) -> int:
        """Seconds until the hold ends."""
        return max(0, int((self.expires_at - timezone.now()).total_seconds()))


H = TypeVar("H", bound=Hold)


def compute_lease_end(hold: Hold) -> datetime:
    """Return when a lease that begins now ends."""
    return timezone.now() + timedelta(minutes=hold.lease_minutes)


def take_place(hold: H, item: Any, others: QuerySet[Any]) -> H:
    """Store a hold on the first free place of an item whose row is locked; `others` are the item's holds."""
    taken = set(others.filter(state__in=ON_A_PLACE).values_list("place", flat=True)) if item.overlap > 1 else set()
    hold.place = next(number for number in range(1, item.overlap + 1) if number not in taken)
    item.free -= 1
    item.save(update_fields=["free"])
    hold.expires_at = compute_lease_end(hold)
    hold.save()
    return hold


def free_place(hold: Hold, item: Any, state: str) -> None:
    """Take a person off their place; the item's row is locked."""
    hold.state, hold.ended_at = state, timezone.now()
    hold.save(update_fields=["state", "ended_at"])
    item.free += 1
    item.save(update_fields=["free"])


@transaction.atomic
def release_expired(ended: QuerySet[Any], items: QuerySet[Any], link: str) -> int:
    """Free the places of holds whose lease has ended; return their number.

    `link` is the field that leads from a hold to one of `items`. Items that others have locked are left for later.
    """
    due = items.select_for_update(skip_locked=True, of=("self",)).filter(
        pk__in=ended.order_by("expires_at").values(link)[:LAPSED_AT_ONCE]
    )
    count = 0
    for item in due.order_by("pk"):
        for hold in ended.filter(**{link: item}):
            free_place(hold, item, AssignmentState.LAPSED)
            count += 1
    return count


def retake_place(lapsed: Hold, hold: H, item: Any, others: QuerySet[Any]) -> H:
    """Take a place again after a lease ended; the time that the person spent before counts."""
    hold.shown_at, hold.seconds = lapsed.shown_at, lapsed.seconds
    return take_place(hold, item, others)


def extend_lease(hold: H) -> H:
    """Begin the lease of a hold anew."""
    hold.expires_at = compute_lease_end(hold)
    hold.save(update_fields=["expires_at"])
    return hold


def renew_hold(hold: H, seconds: float) -> H:
    """Begin the lease anew; `seconds` is the total time for which the person has looked at the item."""
    hold.shown_at = hold.shown_at or timezone.now()
    spent = (timezone.now() - hold.shown_at).total_seconds()
    hold.expires_at, hold.seconds = compute_lease_end(hold), max(hold.seconds, min(max(seconds, 0.0), spent))
    hold.save(update_fields=["expires_at", "seconds", "shown_at"])
    return hold


def mark_shown(hold: H) -> H:
    """Record that the person sees the item: its lease and their time begin."""
    if hold.state == AssignmentState.HELD and hold.shown_at is None:
        hold.shown_at, hold.expires_at = timezone.now(), compute_lease_end(hold)
        held = type(hold)._default_manager.filter(pk=hold.pk, state=AssignmentState.HELD)
        held.update(shown_at=hold.shown_at, expires_at=hold.expires_at)
    return hold


def finish_hold(hold: Hold, seconds: float | None) -> None:
    """Record that the person answered; they keep their place."""
    hold.state, hold.ended_at = AssignmentState.DECIDED, timezone.now()
    hold.seconds = max(hold.seconds, seconds or 0.0)
    hold.save(update_fields=["state", "ended_at", "seconds"])


def reopen_hold(hold: Hold) -> None:
    """Let a person whose answer was undone hold the item again, on the place that they kept."""
    hold.state, hold.ended_at, hold.expires_at = AssignmentState.HELD, None, compute_lease_end(hold)
    hold.save(update_fields=["state", "ended_at", "expires_at"])
