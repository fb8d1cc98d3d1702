"""Queues: made, changed, filled, and given gold items with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import IntegrityError
from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils import timezone

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from webapp.accounts.access import ADJUDICATORS, QUEUE_EDITORS, SCOPES
from webapp.accounts.models import Role, User
from webapp.accounts.row_log import set_actor
from webapp.common.errors import ChangedMeanwhile, Conflict, NotFound
from webapp.jobs.models import Job
from webapp.jobs.queries import find_open_job
from webapp.jobs.services import enqueue_job
from webapp.review.assignments import GOLD_OVERLAP
from webapp.review.decisions import settle_subject
from webapp.review.models import (
    MOST_OVERLAP,
    QueueItem,
    QueueOrder,
    ReviewDecision,
    ReviewItemState,
    ReviewKind,
    ReviewQueue,
)
from webapp.review.queue_fill import ORDERS, Filled, filter_chosen, update_item_counts, update_queue_items
from webapp.review.queue_filters import read_queue_filters
from webapp.review.subjects import lock_subject

FILL_JOB = "fill_queue"
AT_ONCE = 2_000
"""A queue of so many items is filled while its maker waits; a larger one by a job."""
STALE_AFTER = timedelta(minutes=5)
NAME_CHARS = 100
QUERY_CHARS = 2_000
GUIDELINE_CHARS = 20_000
LEASE_MINUTES = (1, 240)
MOST_GOLD_SHARE = 0.5
REVIEWERS = tuple(role for role in Role.values if "review" in SCOPES[role])
"""Who makes and changes queues."""


@dataclass(frozen=True)
class QueueSettings:
    """Settings of a queue. `members` are user names; empty `roles` and `members` admit every reviewer."""

    name: str
    kind: str
    query: str = ""
    order: str = ""
    overlap: int = 1
    lease_minutes: int = 10
    roles: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    guideline: str = ""
    gold_share: float = 0.0


def can_edit(user: Any) -> bool:
    """Return whether a person may make, change and close queues, and give items to others."""
    return getattr(user, "role", "") in QUEUE_EDITORS


def require_editor(user: Any) -> None:
    if not can_edit(user):
        raise Conflict("Annotators work queues; adjudicators, researchers and operators make them.", code="not_yours")


def check_settings(given: QueueSettings) -> QueueSettings:
    """Return the cleaned settings. Raises InputError for unusable values, also for a filter's text that is too long."""
    name, guideline = clean_text(given.name).strip(), clean_text(given.guideline).strip()
    if not name or len(name) > NAME_CHARS:
        raise InputError(f"Give the queue a name of 1 to {NAME_CHARS} characters.")
    if given.kind not in ReviewKind.values:
        raise InputError("A queue holds tasks, failing tools, or trajectories.")
    order = given.order or ORDERS[given.kind][0]
    if order not in ORDERS[given.kind]:
        words = ", ".join(QueueOrder(one).label for one in ORDERS[given.kind])
        raise InputError(f"A queue of {ReviewKind(given.kind).label} can be ordered by: {words}.")
    if not 1 <= given.overlap <= MOST_OVERLAP:
        raise InputError(f"From 1 to {MOST_OVERLAP} people can decide on an item.")
    if not LEASE_MINUTES[0] <= given.lease_minutes <= LEASE_MINUTES[1]:
        raise InputError(f"An item can be held for {LEASE_MINUTES[0]} to {LEASE_MINUTES[1]} minutes.")
    if not 0 <= given.gold_share <= MOST_GOLD_SHARE:
        raise InputError(f"Known answers can be at most {MOST_GOLD_SHARE:.0%} of what a person gets.")
    if len(guideline) > GUIDELINE_CHARS:
        raise InputError(f"The guideline may have {GUIDELINE_CHARS:,} characters; this one has {len(guideline):,}.")
    if len(given.query) > QUERY_CHARS:
        raise InputError(
            f"Filters may have {QUERY_CHARS:,} characters; these have {len(given.query):,}. Choose fewer rows."
        )
    read_queue_filters(given.kind, QueryDict(given.query))
    unknown = [role for role in given.roles if role not in REVIEWERS]
    if unknown:
        raise InputError(f"The role {unknown[0]} may not review. Choose from {', '.join(REVIEWERS)}.")
    return QueueSettings(
        name, given.kind, given.query, order, given.overlap, given.lease_minutes,
        tuple(dict.fromkeys(given.roles)), given.members, guideline, given.gold_share,
    )  # fmt: skip


def find_named_people(names: Sequence[str]) -> list[User]:
    """Return the people with these user names. Raises InputError if one of them does not exist."""
    usernames = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    users_by_name = {user.username: user for user in User.objects.filter(username__in=usernames, is_active=True)}
    missing = [name for name in usernames if name not in users_by_name]
    if missing:
        raise InputError(f"There is no user {missing[0]!r}. Enter user names, separated by commas.")
    return [users_by_name[name] for name in usernames]


def create_queue(user: Any, settings: QueueSettings) -> ReviewQueue:
    """Create a queue and fill it. Raises InputError; Conflict if the name is taken, or the person may not."""
    require_editor(user)
    cleaned = check_settings(settings)
    people = find_named_people(cleaned.members)
    try:
        with set_actor(user):
            queue = ReviewQueue.objects.create(
                name=cleaned.name, kind=cleaned.kind, query=cleaned.query, order=cleaned.order, overlap=cleaned.overlap,
                lease_minutes=cleaned.lease_minutes, roles=list(cleaned.roles), guideline=cleaned.guideline,
                gold_share=cleaned.gold_share, created_by=user,
            )  # fmt: skip
            queue.members.set(people)
    except IntegrityError as error:
        raise Conflict(f"There is a queue “{cleaned.name}” already. Take another name.") from error
    refresh_queue(queue, user)
    return queue


STARTER_QUEUE = "Starter tasks"
STARTER_GUIDELINE = (
    "Approve a task if a person who reads its instruction would do what its checks ask for, and nothing else passes. "
    "Look at the instruction against the initial state, then at what each check says, then at the audit: it shows "
    "what the verifier gives for doing nothing, for the reference and for variants of it. Reject a task that cannot be "
    "repaired; ask for changes to one that can, and point to the check, the step or the path that is wrong."
)

FAILING_TOOLS_QUEUE = "Failing tools"
FAILING_TOOLS_GUIDELINE = (
    "This queue holds each tool of which a call failed or got a warning in the newest assessment of its environment. "
    "Read what the tool promises, then each such call: what it was given, what came back, and why the checker objects. "
    "Say whether the checker is right. If it is, open an edit, change the tool, and run its calls on the draft."
)


def get_or_create_starter_queue() -> tuple[ReviewQueue, bool]:
    """Return the queue of the bundled tasks and whether it was created just now. Concurrent calls create one queue."""
    with set_actor(None, "made with the starter set"):
        queue, new = ReviewQueue.objects.get_or_create(
            name=STARTER_QUEUE,
            defaults={
                "kind": ReviewKind.TASK, "query": "source=starter", "order": QueueOrder.DISAGREEMENT,
                "guideline": STARTER_GUIDELINE,
            },
        )  # fmt: skip
    if new:
        update_queue_items(queue)
    return queue, new


def get_or_create_tool_queue() -> tuple[ReviewQueue, bool]:
    """Return the queue of all failing tools and whether it was created just now. Changes of people to it remain."""
    with set_actor(None, "made with the starter set"):
        return ReviewQueue.objects.get_or_create(
            name=FAILING_TOOLS_QUEUE,
            defaults={
                "kind": ReviewKind.TOOL, "order": ORDERS[ReviewKind.TOOL][0], "guideline": FAILING_TOOLS_GUIDELINE,
            },
        )  # fmt: skip


def find_open_tool_queue() -> ReviewQueue | None:
    """Return the queue in which failing tools are decided on: the one with most open items, None if there is none."""
    rows = ReviewQueue.objects.filter(kind=ReviewKind.TOOL, is_open=True)
    return rows.order_by("-item_count", "pk").first()


def serialize_settings(queue: ReviewQueue) -> dict[str, Any]:
    """Return the settings of a queue by field: a change is bound to these as they were read."""
    names = ("name", "query", "order", "overlap", "lease_minutes", "guideline", "gold_share")
    members = sorted(user.username for user in queue.members.all())
    return {name: getattr(queue, name) for name in names} | {"roles": list(queue.roles), "members": members}


def change_queue(user: Any, pk: int, settings: QueueSettings, seen: dict[str, Any] | None = None) -> ReviewQueue:
    """Change a queue and fill it anew; its kind stays. `seen` are its settings as they were read.

    A larger overlap gives open items further places; a smaller one takes away those that are free. Raises NotFound;
    InputError; Conflict; ChangedMeanwhile if another person changed them.
    """
    require_editor(user)
    cleaned = check_settings(settings)
    people = find_named_people(cleaned.members)
    try:
        with set_actor(user):
            queue = ReviewQueue.objects.select_for_update().filter(pk=pk).first()
            if queue is None:
                raise NotFound("There is no such queue.")
            if seen is not None and seen != serialize_settings(queue):
                raise ChangedMeanwhile("This queue has changed since you opened it; your changes are not saved yet.")
            before = queue.overlap
            for name in ("name", "query", "order", "overlap", "lease_minutes", "guideline", "gold_share"):
                setattr(queue, name, getattr(cleaned, name))
            queue.roles = list(cleaned.roles)
            queue.save()
            queue.members.set(people)
            if queue.overlap != before:
                _resize_open_items(queue)
    except IntegrityError as error:
        raise Conflict(f"There is a queue “{cleaned.name}” already. Take another name.") from error
    if queue.overlap < before:
        _settle_full_items(user, queue)
    refresh_queue(queue, user)
    return queue


def _settle_full_items(user: Any, queue: ReviewQueue) -> None:
    """Settle the items on which as many people have decided as are needed now."""
    full = QueueItem.objects.filter(queue=queue, gold__isnull=True, state=ReviewItemState.OPEN, free=0)
    for pk in list(full.values_list(f"{queue.kind}_id", flat=True)):
        with set_actor(user, "fewer people decide on an item"):
            settle_subject(queue.kind, lock_subject(queue.kind, pk))


def _resize_open_items(queue: ReviewQueue) -> None:
    items = QueueItem.objects.filter(queue=queue, gold__isnull=True, state=ReviewItemState.OPEN).select_for_update()
    for item in items.order_by("pk").iterator(chunk_size=1_000):
        taken = item.overlap - item.free
        item.overlap = max(queue.overlap, taken)
        item.free = item.overlap - taken
        item.save(update_fields=["overlap", "free"])


def set_queue_open(user: Any, pk: int, *, is_open: bool) -> ReviewQueue:
    """Open or close a queue: no person can pull from a closed one. Raises NotFound; Conflict."""
    require_editor(user)
    with set_actor(user):
        queue = ReviewQueue.objects.select_for_update().filter(pk=pk).first()
        if queue is None:
            raise NotFound("There is no such queue.")
        queue.is_open = is_open
        queue.save(update_fields=["is_open"])
    return queue


def refresh_queue(queue: ReviewQueue, user: Any = None) -> Filled | Job:
    """Fill a queue, at once if it is small, else by a job."""
    if filter_chosen(queue).order_by()[: AT_ONCE + 1].count() <= AT_ONCE:
        return update_queue_items(queue)
    return start_fill_job(queue, user)


def start_fill_job(queue: ReviewQueue, user: Any = None) -> Job:
    """Start the job that fills a queue, or return the one under way."""
    subject = f"queue:{queue.pk}"
    open_job = find_open_job(FILL_JOB, subject)
    if open_job is not None:
        return open_job
    return enqueue_job(FILL_JOB, f"Fill the queue {queue.name}", {"queue": queue.pk}, user, subject=subject)


def refresh_if_stale(queue: ReviewQueue) -> None:
    """Fill a queue that is empty or was not filled for a while; only a small one is filled while the viewer waits."""
    if queue.filled_at is None or not queue.item_count or timezone.now() - queue.filled_at > STALE_AFTER:
        refresh_queue(queue)


def find_gold_decisions(decisions: Sequence[ReviewDecision]) -> set[int]:
    """Return the primary keys of those decisions whose item is now a gold item, which all people are asked."""
    of_these = Q(pk__in=())
    for kind in ReviewKind.values:
        of_these |= Q(**{f"{kind}__in": [row.subject_id for row in decisions if row.queue_id and row.kind == kind]})
    items = QueueItem.objects.filter(of_these, gold__isnull=False, queue__in={row.queue_id for row in decisions})
    gold = {(item.queue_id, item.kind, item.subject_id) for item in items}
    return {row.pk for row in decisions if (row.queue_id, row.kind, row.subject_id) in gold}


def create_gold_item(user: Any, decision: int) -> QueueItem:
    """Turn the item of a decision into a gold item: all people of the queue are asked it, to see how well they decide.

    Raises NotFound; Conflict if the decision was made outside of a queue, or the person may not.
    """
    row = ReviewDecision.objects.filter(pk=decision, undone_at__isnull=True, user__isnull=False).first()
    if row is None or row.queue_id is None:
        raise NotFound("There is no such decision of a queue.")
    if user.role not in ADJUDICATORS:
        raise Conflict("Adjudicators say which answers are known.", code="needs_adjudicator")
    with set_actor(user):
        items = QueueItem.objects.select_for_update(of=("self",)).select_related("queue")
        item = items.filter(queue=row.queue_id, **{f"{row.kind}_id": row.subject_id}).first()
        if item is None:
            raise NotFound("The item of this decision no longer exists.")
        if item.gold is not None:
            raise Conflict("The answer of this item is known already.")
        taken = item.overlap - item.free
        item.gold = {"verdict": row.verdict, "reasons": row.reasons, "decision": row.pk}
        item.state, item.overlap, item.free = ReviewItemState.OPEN, GOLD_OVERLAP, GOLD_OVERLAP - taken
        item.save(update_fields=["gold", "state", "overlap", "free"])
        update_item_counts(item.queue)
    return item


def list_queues(user: Any) -> list[ReviewQueue]:
    """Return every queue, open ones first, by name."""
    return list(ReviewQueue.objects.prefetch_related("members").order_by("-is_open", "kind", "name"))


def filter_sent_items(user: User) -> QuerySet[QueueItem]:
    """Return the open items that were sent to a person."""
    rows = QueueItem.objects.filter(assignee=user, state=ReviewItemState.OPEN, free__gt=0)
    return rows.select_related("queue", "sent_by").order_by("-id")


def get_named_queue(name: str) -> ReviewQueue:
    """Return the queue with this name or number. Raises NotFound."""
    condition = Q(name=name) | (Q(pk=int(name)) if name.isascii() and name.isdecimal() and len(name) < 19 else Q())
    queue = ReviewQueue.objects.filter(condition).first()
    if queue is None:
        raise NotFound(f"There is no queue {clean_text(name)[:60]!r}.")
    return queue
