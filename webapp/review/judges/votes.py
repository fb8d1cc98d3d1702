"""Votes of judges on a queue's items, stored as decisions that do not count, and compared with people."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from asgiref.sync import async_to_sync
from django.db.models import Exists, OuterRef, Q, QuerySet

from synthesis.assessment.review_judge import ReviewBrief, ReviewReply, ask_review_verdict
from synthesis.errors import InputError, LLMError, MalformedReply
from synthesis.formats.values import clean_text
from synthesis.llm.asker import Asker
from synthesis.llm.store import MemoryStore
from webapp.accounts.access import ADJUDICATORS
from webapp.accounts.row_log import set_actor
from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.common.errors import NotFound
from webapp.common.templatetags.show import counted
from webapp.endpoints.connections import open_chat_model
from webapp.endpoints.models import Endpoint
from webapp.endpoints.queries import find_choice
from webapp.jobs.models import Job
from webapp.jobs.queries import find_open_job, list_subject_jobs
from webapp.jobs.services import enqueue_job
from webapp.review.judges.briefs import build_brief
from webapp.review.models import (
    QueueItem,
    ReviewDecision,
    ReviewItemState,
    ReviewKind,
    ReviewQueue,
    build_subject_filter,
)
from webapp.review.queues import require_editor
from webapp.review.subjects import build_entity_tag, get_subject_title, lock_subject
from webapp.review.verdicts import get_verdict_label, list_reason_labels
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory

JUDGE_JOB = "judge_queue"
MOST_ITEMS = 1_000
AT_ONCE = 8
NAME_CHARS = 200
COMPARED = 2_000
"""Number of a judge's newest votes that are compared with people's."""
Progress = Callable[[int, int, str], None]


@dataclass
class JudgeRun:
    """Result of judging a queue's items: `malformed` lists items without a usable reply, for which nothing is
    stored."""

    judge: str
    asked: int = 0
    voted: int = 0
    malformed: list[dict[str, str]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """Return the result of the job, which `find_last_asking` reads."""
        return {"judge": self.judge, "asked": self.asked, "voted": self.voted, "failed": self.malformed}


def start_judging(user: Any, queue: ReviewQueue, model: str) -> Job:
    """Start the job that asks a judge. Raises NotFound for an unknown model; Conflict if the person may not."""
    require_editor(user)
    if find_choice(model) is None:
        raise NotFound("There is no such model. Choose one that an endpoint lists.")
    subject = f"queue:{queue.pk}"
    open_job = find_open_job(JUDGE_JOB, subject)
    if open_job is not None:
        return open_job
    payload = {"queue": queue.pk, "model": model}
    return enqueue_job(JUDGE_JOB, f"A judge's votes in {queue.name}", payload, user, subject=subject)


@dataclass(frozen=True)
class Asking:
    """The newest asking of a judge about a queue's items: its job, and its result."""

    job: Job
    voted: int
    unusable: int


def find_last_asking(queue: ReviewQueue) -> Asking | None:
    """Return the newest asking for the queue's page, whether it is running, ended or failed."""
    job = list_subject_jobs(JUDGE_JOB, f"queue:{queue.pk}").first()
    if job is None:
        return None
    result = job.result or {}
    return Asking(job, result.get("voted", 0), len(result.get("failed", [])))


def list_unjudged_items(queue: ReviewQueue, judge: str) -> list[QueueItem]:
    """Return the open items that a judge has not voted on, in the order in which people get them."""
    votes = ReviewDecision.objects.filter(judge=judge, undone_at__isnull=True)
    votes = votes.filter(**{f"{queue.kind}_id": OuterRef(f"{queue.kind}_id")})
    if queue.kind == "task":
        votes = votes.filter(revision=OuterRef("task__current"))
    rows = QueueItem.objects.filter(queue=queue, gold__isnull=True, state=ReviewItemState.OPEN)
    return list(rows.exclude(Exists(votes)).order_by("-rank", "id")[:MOST_ITEMS])


def judge_queue(user: Any, queue: ReviewQueue, model: str, progress: Progress) -> JudgeRun:
    """Ask a judge about every open item that it has not voted on; stored votes remain. `progress` may raise to stop.

    Raises InputError for an unknown model; LLMError for an error of the endpoint.
    """
    chosen = find_choice(model)
    if chosen is None:
        raise InputError("There is no such model any more. Choose another one.")
    row, name = chosen
    run = JudgeRun(f"{row.name}: {name}"[:NAME_CHARS])
    items = list_unjudged_items(queue, run.judge)
    for start in range(0, len(items), AT_ONCE):
        progress(start, len(items), counted(run.voted, "vote"))
        some = items[start : start + AT_ONCE]
        questions = [_build_question(queue, item) for item in some]
        replies = async_to_sync(_ask_judge)(row, name, [brief for brief, _ in questions])
        for item, (_, seen), reply in zip(some, questions, replies, strict=True):
            if isinstance(reply, MalformedReply) or not isinstance(reply, LLMError):
                _store_vote(user, queue, run, item, seen, reply)
        for reply in replies:
            if isinstance(reply, LLMError) and not isinstance(reply, MalformedReply):
                raise reply
    progress(len(items), len(items), counted(run.voted, "vote"))
    return run


def _build_question(queue: ReviewQueue, item: QueueItem) -> tuple[ReviewBrief, str]:
    """Return (the question, the entity tag of its object)."""
    subject: Any = item.subject
    if isinstance(subject, Task):
        rows = Task.objects.select_related("environment", "current__scenario__version")
        subject = rows.get(pk=subject.pk)
    elif isinstance(subject, Trajectory):
        subject = Trajectory.objects.select_related("revision").get(pk=subject.pk)
    return build_brief(queue, subject), build_entity_tag(queue.kind, subject)


async def _ask_judge(
    row: Endpoint, model: str, briefs: Sequence[ReviewBrief]
) -> list[ReviewReply | MalformedReply | LLMError]:
    """Return the replies, in order; a failure takes the place of its reply, so that the others are kept."""
    async with open_chat_model(row, model, "judge") as chat:
        asker = Asker({"judge": chat}, MemoryStore())

        async def ask_about_item(number: int, brief: ReviewBrief) -> ReviewReply | MalformedReply | LLMError:
            try:
                return await ask_review_verdict(asker, brief, f"item-{number}")
            except (MalformedReply, LLMError) as error:
                return error

        return list(await asyncio.gather(*(ask_about_item(number, brief) for number, brief in enumerate(briefs))))


def _store_vote(
    user: Any, queue: ReviewQueue, run: JudgeRun, item: QueueItem, seen: str, reply: ReviewReply | MalformedReply
) -> None:
    run.asked += 1
    if isinstance(reply, MalformedReply):
        place = f"{get_subject_title(item.subject)[:NAME_CHARS]} (item {item.pk})"
        run.malformed.append({"place": place, "reason": clean_text(str(reply))[:500]})
        return
    with set_actor(user, f"{run.judge} was asked"):
        subject = lock_subject(queue.kind, item.subject_id)
        if build_entity_tag(queue.kind, subject) != seen:
            return
        ReviewDecision.objects.create(
            **build_subject_filter(queue.kind, item.subject_id),
            revision=subject.current if isinstance(subject, Task) else None,
            seen=seen,
            queue=queue,
            judge=run.judge,
            verdict=reply.verdict,
            reasons=list(dict.fromkeys(reply.reasons)),
            comment=clean_text(reply.comment),
        )
    run.voted += 1


def needs_several_people(kind: str, pk: int) -> bool:
    """Return whether an open item of any queue asks several people about an object: each decides before seeing the
    others."""
    return _query_several_people(kind).first(subject=pk) is not None


@cache
def _query_several_people(kind: str) -> KeptQuery[int]:
    return KeptQuery(
        lambda: QueueItem.objects.filter(
            **{f"{kind}_id": Given("subject")}, state=ReviewItemState.OPEN, overlap__gt=1
        ).values_list("pk", flat=True)[:1]
    )


def filter_visible_decisions(user: Any) -> QuerySet[ReviewDecision]:
    """Return the decisions that a person may see: their own, and those that cannot influence them.

    Until they have decided themselves, votes of judges are hidden from them, and decisions of people if several are
    asked and not all have answered, or if the answer is known. Adjudicators see all.
    """
    rows = ReviewDecision.objects.all()
    if user.role in ADJUDICATORS:
        return rows
    undecided, secret = Q(), Q()
    for kind in ReviewKind.values:
        own = ReviewDecision.objects.filter(user=user, undone_at__isnull=True, **{kind: OuterRef(kind)})
        if kind == ReviewKind.TASK:  # a decision on an earlier revision is none on this one
            own = own.filter(revision=OuterRef("revision"))
        undecided &= ~Q(Exists(own))
        items = QueueItem.objects.filter(**{kind: OuterRef(kind)})
        secret |= Q(Exists(items.filter(Q(gold__isnull=False) | Q(state=ReviewItemState.OPEN, overlap__gt=1))))
    others = Q(user__isnull=True) | ~Q(user=user)
    return rows.exclude(others & (undecided & (Q(user__isnull=True) | secret) | Q(gold_right__isnull=False)))


@dataclass(frozen=True)
class JudgeVote:
    """A judge's vote as shown on a page; people `agreed` with this verdict of the judge in so many `compared`."""

    judge: str
    verdict: str
    label: str
    reasons: list[str]
    comment: str
    agreed: int
    compared: int


def list_judge_votes(kind: str, pk: int, revision: int | None) -> list[JudgeVote]:
    """Return the judges' votes on an object in its current state, each with how often people agreed with that verdict
    of the judge."""
    rows = ReviewDecision.objects.filter(**build_subject_filter(kind, pk), user__isnull=True, undone_at__isnull=True)
    if kind == "task":
        rows = rows.filter(revision=revision)
    newest = {row.judge: row for row in rows.order_by("id")}
    votes = []
    for row in newest.values():
        agreed, compared = count_agreement(kind, row.judge).get(row.verdict, (0, 0))
        label, reasons = get_verdict_label(kind, row.verdict), list_reason_labels(kind, row.reasons)
        votes.append(JudgeVote(row.judge, row.verdict, label, reasons, row.comment, agreed, compared))
    return votes


def list_judges(kind: str, pk: int) -> list[tuple[str, int, int]]:
    """Return (judge, how often people agreed with it, of how many) of those that voted on an object, without their
    votes."""
    rows = ReviewDecision.objects.filter(**build_subject_filter(kind, pk), user__isnull=True, undone_at__isnull=True)
    judges = []
    for judge in sorted(set(rows.values_list("judge", flat=True))):
        counts = count_agreement(kind, judge).values()
        judges.append((judge, sum(agreed for agreed, _ in counts), sum(compared for _, compared in counts)))
    return judges


def count_agreement(kind: str, judge: str, reader: Any = None) -> dict[str, tuple[int, int]]:
    """Return by a judge's verdict: (how often a person who decided on the same object gave the same verdict, of how
    many).

    For a `reader` only votes that they may see are counted: otherwise a judge that rejects all would be known by its
    label.
    """
    name = f"{kind}_id"
    visible = ReviewDecision.objects.all() if reader is None else filter_visible_decisions(reader)
    judge_rows = visible.filter(judge=judge, undone_at__isnull=True, **{f"{name}__isnull": False})
    votes = list(judge_rows.order_by("-id").values(name, "revision_id", "verdict")[:COMPARED])
    keys = {row[name] for row in votes}
    people_rows = ReviewDecision.objects.filter(
        user__isnull=False, undone_at__isnull=True, gold_right__isnull=True, **{f"{name}__in": keys}
    )
    verdicts_by_object: dict[tuple[int, int | None], list[str]] = {}
    for row in people_rows.values(name, "revision_id", "verdict"):
        verdicts_by_object.setdefault((row[name], row["revision_id"]), []).append(row["verdict"])
    counts: dict[str, tuple[int, int]] = {}
    for row in votes:
        people = verdicts_by_object.get((row[name], row["revision_id"]), [])
        agreed, compared = counts.get(row["verdict"], (0, 0))
        counts[row["verdict"]] = (agreed + people.count(row["verdict"]), compared + len(people))
    return counts
