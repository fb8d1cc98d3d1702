"""Assignments: holds of people on items of a queue, with their leases.

Code that changes an item's free places locks its row. `SKIP LOCKED` lets many people pull from one queue at the same
time, each another item.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from webapp.accounts.access import has_scope
from webapp.common import leases
from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.common.errors import Conflict, NotFound
from webapp.common.leases import ON_A_PLACE, AssignmentState
from webapp.review.models import Assignment, QueueItem, ReviewDecision, ReviewItemState, ReviewKind, ReviewQueue

GOLD_OVERLAP = 30_000
CHANCE = random.SystemRandom()


def require_worker(user: Any, queue: ReviewQueue) -> None:
    """Raise Conflict if the queue is closed, or this person may not work it."""
    if not queue.is_open:
        raise Conflict(f"The queue “{queue.name}” is closed. A person who may edit it can open it again.")
    if not can_work(user, queue):
        raise Conflict(f"The queue “{queue.name}” is worked by others. Its page says by whom.", code="not_yours")


def can_work(user: Any, queue: ReviewQueue) -> bool:
    """Return whether a person is among those who work the queue."""
    return bool(filter_workers([user], queue))


def filter_workers(people: Iterable[Any], queue: ReviewQueue) -> list[Any]:
    """Return those of these people who work the queue, with one query for any number of people."""
    members = {user.pk for user in queue.members.all()}
    return [user for user in people if is_among_workers(user, queue.roles, members)]


def is_among_workers(user: Any, roles: Collection[str], members: Collection[int]) -> bool:
    """Return whether a person is among those who work a queue with these roles and members."""
    if not has_scope(user, "review"):
        return False
    if roles and user.role in roles:
        return True
    return user.pk in members if roles or members else True


@transaction.atomic
def pull_next_assignment(user: Any, queue: ReviewQueue, *, ahead_of: int | None = None) -> Assignment | None:
    """Return the person's next item, held for them from now on; None if no item is left for them.

    An item that they already hold comes first. `ahead_of` is the key of the item in hand: at most one item more than
    that is held, which the page prefetches, and none once the item in hand was given back. Raises Conflict if the
    person may not work the queue.
    """
    require_worker(user, queue)
    release_lapsed(queue)
    held = _list_held(user, queue)
    if any(row.item.state != ReviewItemState.OPEN for row in held):
        _release_settled(user, queue)
        held = _list_held(user, queue)
    if held and ahead_of is None:
        return leases.extend_lease(held[0])
    others = [row for row in held if row.item_id != ahead_of]
    if others:
        return others[0]
    if ahead_of is not None and not held:
        return None
    item = _lock_next_item(user, queue)
    return None if item is None else _hold_item(user, item)


def _release_settled(user: Any, queue: ReviewQueue) -> None:
    """Give back the items that the person holds and others have settled meanwhile."""
    over = Assignment.objects.filter(user=user, queue=queue, state=AssignmentState.HELD).exclude(
        item__state=ReviewItemState.OPEN
    )
    for item in QueueItem.objects.select_for_update(of=("self",)).filter(pk__in=over.values("item")).order_by("pk"):
        for row in over.filter(item=item):
            leases.free_place(row, item, AssignmentState.RELEASED)


def _list_held(user: Any, queue: ReviewQueue) -> list[Assignment]:
    """Return the person's holds of a queue, in the order in which they began."""
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


def _lock_next_item(user: Any, queue: ReviewQueue) -> QueueItem | None:
    """Return the item with the highest rank that the person has not had, locked; items sent to them come first."""
    own_assignments = Assignment.objects.filter(item=OuterRef("pk"), user=user).exclude(
        state__in=(AssignmentState.LAPSED, AssignmentState.RELEASED, AssignmentState.TAKEN)
    )
    rows = QueueItem.objects.filter(queue=queue, state=ReviewItemState.OPEN, free__gt=0)
    rows = rows.exclude(Q(gold__isnull=True) & Exists(filter_own_votes(user, queue.kind)))
    open_now = rows.exclude(Exists(own_assignments)).filter(assignee__isnull=True, gold__isnull=True)
    next_item = _lock_free_item(user, queue, rows, own_assignments, skip_locked=True)
    while next_item is None and open_now.exists():  # others lock every free item for a moment: wait for them
        next_item = _lock_free_item(user, queue, rows, own_assignments, skip_locked=False)
    return next_item


def filter_own_votes(user: Any, kind: str) -> QuerySet[ReviewDecision]:
    """Return the person's standing decision on an item's object: it counts in every queue that holds the object."""
    rows = ReviewDecision.objects.filter(user=user, undone_at__isnull=True, gold_right__isnull=True)
    if kind == ReviewKind.TASK:
        rows = rows.filter(revision=OuterRef("task__current"))
    return rows.filter(**{f"{kind}_id": OuterRef(f"{kind}_id")})


def _lock_free_item(
    user: Any, queue: ReviewQueue, free: QuerySet[QueueItem], mine: QuerySet[Assignment], *, skip_locked: bool
) -> QueueItem | None:
    rows = free.select_for_update(skip_locked=skip_locked, of=("self",)).select_related("queue")
    chosen_item = None
    if QueueItem.objects.filter(queue=queue, assignee=user).exists():
        sent = rows.filter(assignee=user).exclude(Exists(mine.exclude(state=AssignmentState.SENT)))
        chosen_item = sent.order_by("id").first()
    fresh = rows.exclude(Exists(mine)).filter(assignee__isnull=True)
    if chosen_item is None and queue.gold_share and CHANCE.random() < queue.gold_share:
        chosen_item = fresh.filter(gold__isnull=False).order_by("?").first()
    return chosen_item or fresh.filter(gold__isnull=True).order_by(F("rank").desc(), "id").first()


def _build_hold(user: Any, item: QueueItem) -> Assignment:
    return Assignment(item=item, queue=item.queue, user=user)


def _hold_item(user: Any, item: QueueItem) -> Assignment:
    """Put a person on a free place of an item whose row is locked."""
    return leases.take_place(_build_hold(user, item), item, item.assignments.all())


def release_lapsed(queue: ReviewQueue) -> int:
    """Free the places whose lease has ended; return their number."""
    now = timezone.now()
    if not _ENDED.rows(queue=queue.pk, now=now):
        return 0
    ended = Assignment.objects.filter(queue=queue, state=AssignmentState.HELD, expires_at__lt=now)
    return leases.release_expired(ended, QueueItem.objects.all(), "item")


_ENDED = KeptQuery[int](
    lambda: Assignment.objects.filter(
        queue=Given("queue"), state=AssignmentState.HELD, expires_at__lt=Given("now")
    ).values_list("pk", flat=True)[:1]
)


def lock_assignment(user: Any, pk: int) -> Assignment:
    """Return a person's own assignment, its item's row locked, then its own. Raises NotFound. Call it in a
    transaction."""
    item_pk = _OWN.first(pk=pk, user=user.pk)
    if item_pk is None:
        raise NotFound("There is no such item of yours.")
    item, row = _LOCKED_ITEM.first(pk=item_pk), _LOCKED.first(pk=pk)
    if item is None or row is None:
        raise NotFound("This item no longer exists.")
    row.item, row.queue = item, item.queue
    return row


_OWN = KeptQuery[int](
    lambda: Assignment.objects.filter(pk=Given("pk"), user=Given("user")).values_list("item_id", flat=True)
)
_LOCKED_ITEM = KeptQuery[QueueItem](
    lambda: QueueItem.objects.select_for_update(of=("self",)).select_related("queue").filter(pk=Given("pk"))
)
_LOCKED = KeptQuery[Assignment](lambda: Assignment.objects.select_for_update(of=("self",)).filter(pk=Given("pk")))


def lock_held_assignment(user: Any, pk: int) -> Assignment:
    """Return a person's own assignment, locked and held. One whose lease has ended is taken up again if its place is
    still free; if it was already (in another tab), that hold is returned.

    Raises Conflict if another person has the item now, or the assignment was given up.
    """
    row = lock_assignment(user, pk)
    if row.state == AssignmentState.LAPSED:
        newer_holds = row.item.assignments.select_for_update().filter(user=user, state__in=ON_A_PLACE, pk__gt=pk)
        for newer in newer_holds.order_by("-pk")[:1]:
            newer.item, newer.queue = row.item, row.queue
            row = newer
    if row.state == AssignmentState.HELD:
        return row
    free = row.item.free > 0 and row.item.state == ReviewItemState.OPEN and row.item.assignee_id in (None, user.pk)
    if row.state == AssignmentState.LAPSED and free:
        return leases.retake_place(row, _build_hold(user, row.item), row.item, row.item.assignments.all())
    if row.state == AssignmentState.DECIDED:
        raise Conflict("You decided on this already; undo that first.", code="decided")
    raise Conflict(f"{describe_lost_hold(row)} What you filled in is kept as a draft.", code="lease_lost")


def describe_lost_hold(row: Assignment) -> str:
    """Return the reason why a person no longer holds an item."""
    others = [f"{one.user} has it now." for one in list_holders(row.item) if one.user_id != row.user_id]
    reasons = {
        AssignmentState.LAPSED: "Your lease of this item ended.",
        AssignmentState.TAKEN: "Another person took this item over.",
        AssignmentState.SENT: "You sent this item on.",
        AssignmentState.SKIPPED: "You skipped this item.",
        AssignmentState.RELEASED: "You gave this item back.",
    }
    return " ".join([reasons.get(AssignmentState(row.state), "You do not hold this item."), *others[:2]])


def list_holders(item: QueueItem) -> list[Assignment]:
    """Return the holds of an item whose lease has not ended."""
    rows = item.assignments.filter(state=AssignmentState.HELD, expires_at__gt=timezone.now())
    return list(rows.select_related("user").order_by("id"))


@transaction.atomic
def renew_lease(user: Any, pk: int, seconds: float = 0.0) -> Assignment:
    """Keep an item for another lease; `seconds` is the total time for which the person has looked at it.

    Raises NotFound; Conflict if it is no longer held.
    """
    return leases.renew_hold(lock_held_assignment(user, pk), seconds)


@transaction.atomic
def give_back_item(user: Any, pk: int) -> Assignment:
    """Let others have the item; it may come back to this person. Raises NotFound; Conflict."""
    return _end_hold(user, pk, AssignmentState.RELEASED)


@transaction.atomic
def skip_item(user: Any, pk: int) -> Assignment:
    """Let others have the item, and do not offer it to this person again. Raises NotFound; Conflict."""
    return _end_hold(user, pk, AssignmentState.SKIPPED)


def _end_hold(user: Any, pk: int, state: str) -> Assignment:
    row = lock_held_assignment(user, pk)
    leases.free_place(row, row.item, state)
    return row


@transaction.atomic
def unskip_item(user: Any, pk: int) -> Assignment:
    """Offer a skipped item again. Raises NotFound; Conflict if it is not skipped."""
    row = lock_assignment(user, pk)
    if row.state != AssignmentState.SKIPPED:
        raise Conflict("This item is not skipped.")
    row.state = AssignmentState.RELEASED
    row.save(update_fields=["state"])
    return row


@transaction.atomic
def take_over_item(user: Any, item: QueueItem) -> Assignment:
    """Hold an item that others hold, in place of the person who began first. A free place is taken before theirs.

    Raises Conflict if it is decided, was the person's already, was sent to another person, or they may not work it.
    """
    require_worker(user, item.queue)
    row = QueueItem.objects.select_for_update(of=("self",)).select_related("queue", "assignee").get(pk=item.pk)
    if row.assignee is not None and row.assignee_id != user.pk:
        raise Conflict(
            f"It was sent to {row.assignee}. A person who may edit queues can give it to you.", code="not_yours"
        )
    own_assignment = row.assignments.filter(user=user, state__in=ON_A_PLACE).first()
    if own_assignment is not None and own_assignment.state == AssignmentState.HELD:
        return leases.extend_lease(own_assignment)
    if own_assignment is not None or row.state != ReviewItemState.OPEN:
        raise Conflict("This item is decided already; undo that first.")
    if row.free == 0:
        other = row.assignments.filter(state=AssignmentState.HELD).order_by("created_at").first()
        if other is None:
            raise Conflict("As many people as this item needs have decided on it.")
        leases.free_place(other, row, AssignmentState.TAKEN)
    return _hold_item(user, row)


def close_assignment(row: Assignment, seconds: float | None) -> None:
    """Record that the person decided; they keep their place. The item is no longer assigned to the person that it was
    sent to."""
    leases.finish_hold(row, seconds)
    if row.item.assignee_id == row.user_id:
        QueueItem.objects.filter(pk=row.item_id).update(assignee=None)


def find_own_place(user: Any, kind: str, pk: int) -> Assignment | None:
    """Return the place on which a person who decides outside of a queue holds the object, or has decided on it.

    Its item's row is locked. The item in hand comes first: deciding on the object's own page takes it out of hand.
    """
    rows = Assignment.objects.filter(user=user, state__in=ON_A_PLACE, item__gold__isnull=True)
    assignment = rows.filter(**{f"item__{kind}_id": pk}).order_by("-state", "-id").first()  # held before decided
    return lock_assignment(user, assignment.pk) if assignment is not None else None


def find_hold(user: Any, **about: Any) -> Assignment | None:
    """Return the person's hold of an object (`item__task=...`), to lead back to its item from elsewhere; None if there
    is none."""
    rows = Assignment.objects.filter(user=user, state=AssignmentState.HELD, expires_at__gt=timezone.now(), **about)
    return rows.select_related("item__queue").order_by("-id").first()


def reopen_places(user: Any, kind: str, pk: int, row: Assignment | None) -> None:
    """Let a person hold `row` again, on which they took a decision on an object that was undone.

    Other places on which they had decided on the object become free. One that they lost meanwhile (the object was
    edited, so that its people are asked anew) stays lost.
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
                leases.free_place(place, item, AssignmentState.RELEASED)
                continue
            place.queue = item.queue
            leases.reopen_hold(place)
