"""Assignments: who holds which item of a queue, since when and until when.

Whoever changes an item's free places holds its row. `SKIP LOCKED` lets many people pull from one queue at a time, each
another item.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from webapp.accounts.access import may
from webapp.database.kept_sql import Given, KeptQuery
from webapp.errors import Conflict, NotFound
from webapp.review.models import (
    ON_A_PLACE,
    Assignment,
    AssignmentState,
    QueueItem,
    ReviewDecision,
    ReviewItemState,
    ReviewKind,
    ReviewQueue,
)

GOLD_OVERLAP = 30_000
LAPSED_AT_ONCE = 100
CHANCE = random.SystemRandom()


def require_worker(user: Any, queue: ReviewQueue) -> None:
    """Raises Conflict: the queue is closed, or is not this person's to work."""
    if not queue.is_open:
        raise Conflict(f"The queue “{queue.name}” is closed. Somebody who may edit it can open it again.")
    if not may_work(user, queue):
        raise Conflict(f"The queue “{queue.name}” is worked by others. Its page says by whom.", code="not_yours")


def may_work(user: Any, queue: ReviewQueue) -> bool:
    """Whether a person is among those who work the queue."""
    return bool(workers_among([user], queue))


def workers_among(people: Iterable[Any], queue: ReviewQueue) -> list[Any]:
    """Those of these people who work the queue; one query, however many they are."""
    members = {user.pk for user in queue.members.all()}
    return [user for user in people if works(user, queue.roles, members)]


def works(user: Any, roles: Collection[str], members: Collection[int]) -> bool:
    """Whether a person is among those who work a queue of these roles and people."""
    if not may(user, "review"):
        return False
    if roles and user.role in roles:
        return True
    return user.pk in members if roles or members else True


@transaction.atomic
def pull_next(user: Any, queue: ReviewQueue, *, ahead_of: int | None = None) -> Assignment | None:
    """The person's next item, held for them from now on; None where nothing is left for them.

    One that they hold already comes first. `ahead_of` is the key of the item in hand: at most one more than that is
    held, which the page fetches before it is asked for. Raises Conflict: it is not theirs to work.
    """
    require_worker(user, queue)
    lapse(queue)
    held = _held_by(user, queue)
    if any(row.item.state != ReviewItemState.OPEN for row in held):
        _let_go(user, queue)
        held = _held_by(user, queue)
    if held and ahead_of is None:
        return _extended(held[0])
    others = [row for row in held if row.item_id != ahead_of]
    if others:
        return others[0]
    item = _next_item(user, queue)
    return None if item is None else _hold(user, item)


def _let_go(user: Any, queue: ReviewQueue) -> None:
    """Give back what the person holds and others have settled meanwhile: nothing waits for them there."""
    over = Assignment.objects.filter(user=user, queue=queue, state=AssignmentState.HELD).exclude(
        item__state=ReviewItemState.OPEN
    )
    for item in QueueItem.objects.select_for_update(of=("self",)).filter(pk__in=over.values("item")).order_by("pk"):
        for row in over.filter(item=item):
            give_up(row, item, AssignmentState.RELEASED)


def _held_by(user: Any, queue: ReviewQueue) -> list[Assignment]:
    """What the person holds of a queue, in the order in which they were given it."""
    held = _HELD.rows(user=user.pk, queue=queue.pk)
    for row in held:
        row.queue = queue
    return held


_HELD = KeptQuery[Assignment](
    lambda: (
        Assignment.objects.filter(user=Given("user"), queue=Given("queue"), state=AssignmentState.HELD)
        .select_related("item")
        .order_by("id")
    )
)


def _next_item(user: Any, queue: ReviewQueue) -> QueueItem | None:
    """The item with the highest rank that the person has not had, locked; what was sent to them comes first."""
    mine = Assignment.objects.filter(item=OuterRef("pk"), user=user).exclude(
        state__in=(AssignmentState.LAPSED, AssignmentState.RELEASED, AssignmentState.TAKEN)
    )
    rows = QueueItem.objects.filter(queue=queue, state=ReviewItemState.OPEN, free__gt=0)
    rows = rows.exclude(Q(gold__isnull=True) & Exists(votes_of(user, queue.kind)))
    open_now = rows.exclude(Exists(mine)).filter(assignee__isnull=True, gold__isnull=True)
    found = _free_item(user, queue, rows, mine, skip_locked=True)
    while found is None and open_now.exists():  # others are at every free item for a moment: that is not the end
        found = _free_item(user, queue, rows, mine, skip_locked=False)
    return found


def votes_of(user: Any, kind: str) -> QuerySet[ReviewDecision]:
    """The person's standing decision on an item's object: it counts in every queue that holds the object."""
    rows = ReviewDecision.objects.filter(user=user, undone_at__isnull=True, gold_right__isnull=True)
    if kind == ReviewKind.TASK:
        rows = rows.filter(revision=OuterRef("task__current"))
    return rows.filter(**{f"{kind}_id": OuterRef(f"{kind}_id")})


def _free_item(
    user: Any, queue: ReviewQueue, free: QuerySet[QueueItem], mine: QuerySet[Assignment], *, skip_locked: bool
) -> QueueItem | None:
    rows = free.select_for_update(skip_locked=skip_locked, of=("self",)).select_related("queue")
    found = None
    if QueueItem.objects.filter(queue=queue, assignee=user).exists():
        sent = rows.filter(assignee=user).exclude(Exists(mine.exclude(state=AssignmentState.SENT)))
        found = sent.order_by("id").first()
    fresh = rows.exclude(Exists(mine)).filter(assignee__isnull=True)
    if found is None and queue.gold_share and CHANCE.random() < queue.gold_share:
        found = fresh.filter(gold__isnull=False).order_by("?").first()
    return found or fresh.filter(gold__isnull=True).order_by(F("rank").desc(), "id").first()


def _hold(user: Any, item: QueueItem) -> Assignment:
    """Put a person on a free place of an item whose row is locked."""
    taken: set[int] = set()
    if item.overlap > 1:
        taken = set(item.assignments.filter(state__in=ON_A_PLACE).values_list("place", flat=True))
    place = next(number for number in range(1, item.overlap + 1) if number not in taken)
    item.free -= 1
    item.save(update_fields=["free"])
    return Assignment.objects.create(
        item=item, queue=item.queue, user=user, place=place, expires_at=_lease_end(item.queue)
    )


def _lease_end(queue: ReviewQueue) -> Any:
    return timezone.now() + timedelta(minutes=queue.lease_minutes)


def _extended(row: Assignment) -> Assignment:
    row.expires_at = _lease_end(row.queue)
    row.save(update_fields=["expires_at"])
    return row


def lapse(queue: ReviewQueue) -> int:
    """Give back the places of those whose lease has ended; how many there were."""
    now = timezone.now()
    if not _ENDED.rows(queue=queue.pk, now=now):
        return 0
    ended = Assignment.objects.filter(queue=queue, state=AssignmentState.HELD, expires_at__lt=now)
    items = QueueItem.objects.select_for_update(skip_locked=True, of=("self",)).filter(
        pk__in=ended.order_by("expires_at").values("item")[:LAPSED_AT_ONCE]
    )
    count = 0
    for item in items.order_by("pk"):
        for row in ended.filter(item=item):
            give_up(row, item, AssignmentState.LAPSED)
            count += 1
    return count


_ENDED = KeptQuery[int](
    lambda: Assignment.objects.filter(
        queue=Given("queue"), state=AssignmentState.HELD, expires_at__lt=Given("now")
    ).values_list("pk", flat=True)[:1]
)


def give_up(row: Assignment, item: QueueItem, state: str) -> None:
    """Take a person off their place; the item's row is locked."""
    row.state, row.ended_at = state, timezone.now()
    row.save(update_fields=["state", "ended_at"])
    item.free += 1
    item.save(update_fields=["free"])


def require_assignment(user: Any, pk: int) -> Assignment:
    """A person's own assignment, its item's row locked, then its own. Raises NotFound. Call it in a transaction."""
    known = _OWN.first(pk=pk, user=user.pk)
    if known is None:
        raise NotFound("There is no such item of yours.")
    item, row = _LOCKED_ITEM.first(pk=known), _LOCKED.first(pk=pk)
    if item is None or row is None:
        raise NotFound("This item is gone.")
    row.item, row.queue = item, item.queue
    return row


_OWN = KeptQuery[int](
    lambda: Assignment.objects.filter(pk=Given("pk"), user=Given("user")).values_list("item_id", flat=True)
)
_LOCKED_ITEM = KeptQuery[QueueItem](
    lambda: QueueItem.objects.select_for_update(of=("self",)).select_related("queue").filter(pk=Given("pk"))
)
_LOCKED = KeptQuery[Assignment](lambda: Assignment.objects.select_for_update(of=("self",)).filter(pk=Given("pk")))


def require_held(user: Any, pk: int) -> Assignment:
    """The same, held: one whose lease has ended is taken up again where its place is still free; where it was (another
    tab), that is the person's hold.

    Raises Conflict: somebody else has it now, or it was given up.
    """
    row = require_assignment(user, pk)
    if row.state == AssignmentState.LAPSED:
        mine = row.item.assignments.select_for_update().filter(user=user, state__in=ON_A_PLACE, pk__gt=pk)
        for newer in mine.order_by("-pk")[:1]:
            newer.item, newer.queue = row.item, row.queue
            row = newer
    if row.state == AssignmentState.HELD:
        return row
    free = row.item.free > 0 and row.item.state == ReviewItemState.OPEN and row.item.assignee_id in (None, user.pk)
    if row.state == AssignmentState.LAPSED and free:
        again = _hold(user, row.item)
        again.shown_at, again.seconds = row.shown_at, row.seconds
        again.save(update_fields=["shown_at", "seconds"])
        return again
    if row.state == AssignmentState.DECIDED:
        raise Conflict("You decided on this already; undo that first.", code="decided")
    raise Conflict(f"{lost_words(row)} What you filled in is kept as a draft.", code="lease_lost")


def lost_words(row: Assignment) -> str:
    """Why a person holds an item no more."""
    others = [f"{one.user} has it now." for one in holders(row.item) if one.user_id != row.user_id]
    said = {
        AssignmentState.LAPSED: "Your lease of this item ended.",
        AssignmentState.TAKEN: "Somebody took this item over.",
        AssignmentState.SENT: "You sent this item on.",
        AssignmentState.SKIPPED: "You skipped this item.",
        AssignmentState.RELEASED: "You gave this item back.",
    }
    return " ".join([said.get(AssignmentState(row.state), "You do not hold this item."), *others[:2]])


def holders(item: QueueItem) -> list[Assignment]:
    """Who holds an item now, with a lease that has not ended."""
    rows = item.assignments.filter(state=AssignmentState.HELD, expires_at__gt=timezone.now())
    return list(rows.select_related("user").order_by("id"))


@transaction.atomic
def heartbeat(user: Any, pk: int, seconds: float = 0.0) -> Assignment:
    """Keep an item for another lease; `seconds` is how long the person has looked at it in all.

    Raises NotFound; Conflict: it is held no more.
    """
    row = require_held(user, pk)
    row.shown_at = row.shown_at or timezone.now()
    spent = (timezone.now() - row.shown_at).total_seconds()
    row.expires_at, row.seconds = _lease_end(row.queue), max(row.seconds, min(max(seconds, 0.0), spent))
    row.save(update_fields=["expires_at", "seconds", "shown_at"])
    return row


def show(row: Assignment) -> Assignment:
    """Note that the person sees the item: its lease and the time they take begin."""
    if row.state == AssignmentState.HELD and row.shown_at is None:
        row.shown_at, row.expires_at = timezone.now(), _lease_end(row.queue)
        Assignment.objects.filter(pk=row.pk, state=AssignmentState.HELD).update(
            shown_at=row.shown_at, expires_at=row.expires_at
        )
    return row


@transaction.atomic
def give_back(user: Any, pk: int) -> Assignment:
    """Let others have the item; it may come back to this person. Raises NotFound; Conflict."""
    return _end(user, pk, AssignmentState.RELEASED)


@transaction.atomic
def skip(user: Any, pk: int) -> Assignment:
    """Let others have the item, and do not offer it to this person again. Raises NotFound; Conflict."""
    return _end(user, pk, AssignmentState.SKIPPED)


def _end(user: Any, pk: int, state: str) -> Assignment:
    row = require_held(user, pk)
    give_up(row, row.item, state)
    return row


@transaction.atomic
def unskip(user: Any, pk: int) -> Assignment:
    """Offer a skipped item again. Raises NotFound; Conflict: it is not skipped."""
    row = require_assignment(user, pk)
    if row.state != AssignmentState.SKIPPED:
        raise Conflict("This item is not skipped.")
    row.state = AssignmentState.RELEASED
    row.save(update_fields=["state"])
    return row


@transaction.atomic
def take_over(user: Any, item: QueueItem) -> Assignment:
    """Hold an item that others hold, in place of the one who began first. A free place is taken before theirs.

    Raises Conflict: it is decided, was the person's already, was sent to another, or is not theirs to work.
    """
    require_worker(user, item.queue)
    row = QueueItem.objects.select_for_update(of=("self",)).select_related("queue", "assignee").get(pk=item.pk)
    if row.assignee is not None and row.assignee_id != user.pk:
        raise Conflict(f"It was sent to {row.assignee}. Whoever makes queues can give it to you.", code="not_yours")
    mine = row.assignments.filter(user=user, state__in=ON_A_PLACE).first()
    if mine is not None and mine.state == AssignmentState.HELD:
        return _extended(mine)
    if mine is not None or row.state != ReviewItemState.OPEN:
        raise Conflict("This item is decided already; undo that first.")
    if row.free == 0:
        other = row.assignments.filter(state=AssignmentState.HELD).order_by("created_at").first()
        if other is None:
            raise Conflict("As many people as this item needs have decided on it.")
        give_up(other, row, AssignmentState.TAKEN)
    return _hold(user, row)


def close_assignment(row: Assignment, seconds: float | None) -> None:
    """Note that the person decided; they keep their place. Whoever it was sent to is not named any more."""
    row.state, row.ended_at = AssignmentState.DECIDED, timezone.now()
    row.seconds = max(row.seconds, seconds or 0.0)
    row.save(update_fields=["state", "ended_at", "seconds"])
    if row.item.assignee_id == row.user_id:
        QueueItem.objects.filter(pk=row.item_id).update(assignee=None)


def own_place(user: Any, kind: str, pk: int) -> Assignment | None:
    """The place on which a person who decides outside of a queue holds the object, or has decided on it.

    Its item's row is locked. The one in hand comes first: deciding on the object's own page takes it out of hand.
    """
    rows = Assignment.objects.filter(user=user, state__in=ON_A_PLACE, item__gold__isnull=True)
    found = rows.filter(**{f"item__{kind}_id": pk}).order_by("-state", "-id").first()  # held before decided
    return require_assignment(user, found.pk) if found is not None else None


def find_hold(user: Any, **about: Any) -> Assignment | None:
    """Find the person's hold of an object (`item__task=...`), to lead back to its item from elsewhere."""
    rows = Assignment.objects.filter(user=user, state=AssignmentState.HELD, expires_at__gt=timezone.now(), **about)
    return rows.select_related("item__queue").order_by("-id").first()


def reopen_places(user: Any, kind: str, pk: int, row: Assignment | None) -> None:
    """After a person's decision on an object is undone: `row`, on which they took it, is theirs to work on again.

    Other places on which they had decided on the object are free again. One that they had lost meanwhile (the object
    was edited, so that its people are asked anew) stays lost.
    """
    decided = Assignment.objects.filter(user=user, state=AssignmentState.DECIDED, **{f"item__{kind}_id": pk})
    if row is not None and row.item.gold is not None:
        decided = decided.filter(pk=row.pk)
    else:
        decided = decided.filter(item__gold__isnull=True)
    items = QueueItem.objects.select_for_update(of=("self",)).select_related("queue")
    for item in items.filter(pk__in=decided.values("item")).order_by("pk"):
        for place in decided.filter(item=item):
            if row is None or place.pk != row.pk:
                give_up(place, item, AssignmentState.RELEASED)
                continue
            place.state, place.ended_at, place.expires_at = AssignmentState.HELD, None, _lease_end(item.queue)
            place.save(update_fields=["state", "ended_at", "expires_at"])
