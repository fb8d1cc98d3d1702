"""Numbers of a queue: progress, agreement of people, speed, and stuck items with reasons."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from itertools import combinations
from statistics import median
from typing import Any

from django.db.models import Count, Q
from django.utils import timezone

from webapp.common.frequencies import rank_by_count
from webapp.common.leases import AssignmentState
from webapp.review.models import Assignment, QueueItem, ReviewDecision, ReviewItemState, ReviewQueue

MOST_DECISIONS = 20_000
"""Number of a queue's newest decisions that are read."""
STUCK_SHOWN = 20
LONG = timedelta(days=3)


@dataclass(frozen=True)
class PersonLine:
    """Numbers of one person, or a judge, in a queue. Shares are None if there is nothing to divide by."""

    name: str
    decisions: int
    seconds: float | None
    agreed: int
    compared: int
    gold_right: int
    gold: int
    skipped: int = 0
    is_judge: bool = False

    @property
    def agreement(self) -> float | None:
        return self.agreed / self.compared if self.compared else None

    @property
    def gold_share(self) -> float | None:
        return self.gold_right / self.gold if self.gold else None


@dataclass(frozen=True)
class StuckItem:
    item: QueueItem
    why: str


@dataclass(frozen=True)
class QueueNumbers:
    """Numbers of a queue. `agreement` is the share of pairs of people who gave the same verdict on the same item; None
    without a pair."""

    open: int
    held: int
    disputed: int
    closed: int
    withdrawn: int
    gold: int
    verdicts: list[tuple[str, int]]
    agreement: float | None
    pairs: int
    seconds: float | None
    last_hour: int
    last_day: int
    people: list[PersonLine]
    stuck: list[StuckItem]
    cut: bool

    @property
    def total(self) -> int:
        return self.open + self.disputed + self.closed


def compute_queue_numbers(queue: ReviewQueue) -> QueueNumbers:
    """Return all numbers on a queue's page."""
    rows = QueueItem.objects.filter(queue=queue)
    states = dict(rows.filter(gold__isnull=True).values_list("state").annotate(n=Count("pk")).order_by())
    fields = (
        "user__username", "judge", "verdict", "seconds", "gold_right", "created_at", "assignment__item",
        f"{queue.kind}_id", "revision_id",
    )  # fmt: skip
    decision_rows = ReviewDecision.objects.filter(queue=queue, undone_at__isnull=True).order_by("-id")
    decisions = list(decision_rows.values(*fields)[:MOST_DECISIONS])
    people, agreed, pairs = _compute_person_lines(queue, decisions)
    seconds = [row["seconds"] for row in decisions if row["seconds"] is not None]
    verdicts: dict[str, int] = defaultdict(int)
    now = timezone.now()
    by_people = [row for row in decisions if not row["judge"]]
    for row in by_people:
        if row["gold_right"] is None:
            verdicts[row["verdict"]] += 1
    return QueueNumbers(
        open=states.get(ReviewItemState.OPEN, 0),
        held=Assignment.objects.filter(queue=queue, state=AssignmentState.HELD, expires_at__gt=now).count(),
        disputed=states.get(ReviewItemState.DISPUTED, 0),
        closed=states.get(ReviewItemState.CLOSED, 0),
        withdrawn=states.get(ReviewItemState.WITHDRAWN, 0),
        gold=rows.filter(gold__isnull=False).count(),
        verdicts=rank_by_count(verdicts),
        agreement=agreed / pairs if pairs else None,
        pairs=pairs,
        seconds=median(seconds) if seconds else None,
        last_hour=sum(row["created_at"] > now - timedelta(hours=1) for row in by_people),
        last_day=sum(row["created_at"] > now - timedelta(days=1) for row in by_people),
        people=people,
        stuck=list_stuck_items(queue),
        cut=len(decisions) == MOST_DECISIONS,
    )


def _compute_person_lines(queue: ReviewQueue, decisions: list[dict[str, Any]]) -> tuple[list[PersonLine], int, int]:
    """Return a line for each person and judge, the number of agreeing pairs of people, and of all pairs."""
    by_object: dict[tuple[int, int | None], list[dict[str, Any]]] = defaultdict(list)
    for row in decisions:
        if row["gold_right"] is None:
            by_object[row[f"{queue.kind}_id"], row["revision_id"]].append(row)
    agreed: dict[str, int] = defaultdict(int)
    compared: dict[str, int] = defaultdict(int)
    same = pairs = 0
    for votes in by_object.values():
        for left_vote, right_vote in combinations(votes, 2):
            if left_vote["judge"] and right_vote["judge"]:
                continue
            equal = left_vote["verdict"] == right_vote["verdict"]
            if not left_vote["judge"] and not right_vote["judge"]:
                pairs, same = pairs + 1, same + equal
            for own_vote, other_vote in ((left_vote, right_vote), (right_vote, left_vote)):
                if not other_vote["judge"]:
                    agreed[_get_decider_name(own_vote)] += equal
                    compared[_get_decider_name(own_vote)] += 1
    skips = Assignment.objects.filter(queue=queue, state=AssignmentState.SKIPPED)
    skipped = dict(skips.values_list("user__username").annotate(n=Count("pk")).order_by())
    lines = []
    for name in sorted({_get_decider_name(row) for row in decisions} | set(skipped)):
        mine_rows = [row for row in decisions if _get_decider_name(row) == name]
        took = [row["seconds"] for row in mine_rows if row["seconds"] is not None]
        gold = [row["gold_right"] for row in mine_rows if row["gold_right"] is not None]
        judged = bool(mine_rows) and bool(mine_rows[0]["judge"])
        lines.append(
            PersonLine(
                name,
                len(mine_rows),
                median(took) if took else None,
                agreed[name],
                compared[name],
                sum(gold),
                len(gold),
                skipped.get(name, 0),
                judged,
            )
        )
    return lines, same, pairs


def _get_decider_name(row: dict[str, Any]) -> str:
    return str(row["judge"] or row["user__username"])


def list_stuck_items(queue: ReviewQueue) -> list[StuckItem]:
    """Return items that need a person to go on, with the reason, the oldest first."""
    rows = QueueItem.objects.filter(queue=queue, gold__isnull=True).select_related(queue.kind, "assignee")
    if queue.kind == "task":
        rows = rows.defer("task__words")
    now = timezone.now()
    stuck = [
        StuckItem(item, "people disagree: an adjudicator decides")
        for item in rows.filter(state=ReviewItemState.DISPUTED).order_by("id")[:STUCK_SHOWN]
    ]
    sent = rows.filter(state=ReviewItemState.OPEN, assignee__isnull=False, created_at__lt=now - LONG).order_by("id")
    for item in sent[: STUCK_SHOWN - len(stuck)]:
        stuck.append(StuckItem(item, f"was sent to {item.assignee}, who has not decided"))
    skips = Count("assignments", filter=Q(assignments__state=AssignmentState.SKIPPED))
    often = rows.filter(state=ReviewItemState.OPEN).annotate(skips=skips).filter(skips__gte=2).order_by("-skips", "id")
    for item in often[: STUCK_SHOWN - len(stuck)]:
        stuck.append(StuckItem(item, f"{item.skips} people skipped it"))
    return stuck
