"""Forecast of an approval on many tasks: the decisions that it takes back, and tasks that stay in review all the
same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Max

from webapp.accounts.access import ADJUDICATORS
from webapp.common.leases import ON_A_PLACE
from webapp.review.assignments import can_work
from webapp.review.decisions import combine_votes
from webapp.review.models import Assignment, QueueItem, ReviewDecision, ReviewItemState, ReviewKind
from webapp.review.verdicts import APPROVE, get_verdict_label, list_reason_labels

COMMENT_SHOWN = 200


@dataclass(frozen=True)
class Vote:
    """A standing decision on a task in its current state, in words."""

    row: ReviewDecision

    @property
    def verdict(self) -> str:
        return get_verdict_label(ReviewKind.TASK, self.row.verdict)

    @property
    def approves(self) -> bool:
        return self.row.verdict == APPROVE

    @property
    def why(self) -> str:
        """The reasons and the beginning of the comment; empty if neither was given."""
        reasons = ", ".join(list_reason_labels(ReviewKind.TASK, self.row.reasons))
        comment = self.row.comment
        cut = comment if len(comment) <= COMMENT_SHOWN else f"{comment[:COMMENT_SHOWN]}…"
        return ": ".join(filter(None, [reasons, f"“{cut}”" if cut else ""]))


@dataclass(frozen=True)
class VoteForecast:
    """Forecast of an approval by one person on a task. `own` is their decision that it replaces; `needed` is the number
    of people who have to decide; `queue` names the queue of others that keeps them from deciding at all."""

    own: Vote | None
    others: tuple[Vote, ...]
    needed: int
    adjudicates: bool
    queue: str

    @property
    def takes_back(self) -> bool:
        """True if a decision of the person's own, other than an approval, is undone."""
        return self.own is not None and not self.own.approves

    @property
    def is_approved_already(self) -> bool:
        """True if the person approved the task in its current state, and approving it again would settle nothing
        more."""
        return self.own is not None and self.own.approves and self.own.row.adjudicates >= self.adjudicates

    @property
    def against(self) -> list[Vote]:
        """Decisions of other people other than approvals."""
        return [vote for vote in self.others if not vote.approves]

    @property
    def leaves_open(self) -> str:
        """The reason why the approval alone does not approve the task; empty if it does."""
        leads = "It stays" if self.is_approved_already else "Approving it leads to"
        votes = [vote.row for vote in self.others]
        verdict, disputed = combine_votes(
            [*votes, ReviewDecision(verdict=APPROVE, adjudicates=self.adjudicates)], self.needed
        )
        if verdict == APPROVE:
            return ""
        if verdict:
            return f"An adjudicator settled it: it stays “{get_verdict_label(ReviewKind.TASK, verdict)}”."
        if disputed:
            return f"{leads} “in review”: people disagree, and an adjudicator settles it."
        missing = self.needed - len(votes) - 1
        people = "1 more person has" if missing == 1 else f"{missing} more people have"
        return f"{leads} “in review”: {people} to decide."


def forecast_votes(user: Any, revisions: Mapping[int, int | None]) -> dict[int, VoteForecast]:
    """Return the forecast by task. `revisions` has the current revision of each task."""
    votes: dict[int, list[Vote]] = defaultdict(list)
    standing = ReviewDecision.objects.filter(
        undone_at__isnull=True, user__isnull=False, gold_right__isnull=True,
        task__in=revisions, revision__in=[pk for pk in revisions.values() if pk is not None],
    )  # fmt: skip
    for row in standing.select_related("user").order_by("id"):
        if row.task_id is not None and row.revision_id == revisions[row.task_id]:
            votes[row.task_id].append(Vote(row))
    items = QueueItem.objects.filter(task__in=revisions, gold__isnull=True).exclude(state=ReviewItemState.WITHDRAWN)
    needed = dict(items.filter(queue__is_open=True).values_list("task").annotate(Max("overlap")).order_by())
    disputed = set(items.filter(state=ReviewItemState.DISPUTED).values_list("task", flat=True))
    settles = user.role in ADJUDICATORS
    queues = {} if settles else _find_barring_queues(user, items.filter(queue__is_open=True), list(revisions))
    return {
        pk: VoteForecast(
            own=next((vote for vote in reversed(votes[pk]) if vote.row.user_id == user.pk), None),
            others=tuple(vote for vote in votes[pk] if vote.row.user_id != user.pk),
            needed=needed.get(pk) or 1,
            adjudicates=settles and pk in disputed,
            queue=queues.get(pk, ""),
        )
        for pk in revisions
    }


def _find_barring_queues(user: Any, items: Any, tasks: Sequence[int]) -> dict[int, str]:
    """Return the name of a queue that holds a task, for each task on which the person may not decide: they work none of
    its queues, and hold no place on it."""
    holding: dict[int, dict[int, Any]] = defaultdict(dict)
    for item in items.select_related("queue").prefetch_related("queue__members").order_by("queue__name"):
        holding[item.task_id][item.queue_id] = item.queue
    works: dict[int, bool] = {}
    for queue in (queue for queues in holding.values() for queue in queues.values()):
        if queue.pk not in works:
            works[queue.pk] = can_work(user, queue)
    barred = {
        pk: next(iter(queues.values())).name for pk, queues in holding.items() if not any(works[key] for key in queues)
    }
    places = Assignment.objects.filter(user=user, state__in=ON_A_PLACE, item__gold__isnull=True, item__task__in=barred)
    for pk in places.values_list("item__task", flat=True):
        barred.pop(pk, None)
    return barred
