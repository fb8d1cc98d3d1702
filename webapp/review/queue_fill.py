"""Filling of queues: the objects that a queue's filters choose now, their order, and the reason for each rank."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet
from django.http import QueryDict
from django.utils import timezone

from webapp.common.leases import AssignmentState
from webapp.common.query_params import Params
from webapp.environments.models import Assessment, Tool, ToolCase
from webapp.review.carry_over import reopen_outdated_items
from webapp.review.flags.rules import describe_flags, filter_flagged, read_flags
from webapp.review.models import (
    Assignment,
    QueueItem,
    QueueOrder,
    ReviewDecision,
    ReviewItemState,
    ReviewKind,
    ReviewQueue,
)
from webapp.review.verdicts import SETTLED
from webapp.scenarios import queries
from webapp.scenarios.models import ReviewState, Task, TaskReference
from webapp.scenarios.task_filters import read_filters as read_task_filters
from webapp.trajectories.models import Trajectory
from webapp.trajectories.trajectory_list import filter_trajectories
from webapp.trajectories.trajectory_list import read_filters as read_trajectory_filters

MOST_ITEMS = 200_000
"""Number of objects that a queue holds; filters that choose more take the newest."""
CHUNK = 1_000
ORDERS: dict[str, tuple[str, ...]] = {
    ReviewKind.TASK: (QueueOrder.DISAGREEMENT, QueueOrder.NEWEST, QueueOrder.RANDOM),
    ReviewKind.TOOL: (QueueOrder.BLOCKED, QueueOrder.NEWEST, QueueOrder.RANDOM),
    ReviewKind.TRAJECTORY: (QueueOrder.NEWEST, QueueOrder.DISAGREEMENT, QueueOrder.RANDOM),
}
"""The orders that each kind of queue offers, the usual one first."""


@dataclass(frozen=True)
class Standing:
    """The rank of an object in a queue, and the reason, in words."""

    rank: float
    why: str = ""


@dataclass(frozen=True)
class Filled:
    """Changes made by a filling."""

    added: int
    withdrawn: int
    reopened: int
    total: int


def filter_chosen(queue: ReviewQueue) -> QuerySet[Any]:
    """Return the objects that a queue's filters choose now.

    Tasks: those without a decision, unless the filters name a review state; tools: those of current versions with a
    failed or warned case; trajectories: those that ended, and have one of the named flags.
    """
    query = QueryDict(queue.query)
    if queue.kind == ReviewKind.TASK:
        filter_values = read_task_filters(query).values
        rows = queries.filter_tasks(filter_values).filter(current__isnull=False)
        return rows if "review" in filter_values else rows.exclude(review_state__in=SETTLED)
    if queue.kind == ReviewKind.TOOL:
        return _filter_failing_tools(query)
    return filter_flagged(filter_trajectories(read_trajectory_filters(query)).filter(live=False), read_flags(query))


def _filter_failing_tools(query: QueryDict) -> QuerySet[Tool]:
    params = Params(query)
    verdicts = ["fail"] if params.choice("verdict", ("fail", "any")) == "fail" else ["fail", "warning"]
    newest = Assessment.objects.filter(version=OuterRef("version")).order_by("-id").values("pk")[:1]
    rows = Tool.objects.filter(version__environment__current=F("version")).annotate(newest=newest)
    cases = ToolCase.objects.filter(assessment=OuterRef("newest"), tool=OuterRef("name"), verdict__in=verdicts)
    rows = rows.filter(Exists(cases))
    if text := params.text("environment", strip=True):
        rows = rows.filter(version__environment__name__icontains=text)
    if category := params.text("category"):
        rows = rows.filter(version__environment__category=category)
    return rows


def is_any_assessed() -> bool:
    """Return whether any environment was assessed in its current version: before that no queue can hold a failing
    tool."""
    return Assessment.objects.filter(version__environment__current=F("version")).exists()


def rank_chosen(queue: ReviewQueue) -> dict[int, Standing]:
    """Return the rank of each chosen object, by primary key."""
    keys = list(filter_chosen(queue).order_by("-id").values_list("pk", flat=True)[:MOST_ITEMS])
    standings = _rank_by_order(queue, keys)
    flags = read_flags(QueryDict(queue.query)) if queue.kind == ReviewKind.TRAJECTORY else ()
    words = describe_flags(keys, flags) if flags else {}
    return standings | {key: Standing(standings[key].rank, said) for key, said in words.items()}


def _rank_by_order(queue: ReviewQueue, keys: list[int]) -> dict[int, Standing]:
    if queue.order == QueueOrder.RANDOM:
        return {key: Standing(zlib.crc32(f"{queue.pk}:{key}".encode()) / 2**32) for key in keys}
    if queue.order == QueueOrder.BLOCKED and queue.kind == ReviewKind.TOOL:
        return _rank_by_blocked_tasks(keys)
    if queue.order == QueueOrder.DISAGREEMENT:
        return _rank_by_disagreement(queue.kind, keys)
    return {key: Standing(float(key)) for key in keys}


def _rank_by_disagreement(kind: str, keys: list[int]) -> dict[int, Standing]:
    """Rank votes that differ first, then attempts at the same task that end differently: 4p(1-p) of the solved share
    p."""
    task_of = {key: key for key in keys}
    if kind == ReviewKind.TRAJECTORY:
        task_of = dict(Trajectory.objects.filter(pk__in=keys).values_list("pk", "task_id"))
    tried = Trajectory.objects.filter(task__in=set(task_of.values()), reward__isnull=False)
    counts = tried.values("task").annotate(n=Count("pk"), solved=Count("pk", filter=Q(outcome="solved")))
    shares = {row["task"]: (row["solved"], row["n"]) for row in counts.order_by()}
    votes: Counter[int] = Counter()
    if kind == ReviewKind.TASK:
        split = ReviewDecision.objects.filter(undone_at__isnull=True, gold_right__isnull=True, task__in=keys)
        split = split.filter(revision=F("task__current"))
        votes.update(dict(split.values_list("task").annotate(n=Count("verdict", distinct=True)).order_by()))
    standings = {}
    for key, task in task_of.items():
        solved, n = shares.get(task, (0, 0))
        share = solved / n if n else 0.0
        why = f"{solved} of {n} attempts solve it" if n else "no attempt yet"
        if votes[key] > 1:
            why = f"people disagree; {why}"
        standings[key] = Standing(4 * share * (1 - share) + max(0, votes[key] - 1), why)
    return standings


def _rank_by_blocked_tasks(keys: list[int]) -> dict[int, Standing]:
    """Rank tools by the number of tasks of their environment that call them in their reference, the most first."""
    tools = {
        row["pk"]: (row["version__environment"], row["name"])
        for row in Tool.objects.filter(pk__in=keys).values("pk", "name", "version__environment")
    }
    environments = {environment for environment, _ in tools.values()}
    newest = TaskReference.objects.filter(
        revision__task__environment__in=environments, revision=F("revision__task__current")
    )
    newest_keys = newest.values("revision").annotate(newest=Max("pk")).values("newest")
    uses: Counter[tuple[int, str]] = Counter()
    rows = TaskReference.objects.filter(pk__in=newest_keys).values_list("revision__task__environment", "calls")
    for environment, calls in rows.iterator(chunk_size=CHUNK):
        uses.update({(environment, call["tool"]) for call in calls})
    standings = {}
    for key, place in tools.items():
        count = uses[place]
        standings[key] = Standing(float(count), f"blocks {count} task{'s' * (count != 1)}")
    return standings


def update_queue_items(queue: ReviewQueue) -> Filled:
    """Bring a queue's items in line with its filters: add new ones, rank anew, withdraw others, reopen edited ones.

    An item that a person holds or has decided on is never withdrawn. If the task of an item got a further revision
    after people had begun to decide, they are asked anew.
    """
    standings = rank_chosen(queue)
    now = timezone.now()
    rows = QueueItem.objects.filter(queue=queue, gold__isnull=True)
    fields = ("pk", f"{queue.kind}_id", "state", "rank", "why")
    known_rows = {row[1]: row for row in rows.values_list(*fields)}
    added = _add_items(queue, [key for key in standings if key not in known_rows], standings)
    changed = [
        QueueItem(pk=row[0], rank=standings[key].rank, why=standings[key].why)
        for key, row in known_rows.items()
        if key in standings and (row[3], row[4]) != (standings[key].rank, standings[key].why)
    ]
    QueueItem.objects.bulk_update(changed, ["rank", "why"], batch_size=CHUNK)
    reopened = _reopen_items(queue, standings) + reopen_outdated_items(queue)
    withdrawable = [
        row[0] for key, row in known_rows.items() if key not in standings and row[2] == ReviewItemState.OPEN
    ]
    withdrawn = _withdraw_items(withdrawable)
    update_item_counts(queue, filled_at=now)
    return Filled(added, withdrawn, reopened, len(standings))


def _add_items(queue: ReviewQueue, keys: list[int], wanted: dict[int, Standing]) -> int:
    rows = [
        QueueItem(
            queue=queue,
            overlap=queue.overlap,
            free=queue.overlap,
            rank=wanted[key].rank,
            why=wanted[key].why,
            **{f"{queue.kind}_id": key},
        )
        for key in keys
    ]
    QueueItem.objects.bulk_create(rows, batch_size=CHUNK, ignore_conflicts=True)
    return len(rows)


def _withdraw_items(keys: list[int]) -> int:
    count = 0
    active_holds = Assignment.objects.filter(
        item=OuterRef("pk"), state__in=(AssignmentState.HELD, AssignmentState.DECIDED)
    )
    for start in range(0, len(keys), CHUNK):
        rows = QueueItem.objects.filter(pk__in=keys[start : start + CHUNK], state=ReviewItemState.OPEN)
        count += rows.exclude(Exists(active_holds)).update(state=ReviewItemState.WITHDRAWN)
    return count


def _reopen_items(queue: ReviewQueue, wanted: dict[int, Standing]) -> int:
    """Open withdrawn items that match again, and decided ones whose task was edited since."""
    rows = QueueItem.objects.filter(
        queue=queue, gold__isnull=True, state__in=(ReviewItemState.WITHDRAWN, ReviewItemState.CLOSED)
    )
    count = 0
    for key, item, state in rows.values_list(f"{queue.kind}_id", "pk", "state"):
        if key in wanted and (state == ReviewItemState.WITHDRAWN or queue.kind == ReviewKind.TASK):
            count += reopen_item(item)
    return count


@transaction.atomic
def reopen_item(pk: int) -> int:
    """Open an item again with all its places free; return 1 if that changed something.

    A decided one is opened only if its task is in review again: its people are asked anew.
    """
    item = QueueItem.objects.select_for_update(of=("self",)).get(pk=pk)
    if item.state not in (ReviewItemState.WITHDRAWN, ReviewItemState.CLOSED):
        return 0
    if item.state == ReviewItemState.CLOSED and not _is_in_review(item):
        return 0
    item.assignments.filter(state=AssignmentState.DECIDED).update(state=AssignmentState.RELEASED)
    held = item.assignments.filter(state=AssignmentState.HELD).count()
    item.state, item.free, item.closed_at = ReviewItemState.OPEN, item.overlap - held, None
    item.save(update_fields=["state", "free", "closed_at"])
    return 1


def _is_in_review(item: QueueItem) -> bool:
    undecided = (ReviewState.DRAFT, ReviewState.IN_REVIEW)
    return Task.objects.filter(pk=item.task_id or 0, review_state__in=undecided).exists()


def update_item_counts(queue: ReviewQueue, **also: Any) -> None:
    """Update a queue's counts of items."""
    rows = QueueItem.objects.filter(queue=queue, gold__isnull=True).exclude(state=ReviewItemState.WITHDRAWN)
    counted = rows.aggregate(all=Count("pk"), closed=Count("pk", filter=Q(state=ReviewItemState.CLOSED)))
    queue.item_count, queue.closed_count = counted["all"], counted["closed"]
    for name, value in also.items():
        setattr(queue, name, value)
    queue.save(update_fields=["item_count", "closed_count", *also])
