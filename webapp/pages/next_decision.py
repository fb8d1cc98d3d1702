"""Next decision or label of a person, with the number of further ones in the same place. Showing it reserves nothing.

Expired holds are released first, as when a person begins: the named item is the one that opens.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.urls import reverse
from django.utils import timezone

from webapp.common.database.kept_sql import COUNTED, Given, KeptNumbers, KeptQuery
from webapp.common.leases import AssignmentState
from webapp.labelling import reservations
from webapp.labelling.models import Ask, LabelRound, LabelSession, Reservation
from webapp.review.assignments import filter_own_votes, release_lapsed
from webapp.review.models import Assignment, QueueItem, ReviewItemState, ReviewKind, ReviewQueue

COUNTED_TO = 1_000
ROUNDS = 12
"""Of open labelling rounds, how many are freed of reservations that ended while the page is made."""
ENDED = (AssignmentState.LAPSED, AssignmentState.RELEASED, AssignmentState.TAKEN)
"""An item that a person had and lost in one of these ways may come to them again."""
SUBJECTS: dict[str, str] = {ReviewKind.TASK: "task", ReviewKind.TOOL: "tool", ReviewKind.TRAJECTORY: "trajectory__task"}


@dataclass(frozen=True)
class NextDecision:
    """The next item of a person: `begin_url` takes a POST and opens it."""

    title: str
    begun: bool
    waits_since: datetime
    place: str
    place_url: str
    begin_url: str
    left: int

    @property
    def more(self) -> bool:
        """True if the count ended at `left`."""
        return self.left >= COUNTED_TO


def find_next_decision(user: Any, queues: list[Any]) -> NextDecision | None:
    """Find the next item of `user`: one in hand, one sent to them, the first of `queues`, or one to label."""
    assignment = _HELD.first(user=user.pk, now=timezone.now())
    if assignment is not None:
        return _build_queue_decision(user, assignment.item, assignment.queue, begun=assignment.shown_at is not None)
    sent_item = _SENT.first(user=user.pk)
    if sent_item is not None:
        return _build_queue_decision(user, sent_item, sent_item.queue, begun=False)
    for queue in queues:
        release_lapsed(queue)
        item = _build_next_query(queue.kind).first(user=user.pk, queue=queue.pk)
        if item is not None:
            return _build_queue_decision(user, item, queue, begun=False)
    return _find_next_label(user)


def _build_queue_decision(user: Any, item: QueueItem, queue: ReviewQueue, *, begun: bool) -> NextDecision:
    subject = item.subject
    counted = _build_count_query(queue.kind).values(user=user.pk, queue=queue.pk, now=timezone.now())
    return NextDecision(
        title=getattr(subject, "name", "") or getattr(subject, "title", "") or f"{item.kind} {subject.pk}",
        begun=begun,
        waits_since=item.created_at,
        place=queue.name,
        place_url=reverse("review:queue", args=[queue.pk]),
        begin_url=reverse("review:pull", args=[queue.pk]),
        left=counted["free"] + counted["held"],
    )


def _find_next_label(user: Any) -> NextDecision | None:
    now = timezone.now()
    reservation = _RESERVED.first(user=user.pk, now=now)
    for ended_round in () if reservation is not None else _ENDED_ROUNDS.rows(now=now):
        reservations.lapse_reservations(ended_round)
    ask = reservation.ask if reservation is not None else _ASKS.first(user=user.pk)
    if ask is None:
        return None
    return NextDecision(
        title=ask.item.name,
        begun=reservation is not None,
        waits_since=ask.round.created_at,
        place=ask.session.name,
        place_url=reverse("labelling:session", args=[ask.session_id]),
        begin_url=reverse("labelling:pull", args=[ask.session_id]),
        left=_ASK_COUNT.values(user=user.pk, session=ask.session_id)["left"] + (reservation is not None),
    )


def _free_items(kind: str) -> QuerySet[QueueItem]:
    """Return the items of a queue that the person may be given, in their order."""
    user: Any = Given("user")
    had_assignments = Assignment.objects.filter(item=OuterRef("pk"), user=user).exclude(state__in=ENDED)
    rows = QueueItem.objects.filter(queue=Given("queue"), state=ReviewItemState.OPEN, free__gt=0, gold__isnull=True)
    rows = rows.filter(Q(assignee__isnull=True) | Q(assignee=user))
    return rows.exclude(Exists(had_assignments)).exclude(Exists(filter_own_votes(user, kind))).order_by("-rank", "id")


@cache
def _build_next_query(kind: str) -> KeptQuery[QueueItem]:
    return KeptQuery(lambda: _free_items(kind).select_related(SUBJECTS[kind])[:1])


@cache
def _build_count_query(kind: str) -> KeptNumbers:
    return KeptNumbers(
        lambda: {
            "free": (COUNTED, _free_items(kind).order_by().values("pk")[:COUNTED_TO]),
            "held": (COUNTED, _held_items().filter(queue=Given("queue")).order_by().values("pk")),
        }
    )


def _held_items() -> QuerySet[Assignment]:
    """Return what the person holds and can still decide on, the last shown one first."""
    rows = Assignment.objects.filter(user=Given("user"), state=AssignmentState.HELD, expires_at__gt=Given("now"))
    rows = rows.filter(queue__is_open=True, item__state=ReviewItemState.OPEN)
    return rows.order_by(F("shown_at").desc(nulls_last=True), "id")


_HELD = KeptQuery[Assignment](
    lambda: _held_items().select_related("queue", *(f"item__{path}" for path in SUBJECTS.values()))[:1]
)
_SENT = KeptQuery[QueueItem](
    lambda: (
        QueueItem.objects.filter(assignee=Given("user"), state=ReviewItemState.OPEN, free__gt=0, queue__is_open=True)
        .select_related("queue", *SUBJECTS.values())
        .order_by("id")[:1]
    )
)
_RESERVED = KeptQuery[Reservation](
    lambda: (
        Reservation.objects.filter(user=Given("user"), state=AssignmentState.HELD, expires_at__gt=Given("now"))
        .filter(round__is_open=True)
        .select_related("ask__item", "ask__round", "ask__session")
        .defer("ask__item__content", "ask__session__tree")
        .order_by("id")[:1]
    )
)

_ENDED_ROUNDS = KeptQuery[LabelRound](
    lambda: LabelRound.objects.filter(
        is_open=True,
        pk__in=Reservation.objects.filter(state=AssignmentState.HELD, expires_at__lt=Given("now")).values("round"),
    ).order_by("id")[:ROUNDS]
)


def _free_asks() -> QuerySet[Ask]:
    """Return the items of open rounds that the person may label and has not had."""
    user: Any = Given("user")
    had_reservations = Reservation.objects.filter(ask=OuterRef("pk"), user=user)
    had_reservations = had_reservations.exclude(state__in=(AssignmentState.LAPSED, AssignmentState.RELEASED))
    members = LabelSession.members.through.objects.filter(labelsession=OuterRef("session"))
    rows = Ask.objects.filter(round__is_open=True, free__gt=0).exclude(Exists(had_reservations))
    return rows.filter(~Exists(members) | Exists(members.filter(user=user)))


_ASKS = KeptQuery[Ask](
    lambda: (
        _free_asks()
        .select_related("item", "round", "session")
        .defer("item__content", "session__tree")
        .order_by("session", "position")[:1]
    )
)
_ASK_COUNT = KeptNumbers(
    lambda: {"left": (COUNTED, _free_asks().filter(session=Given("session")).order_by().values("pk")[:COUNTED_TO])}
)
"""Of one session."""
