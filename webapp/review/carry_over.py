"""Decisions that are kept when the program of a task's environment changes, and those that are not."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from webapp.common.leases import AssignmentState
from webapp.review.decisions import add_closed_count, settle_subject
from webapp.review.models import Assignment, QueueItem, ReviewDecision, ReviewItemState, ReviewKind, ReviewQueue
from webapp.review.subjects import build_entity_tag, lock_subject
from webapp.review.verdicts import SETTLED
from webapp.scenarios.models import Task, TaskRevision


def _filter_standing(task: int, revision: int) -> QuerySet[ReviewDecision]:
    rows = ReviewDecision.objects.filter(task=task, revision=revision, undone_at__isnull=True)
    return rows.filter(user__isnull=False, gold_right__isnull=True).order_by("id")


def is_decided(task: Task) -> bool:
    """Return whether people have decided on a task in its current state, or begun to."""
    return task.review_state in SETTLED or _filter_standing(task.pk, task.current_id or 0).exists()


def carry_decisions(task: int, before: TaskRevision, after: TaskRevision, why: str) -> int:
    """Copy the standing decisions on a revision to the next one; return their number. Call it within `acting`.

    Each original stays unchanged on its revision; the copy names it, and `why`.
    """
    subject = lock_subject(ReviewKind.TASK, task)
    if before.pk == after.pk:
        return 0
    seen, carried = build_entity_tag(ReviewKind.TASK, subject), 0
    for row in _filter_standing(task, before.pk):
        detail = {**row.detail, "carried_from": row.pk, "why": why}
        row.pk, row._state.adding = None, True
        row.revision, row.seen, row.detail, row.assignment, row.group = after, seen, detail, None, None
        row.save(force_insert=True)
        carried += 1
    if carried:
        settle_subject(ReviewKind.TASK, subject)
    return carried


def reopen_outdated_items(queue: ReviewQueue) -> int:
    """Ask people anew about open and disputed items whose task got a further revision after they had decided.

    Return the number of items. An edit does it at once (`reopen_task_items`); imports and changes of a frame leave it
    to this function."""
    if queue.kind != ReviewKind.TASK:
        return 0
    unsettled = (ReviewItemState.OPEN, ReviewItemState.DISPUTED)
    votes = ReviewDecision.objects.filter(user=OuterRef("user"), task=OuterRef("item__task"), undone_at__isnull=True)
    places = Assignment.objects.filter(
        queue=queue, state=AssignmentState.DECIDED, item__gold__isnull=True, item__state__in=unsettled
    ).exclude(Exists(votes.filter(revision=OuterRef("item__task__current"))))
    outdated = sorted(set(places.values_list("item", "item__task")))
    for item, task in outdated:
        with transaction.atomic():
            subject = lock_subject(ReviewKind.TASK, task)
            row = QueueItem.objects.select_for_update(of=("self",)).get(pk=item)
            row.free += places.filter(item=item).update(state=AssignmentState.RELEASED)
            row.save(update_fields=["free"])
            settle_subject(ReviewKind.TASK, subject)
    return len(outdated)


def dismiss_decisions(task: int) -> None:
    """Undo the decisions that were taken on a task's current revision with another reference, and ask people anew."""
    subject = lock_subject(ReviewKind.TASK, task)
    if not isinstance(subject, Task) or not is_decided(subject):
        return
    _filter_standing(task, subject.current_id or 0).update(undone_at=timezone.now())
    settle_subject(ReviewKind.TASK, subject)
    reopen_task_items(task)


def reopen_task_items(task: int) -> None:
    """Open the items of a task whose decisions are no longer valid, with all their places free."""
    lock_subject(ReviewKind.TASK, task)
    items = QueueItem.objects.filter(task=task, gold__isnull=True).exclude(state=ReviewItemState.WITHDRAWN)
    for item in items.select_for_update(of=("self",)).order_by("pk"):
        item.assignments.filter(state=AssignmentState.DECIDED).update(state=AssignmentState.RELEASED)
        held = item.assignments.filter(state=AssignmentState.HELD).count()
        add_closed_count(item.queue_id, -int(item.state == ReviewItemState.CLOSED))
        item.state, item.free, item.closed_at = ReviewItemState.OPEN, max(item.overlap - held, 0), None
        item.save(update_fields=["state", "free", "closed_at"])
