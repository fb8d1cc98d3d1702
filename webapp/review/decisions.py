"""Decisions on tasks, tools and trajectories: bound to the content that was seen, settled by quorum, undone.

The object's row is locked first, then the item's, then the assignment's, wherever more than one of them is, so that two
transactions never wait for each other.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.db.models import F, Max, Model, Q
from django.utils import timezone

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from webapp.accounts.access import ADJUDICATORS
from webapp.accounts.row_log import set_actor
from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.common.errors import ChangedMeanwhile, Conflict, NotFound
from webapp.environments.case_groups import GROUPS
from webapp.environments.models import Tool
from webapp.review.assignments import can_work, close_assignment, find_own_place, lock_held_assignment, reopen_places
from webapp.review.models import (
    Assignment,
    Draft,
    QueueItem,
    ReviewDecision,
    ReviewItemState,
    ReviewKind,
    ReviewQueue,
    build_subject_filter,
)
from webapp.review.places import require_place, require_place_length
from webapp.review.subjects import build_entity_tag, lock_subject
from webapp.review.task_gate import can_override, list_obstacles
from webapp.review.verdicts import APPROVE, REASONS, SETTLED, find_verdict
from webapp.scenarios.models import ReviewState, Task, TaskRevision
from webapp.scenarios.references import cache_reference
from webapp.trajectories.models import Trajectory

COMMENT_CHARS = 4_000
MOST_PLACES = 20
MOST_SECONDS = 4 * 3600.0


@dataclass(frozen=True)
class DecisionChoice:
    """The decision of a person. `places` are what the comment points to; `seconds` is how long they looked."""

    verdict: str
    reasons: tuple[str, ...] = ()
    comment: str = ""
    places: tuple[str, ...] = ()
    detail: dict[str, Any] = field(default_factory=dict)
    overrides: bool = False
    seconds: float | None = None


def check_choice(kind: str, choice: DecisionChoice) -> DecisionChoice:
    """Return the cleaned choice. Raises InputError for an unknown verdict or reason, a missing reason, or too long
    texts."""
    verdict = find_verdict(kind, choice.verdict)
    if verdict is None:
        raise InputError("Choose one of the verdicts that the page offers.")
    known_codes = {reason.code for reason in REASONS[kind]}
    unknown = [code for code in choice.reasons if code not in known_codes]
    if unknown:
        raise InputError(f"There is no reason {clean_text(unknown[0])[:40]!r}. Choose from those that are listed.")
    comment = clean_text(choice.comment).strip()
    if len(comment) > COMMENT_CHARS:
        raise InputError(f"Write a comment of at most {COMMENT_CHARS:,} characters; this one has {len(comment):,}.")
    if verdict.needs_reason and not choice.reasons:
        raise InputError(f"Say why: “{verdict.label}” needs at least one reason.")
    if choice.overrides and not comment:
        raise InputError("Say in the comment why you approve against the audit.")
    if len(choice.places) > MOST_PLACES:
        raise InputError(f"Point to at most {MOST_PLACES} places.")
    groups = choice.detail.get("groups", {})
    strange = [
        code for code in groups if code not in dict(GROUPS) or find_verdict(ReviewKind.TOOL, groups[code]) is None
    ]
    if groups and (kind != ReviewKind.TOOL or strange):
        raise InputError("Say of a group of a tool's cases one of the verdicts that the page offers.")
    seconds = None if choice.seconds is None else min(max(choice.seconds, 0.0), MOST_SECONDS)
    places = tuple(dict.fromkeys(clean_text(place).strip() for place in choice.places if place.strip()))
    for place in places:
        require_place_length(place)
    reasons = tuple(dict.fromkeys(choice.reasons))
    detail = {"groups": dict(groups)} if groups else {}
    return DecisionChoice(choice.verdict, reasons, comment, places, detail, choice.overrides, seconds)


def create_decision(
    user: Any,
    kind: str,
    pk: int,
    choice: DecisionChoice,
    seen: str,
    *,
    assignment: Assignment | None = None,
    group: uuid.UUID | None = None,
) -> ReviewDecision:
    """Store a person's decision on the object as they saw it (`seen`, its entity tag), and settle the object by it.

    Without an `assignment` it is taken on the place that they hold in a queue, if any. An earlier decision of theirs on
    the same content is undone. Raises NotFound; InputError for an invalid choice; Conflict if the audit or a missing
    reference forbids it, they may not override, or others have to decide on the object; ChangedMeanwhile if it is not
    as it was seen.
    """
    cleaned_choice = check_choice(kind, choice)
    with set_actor(user, cleaned_choice.comment):
        subject = lock_subject(kind, pk)
        if assignment is None:
            assignment = find_own_place(user, kind, pk)
            _require_worker(user, kind, pk, assignment)
        return _store_decision(user, kind, subject, cleaned_choice, seen, assignment, group)


def decide_on_held_item(user: Any, item: QueueItem, hold: int, choice: DecisionChoice, seen: str) -> ReviewDecision:
    """Store a decision as `create_decision` does, on a queue's item on which the person has this hold; a lease that has
    ended is taken up again.

    Raises what `create_decision` does; Conflict if another person has the item now.
    """
    cleaned_choice = check_choice(item.kind, choice)
    with set_actor(user, cleaned_choice.comment):
        subject = lock_subject(item.kind, item.subject_id)
        own = lock_held_assignment(user, hold)
        if own.item_id != item.pk:
            raise NotFound("This is another item.")
        return _store_decision(user, item.kind, subject, cleaned_choice, seen, own, None)


def _store_decision(
    user: Any,
    kind: str,
    subject: Task | Tool | Trajectory,
    given: DecisionChoice,
    seen: str,
    assignment: Assignment | None,
    group: uuid.UUID | None,
) -> ReviewDecision:
    """Store the row of a decision on a locked object, if nothing forbids it, and settle the object."""
    gold = assignment is not None and assignment.item.gold is not None
    revision = subject.current if isinstance(subject, Task) else None
    if revision is not None:
        cache_reference(revision)
    if not gold:
        _require_seen(subject, kind, seen)
    for place in given.places:
        require_place(subject, place)
    if isinstance(subject, Task) and given.verdict == APPROVE and not gold:
        _require_approvable(user, subject, given)
    _undo_own_decision(user, kind, subject.pk, revision)
    seconds = given.seconds if assignment is None else max(assignment.seconds, given.seconds or 0.0) or None
    row = ReviewDecision.objects.create(
        **{kind: subject},
        revision=revision,
        seen=seen,
        queue_id=assignment.queue_id if assignment is not None else None,
        assignment=assignment,
        user=user,
        verdict=given.verdict,
        reasons=list(given.reasons),
        comment=given.comment,
        places=list(given.places),
        detail=given.detail,
        overrides=given.overrides,
        adjudicates=user.role in ADJUDICATORS and is_disputed(kind, subject.pk),
        seconds=seconds,
        gold_right=assignment.item.gold["verdict"] == given.verdict if gold and assignment is not None else None,
        group=group,
    )
    if assignment is not None:
        close_assignment(assignment, seconds)
    Draft.objects.filter(user=user, **build_subject_filter(kind, subject.pk)).delete()
    if not gold:
        settle_subject(kind, subject)
    return row


def undo_decision(user: Any, pk: int) -> ReviewDecision:
    """Undo a decision: one's own, or as an adjudicator another person's. Its author holds the item again, with a draft.

    Raises NotFound; Conflict if it is undone already, is another person's, or the object was changed since.
    """
    decision = ReviewDecision.objects.filter(pk=pk).first()
    if decision is None:
        raise NotFound("There is no such decision.")
    with set_actor(user, "undone"):
        subject = lock_subject(decision.kind, decision.subject_id)
        row = ReviewDecision.objects.select_for_update(of=("self",)).select_related("assignment__item").get(pk=pk)
        if row.undone_at is not None:
            raise Conflict("This decision is undone already.")
        if row.user_id != user.pk and user.role not in ADJUDICATORS:
            raise Conflict("Only its author or an adjudicator can undo a decision.")
        row.undone_at, row.undone_by = timezone.now(), user
        row.save(update_fields=["undone_at", "undone_by"])
        stands = row.gold_right is None and any(
            vote.user_id == row.user_id for vote in list_standing_decisions(row.kind, subject)
        )
        if not stands:  # else it was of an earlier revision, and they have decided on this one too
            reopen_places(row.user, row.kind, row.subject_id, row.assignment)
        if row.user_id is not None:
            body = {
                "verdict": row.verdict, "reasons": row.reasons, "comment": row.comment, "places": row.places,
                "detail": row.detail,
            }  # fmt: skip
            draft_values = {"seen": row.seen, "body": body}
            # A draft that is there was typed after the decision, which removes the one before it: it stays.
            Draft.objects.get_or_create(
                user_id=row.user_id, **build_subject_filter(row.kind, row.subject_id), defaults=draft_values
            )
        settle_subject(row.kind, subject)
        if isinstance(subject, Task) and subject.review_state == ReviewState.IN_REVIEW and _are_all_taken_back(subject):
            _set_state(subject, ReviewState.DRAFT)
    return row


def _are_all_taken_back(task: Task) -> bool:
    """Return whether people took back every decision on a task, which then is as before them. Decisions that a change
    of the task took back leave it in review."""
    rows = ReviewDecision.objects.filter(task=task, user__isnull=False, gold_right__isnull=True)
    return not rows.filter(Q(undone_at__isnull=True) | Q(undone_by__isnull=True)).exists()


def undo_bulk_act(user: Any, group: uuid.UUID) -> int:
    """Undo every standing decision of one bulk action. Raises NotFound if there is none of the person's."""
    rows = ReviewDecision.objects.filter(group=group, user=user, undone_at__isnull=True)
    keys = list(rows.order_by("task", "id").values_list("pk", flat=True))
    if not keys:
        raise NotFound("These decisions are undone already, or are not yours.")
    with set_actor(user, "undone"):
        for key in keys:
            undo_decision(user, key)
    return len(keys)


def list_standing_decisions(kind: str, subject: Model) -> list[ReviewDecision]:
    """Return the decisions of people that count for an object in its current state, oldest first."""
    if isinstance(subject, Task):
        return _query_standing(kind).rows(subject=subject.pk, revision=subject.current_id) if subject.current_id else []
    return _query_standing(kind).rows(subject=subject.pk)


@cache
def _query_standing(kind: str) -> KeptQuery[ReviewDecision]:
    revision = {"revision": Given("revision")} if kind == ReviewKind.TASK else {}
    return KeptQuery(
        lambda: (
            ReviewDecision.objects.filter(undone_at__isnull=True, user__isnull=False, gold_right__isnull=True)
            .filter(**{f"{kind}_id": Given("subject")}, **revision)
            .select_related("user")
            .order_by("id")
        )
    )


def count_required(kind: str, pk: int) -> int:
    """Return how many people have to decide: the largest overlap of the open queues that hold the object, else one."""
    items = QueueItem.objects.filter(**build_subject_filter(kind, pk), gold__isnull=True, queue__is_open=True)
    return items.exclude(state=ReviewItemState.WITHDRAWN).aggregate(most=Max("overlap"))["most"] or 1


def combine_votes(votes: Sequence[ReviewDecision], needed: int) -> tuple[str, bool]:
    """Return (the valid verdict or "", whether people disagree): an adjudicator's verdict, else the unanimous one of
    all required people."""
    for vote in reversed(votes):
        if vote.adjudicates:
            return vote.verdict, False
    verdicts = {vote.verdict for vote in votes}
    if len(votes) < needed:
        return "", False
    return (verdicts.pop(), False) if len(verdicts) == 1 else ("", True)


def settle_subject(kind: str, subject: Model) -> None:
    """Set the states of the object and its items by the standing decisions. The object's row is locked."""
    votes = list_standing_decisions(kind, subject)
    verdict, disputed = combine_votes(votes, count_required(kind, subject.pk))
    if isinstance(subject, Task):
        _settle_task_state(subject, verdict, began=bool(votes))
    state = ReviewItemState.CLOSED if verdict else ReviewItemState.DISPUTED if disputed else ReviewItemState.OPEN
    items = QueueItem.objects.filter(**build_subject_filter(kind, subject.pk), gold__isnull=True)
    for item in (
        items.exclude(state__in=(ReviewItemState.WITHDRAWN, state)).select_for_update(of=("self",)).order_by("pk")
    ):
        if state == ReviewItemState.CLOSED or item.state == ReviewItemState.CLOSED:
            closed = int(state == ReviewItemState.CLOSED) - int(item.state == ReviewItemState.CLOSED)
            add_closed_count(item.queue_id, closed)
        item.state = state
        item.closed_at = timezone.now() if state == ReviewItemState.CLOSED else None
        item.save(update_fields=["state", "closed_at"])


def add_closed_count(queue: int, by: int) -> None:
    """Add to a queue's count of decided items."""
    if by:
        ReviewQueue.objects.filter(pk=queue).update(closed_count=F("closed_count") + by)


def _settle_task_state(task: Task, verdict: str, *, began: bool) -> None:
    settled_verdict = find_verdict(ReviewKind.TASK, verdict) if verdict else None
    state = settled_verdict.state if settled_verdict is not None else task.review_state
    if settled_verdict is None and (began or task.review_state in SETTLED):
        state = ReviewState.IN_REVIEW
    if state != task.review_state:
        _set_state(task, state)


def _set_state(task: Task, state: str) -> None:
    task.review_state = state
    Task.objects.filter(pk=task.pk).update(review_state=state)
    TaskRevision.objects.filter(pk=task.current_id or 0).update(review_state=state)


def _undo_own_decision(user: Any, kind: str, pk: int, revision: TaskRevision | None) -> None:
    """Undo a person's earlier decision on the same content."""
    rows = ReviewDecision.objects.filter(user=user, undone_at__isnull=True, gold_right__isnull=True)
    rows = rows.filter(revision=revision) if revision is not None else rows.filter(**build_subject_filter(kind, pk))
    rows.update(undone_at=timezone.now(), undone_by=user)


def _require_worker(user: Any, kind: str, pk: int, place: Assignment | None) -> None:
    """Raise Conflict if queues hold the object, and all of them are worked by others."""
    if place is None and not can_decide(user, kind, pk):
        raise Conflict(
            "It is in a queue of other reviewers. The page of the queue says who they are.", code="not_yours"
        )


def can_decide(user: Any, kind: str, pk: int) -> bool:
    """Return whether a person may decide on an object outside of queues: not if they work none of those that hold
    it."""
    if user.role in ADJUDICATORS:
        return True
    queues = list_open_queues(kind, pk)
    return not queues or any(can_work(user, queue) for queue in queues)


def list_open_queues(kind: str, pk: int) -> list[ReviewQueue]:
    """Return the open queues that hold an object."""
    items = QueueItem.objects.filter(**build_subject_filter(kind, pk), gold__isnull=True)
    holding = items.exclude(state=ReviewItemState.WITHDRAWN).values("queue")
    return list(ReviewQueue.objects.filter(pk__in=holding, is_open=True).prefetch_related("members").order_by("name"))


def is_disputed(kind: str, pk: int) -> bool:
    """Return whether the required people disagree on an object, so that an adjudicator has to settle it."""
    return QueueItem.objects.filter(**build_subject_filter(kind, pk), state=ReviewItemState.DISPUTED).exists()


def _require_seen(subject: Model, kind: str, seen: str) -> None:
    now = build_entity_tag(kind, subject)
    if seen != now:
        words = (
            "It was changed since you opened it. What you filled in is kept: look at what changed, and decide again."
        )
        raise ChangedMeanwhile(words, facts={"etag": now})


def _require_approvable(user: Any, task: Task, choice: DecisionChoice) -> None:
    task_obstacles = list_obstacles(task)
    if not task_obstacles:
        return
    hard = [one for one in task_obstacles if not one.overridable]
    if hard:
        raise Conflict(f"It cannot be approved. {' '.join(one.message for one in hard)}", code=hard[0].code)
    if not choice.overrides:
        words = f"It cannot be approved. {' '.join(one.message for one in task_obstacles)}"
        raise Conflict(
            f"{words} An adjudicator may approve it all the same, with a reason.", code=task_obstacles[0].code
        )
    if not can_override(user):
        raise Conflict("Only an adjudicator may approve against an audit.", code="needs_adjudicator")
