"""Decisions that stay with a task when its environment's program changes, and those that do not."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from webapp.review.decisions import count_closed, settle
from webapp.review.models import (
    Assignment,
    AssignmentState,
    QueueItem,
    ReviewDecision,
    ReviewItemState,
    ReviewKind,
    ReviewQueue,
)
from webapp.review.subjects import locked_subject, tag_of
from webapp.review.verdicts import SETTLED
from webapp.scenarios.models import Task, TaskRevision


def _standing_on(task: int, revision: int) -> QuerySet[ReviewDecision]:
    rows = ReviewDecision.objects.filter(task=task, revision=revision, undone_at__isnull=True)
    return rows.filter(user__isnull=False, gold_right__isnull=True).order_by("id")


def is_decided(task: Task) -> bool:
    """Whether people have decided on a task as it is now, or begun to."""
    return task.review_state in SETTLED or _standing_on(task.pk, task.current_id or 0).exists()


def carry_decisions(task: int, before: TaskRevision, after: TaskRevision, why: str) -> int:
    """Let the standing decisions on a revision stand on the next one; how many there were. Call it where `acting`.

    Each stays what it was on the revision it was taken on; the one that carries it on names it, and `why`.
    """
    subject = locked_subject(ReviewKind.TASK, task)
    if before.pk == after.pk:
        return 0
    seen, carried = tag_of(ReviewKind.TASK, subject), 0
    for row in _standing_on(task, before.pk):
        detail = {**row.detail, "carried_from": row.pk, "why": why}
        row.pk, row._state.adding = None, True
        row.revision, row.seen, row.detail, row.assignment, row.group = after, seen, detail, None, None
        row.save(force_insert=True)
        carried += 1
    if carried:
        settle(ReviewKind.TASK, subject)
    return carried


def ask_outdated(queue: ReviewQueue) -> int:
    """Ask people anew of the open and disputed items whose task got a further revision after they had decided.

    How many items there were. An edit does it at once (`ask_anew`); imports and changes of a frame leave it to here.
    """
    if queue.kind != ReviewKind.TASK:
        return 0
    unsettled = (ReviewItemState.OPEN, ReviewItemState.DISPUTED)
    votes = ReviewDecision.objects.filter(user=OuterRef("user"), task=OuterRef("item__task"), undone_at__isnull=True)
    places = Assignment.objects.filter(
        queue=queue, state=AssignmentState.DECIDED, item__gold__isnull=True, item__state__in=unsettled
    ).exclude(Exists(votes.filter(revision=OuterRef("item__task__current"))))
    found = sorted(set(places.values_list("item", "item__task")))
    for item, task in found:
        with transaction.atomic():
            subject = locked_subject(ReviewKind.TASK, task)
            row = QueueItem.objects.select_for_update(of=("self",)).get(pk=item)
            row.free += places.filter(item=item).update(state=AssignmentState.RELEASED)
            row.save(update_fields=["free"])
            settle(ReviewKind.TASK, subject)
    return len(found)


def dismiss_decisions(task: int) -> None:
    """Take back what was decided on a task's current revision by another reference, and ask people anew."""
    subject = locked_subject(ReviewKind.TASK, task)
    if not isinstance(subject, Task) or not is_decided(subject):
        return
    _standing_on(task, subject.current_id or 0).update(undone_at=timezone.now())
    settle(ReviewKind.TASK, subject)
    ask_anew(task)


def ask_anew(task: int) -> None:
    """Open the items of a task whose decisions do not hold any more, with all their places free."""
    locked_subject(ReviewKind.TASK, task)
    items = QueueItem.objects.filter(task=task, gold__isnull=True).exclude(state=ReviewItemState.WITHDRAWN)
    for item in items.select_for_update(of=("self",)).order_by("pk"):
        item.assignments.filter(state=AssignmentState.DECIDED).update(state=AssignmentState.RELEASED)
        held = item.assignments.filter(state=AssignmentState.HELD).count()
        count_closed(item.queue_id, -int(item.state == ReviewItemState.CLOSED))
        item.state, item.free, item.closed_at = ReviewItemState.OPEN, max(item.overlap - held, 0), None
        item.save(update_fields=["state", "free", "closed_at"])
