"""Votes of judges: asked of a queue's items, written as decisions that count for nothing, and compared with people."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from asgiref.sync import async_to_sync
from django.db.models import Exists, OuterRef, Q, QuerySet

from synthesis.assessment.review_judge import ReviewBrief, ReviewReply, review_verdict
from synthesis.errors import InputError, LLMError, MalformedReply
from synthesis.formats.values import clean
from synthesis.llm.asker import Asker
from synthesis.llm.store import MemoryStore
from webapp.accounts.access import ADJUDICATORS
from webapp.accounts.row_log import acting
from webapp.database.kept_sql import Given, KeptQuery
from webapp.endpoints.connections import chat_with
from webapp.endpoints.models import Endpoint
from webapp.endpoints.queries import find_choice
from webapp.errors import NotFound
from webapp.jobs.models import Job
from webapp.jobs.queries import of_subject, open_of
from webapp.jobs.services import create
from webapp.review.judges.briefs import brief_of
from webapp.review.models import (
    QueueItem,
    ReviewDecision,
    ReviewItemState,
    ReviewKind,
    ReviewQueue,
    subject_filter,
)
from webapp.review.queues import require_editor
from webapp.review.subjects import locked_subject, subject_title, tag_of
from webapp.review.verdicts import reason_labels, verdict_label
from webapp.scenarios.models import Task
from webapp.templatetags.show import counted
from webapp.trajectories.models import Trajectory

JUDGE_JOB = "judge_queue"
MOST_ITEMS = 1_000
AT_ONCE = 8
NAME_CHARS = 200
COMPARED = 2_000
"""So many of a judge's newest votes are compared with people's."""
Progress = Callable[[int, int, str], None]


@dataclass
class JudgeRun:
    """What became of a queue's items: `malformed` gave no usable reply, and left nothing."""

    judge: str
    asked: int = 0
    voted: int = 0
    malformed: list[dict[str, str]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """The result of the job, which `last_asking` reads."""
        return {"judge": self.judge, "asked": self.asked, "voted": self.voted, "failed": self.malformed}


def start_judging(user: Any, queue: ReviewQueue, model: str) -> Job:
    """Queue the asking of a judge. Raises NotFound: no such model; Conflict: the person may not."""
    require_editor(user)
    if find_choice(model) is None:
        raise NotFound("There is no such model. Choose one that an endpoint lists.")
    subject = f"queue:{queue.pk}"
    known = open_of(JUDGE_JOB, subject)
    if known is not None:
        return known
    payload = {"queue": queue.pk, "model": model}
    return create(JUDGE_JOB, f"A judge's votes in {queue.name}", payload, user, subject=subject)


@dataclass(frozen=True)
class Asking:
    """The newest asking of a judge about a queue's items: its job, and what came of it."""

    job: Job
    voted: int
    unusable: int


def last_asking(queue: ReviewQueue) -> Asking | None:
    """What a queue's page says of the newest asking, whether it goes on, ended or failed."""
    job = of_subject(JUDGE_JOB, f"queue:{queue.pk}").first()
    if job is None:
        return None
    result = job.result or {}
    return Asking(job, result.get("voted", 0), len(result.get("failed", [])))


def unjudged(queue: ReviewQueue, judge: str) -> list[QueueItem]:
    """The open items that a judge has not voted on, those first that people get first."""
    votes = ReviewDecision.objects.filter(judge=judge, undone_at__isnull=True)
    votes = votes.filter(**{f"{queue.kind}_id": OuterRef(f"{queue.kind}_id")})
    if queue.kind == "task":
        votes = votes.filter(revision=OuterRef("task__current"))
    rows = QueueItem.objects.filter(queue=queue, gold__isnull=True, state=ReviewItemState.OPEN)
    return list(rows.exclude(Exists(votes)).order_by("-rank", "id")[:MOST_ITEMS])


def judge_queue(user: Any, queue: ReviewQueue, model: str, progress: Progress) -> JudgeRun:
    """Ask a judge about every open item that it has not voted on; what is written stays. `progress` may raise to stop.

    Raises InputError: no such model; LLMError: the endpoint.
    """
    chosen = find_choice(model)
    if chosen is None:
        raise InputError("There is no such model any more. Choose another one.")
    row, name = chosen
    run = JudgeRun(f"{row.name}: {name}"[:NAME_CHARS])
    items = unjudged(queue, run.judge)
    for start in range(0, len(items), AT_ONCE):
        progress(start, len(items), counted(run.voted, "vote"))
        some = items[start : start + AT_ONCE]
        told = [_told(queue, item) for item in some]
        replies = async_to_sync(_asked)(row, name, [brief for brief, _ in told])
        for item, (_, seen), reply in zip(some, told, replies, strict=True):
            if isinstance(reply, MalformedReply) or not isinstance(reply, LLMError):
                _keep(user, queue, run, item, seen, reply)
        for reply in replies:
            if isinstance(reply, LLMError) and not isinstance(reply, MalformedReply):
                raise reply
    progress(len(items), len(items), counted(run.voted, "vote"))
    return run


def _told(queue: ReviewQueue, item: QueueItem) -> tuple[ReviewBrief, str]:
    """(the question, the entity tag of what it is about)."""
    subject: Any = item.subject
    if isinstance(subject, Task):
        rows = Task.objects.select_related("environment", "current__scenario__version")
        subject = rows.get(pk=subject.pk)
    elif isinstance(subject, Trajectory):
        subject = Trajectory.objects.select_related("revision").get(pk=subject.pk)
    return brief_of(queue, subject), tag_of(queue.kind, subject)


async def _asked(
    row: Endpoint, model: str, briefs: Sequence[ReviewBrief]
) -> list[ReviewReply | MalformedReply | LLMError]:
    """The replies, in order; a failure stands in its place, so that the others are kept."""
    async with chat_with(row, model, "judge") as chat:
        asker = Asker({"judge": chat}, MemoryStore())

        async def one(number: int, brief: ReviewBrief) -> ReviewReply | MalformedReply | LLMError:
            try:
                return await review_verdict(asker, brief, f"item-{number}")
            except (MalformedReply, LLMError) as error:
                return error

        return list(await asyncio.gather(*(one(number, brief) for number, brief in enumerate(briefs))))


def _keep(
    user: Any, queue: ReviewQueue, run: JudgeRun, item: QueueItem, seen: str, reply: ReviewReply | MalformedReply
) -> None:
    run.asked += 1
    if isinstance(reply, MalformedReply):
        place = f"{subject_title(item.subject)[:NAME_CHARS]} (item {item.pk})"
        run.malformed.append({"place": place, "reason": clean(str(reply))[:500]})
        return
    with acting(user, f"{run.judge} was asked"):
        subject = locked_subject(queue.kind, item.subject_id)
        if tag_of(queue.kind, subject) != seen:
            return
        ReviewDecision.objects.create(
            **subject_filter(queue.kind, item.subject_id),
            revision=subject.current if isinstance(subject, Task) else None,
            seen=seen,
            queue=queue,
            judge=run.judge,
            verdict=reply.verdict,
            reasons=list(dict.fromkeys(reply.reasons)),
            comment=clean(reply.comment),
        )
    run.voted += 1


def asks_several(kind: str, pk: int) -> bool:
    """Whether an open item of any queue asks several people about an object: each decides before seeing the others."""
    return _asking_several(kind).first(subject=pk) is not None


@cache
def _asking_several(kind: str) -> KeptQuery[int]:
    return KeptQuery(
        lambda: QueueItem.objects.filter(
            **{f"{kind}_id": Given("subject")}, state=ReviewItemState.OPEN, overlap__gt=1
        ).values_list("pk", flat=True)[:1]
    )


def shown_decisions(user: Any) -> QuerySet[ReviewDecision]:
    """The decisions that a person may see: their own, and those that cannot lead them.

    Until they have decided themselves, what judges said is hidden from them, and what people said where several are
    asked and not all have answered, or where the answer is known. Adjudicators see all.
    """
    rows = ReviewDecision.objects.all()
    if user.role in ADJUDICATORS:
        return rows
    undecided, secret = Q(), Q()
    for kind in ReviewKind.values:
        own = ReviewDecision.objects.filter(user=user, undone_at__isnull=True, **{kind: OuterRef(kind)})
        if kind == ReviewKind.TASK:  # who decided on an earlier revision has not decided on this one
            own = own.filter(revision=OuterRef("revision"))
        undecided &= ~Q(Exists(own))
        items = QueueItem.objects.filter(**{kind: OuterRef(kind)})
        secret |= Q(Exists(items.filter(Q(gold__isnull=False) | Q(state=ReviewItemState.OPEN, overlap__gt=1))))
    others = Q(user__isnull=True) | ~Q(user=user)
    return rows.exclude(others & (undecided & (Q(user__isnull=True) | secret) | Q(gold_right__isnull=False)))


@dataclass(frozen=True)
class JudgeVote:
    """A judge's vote as a page tells of it; people `agreed` with that verdict of its in so many `compared`."""

    judge: str
    verdict: str
    label: str
    reasons: list[str]
    comment: str
    agreed: int
    compared: int


def votes_on(kind: str, pk: int, revision: int | None) -> list[JudgeVote]:
    """What judges say of an object as it is now, each with how often people agreed with that verdict of its."""
    rows = ReviewDecision.objects.filter(**subject_filter(kind, pk), user__isnull=True, undone_at__isnull=True)
    if kind == "task":
        rows = rows.filter(revision=revision)
    newest = {row.judge: row for row in rows.order_by("id")}
    found = []
    for row in newest.values():
        agreed, compared = agreement(kind, row.judge).get(row.verdict, (0, 0))
        label, reasons = verdict_label(kind, row.verdict), reason_labels(kind, row.reasons)
        found.append(JudgeVote(row.judge, row.verdict, label, reasons, row.comment, agreed, compared))
    return found


def judges_of(kind: str, pk: int) -> list[tuple[str, int, int]]:
    """(judge, how often people agreed with it, of how many) of those that voted on an object; not what they said."""
    rows = ReviewDecision.objects.filter(**subject_filter(kind, pk), user__isnull=True, undone_at__isnull=True)
    found = []
    for judge in sorted(set(rows.values_list("judge", flat=True))):
        counts = agreement(kind, judge).values()
        found.append((judge, sum(agreed for agreed, _ in counts), sum(compared for _, compared in counts)))
    return found


def agreement(kind: str, judge: str, reader: Any = None) -> dict[str, tuple[int, int]]:
    """By a judge's verdict: (how often a person who decided on the same said the same, of how many).

    For a `reader` only votes that they may see are told of: else a judge that rejects all would be known by its label.
    """
    name = f"{kind}_id"
    told = ReviewDecision.objects.all() if reader is None else shown_decisions(reader)
    mine = told.filter(judge=judge, undone_at__isnull=True, **{f"{name}__isnull": False})
    votes = list(mine.order_by("-id").values(name, "revision_id", "verdict")[:COMPARED])
    keys = {row[name] for row in votes}
    theirs = ReviewDecision.objects.filter(
        user__isnull=False, undone_at__isnull=True, gold_right__isnull=True, **{f"{name}__in": keys}
    )
    said: dict[tuple[int, int | None], list[str]] = {}
    for row in theirs.values(name, "revision_id", "verdict"):
        said.setdefault((row[name], row["revision_id"]), []).append(row["verdict"])
    counts: dict[str, tuple[int, int]] = {}
    for row in votes:
        people = said.get((row[name], row["revision_id"]), [])
        agreed, compared = counts.get(row["verdict"], (0, 0))
        counts[row["verdict"]] = (agreed + people.count(row["verdict"]), compared + len(people))
    return counts
