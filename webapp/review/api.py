"""Review over the API: queues, items held, decisions and remarks."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.accounts.models import User
from webapp.environments.models import Tool
from webapp.errors import NotFound
from webapp.rest.auth import needs, person
from webapp.rest.etags import require_match
from webapp.rest.idempotency import idempotent
from webapp.rest.paging import cursor_page
from webapp.rest.problems import Problem
from webapp.rest.types import Id, PageOf
from webapp.review import assignments, decisions, queues, remarks
from webapp.review.bulk_decisions import decide_many
from webapp.review.judges.votes import shown_decisions
from webapp.review.models import Assignment, QueueItem, Remark, ReviewDecision, ReviewQueue, subject_filter
from webapp.review.schemas import (
    AssignmentOut,
    BulkDecisionsIn,
    BulkDecisionsOut,
    BulkUndoneOut,
    HeartbeatIn,
    NextOut,
    ObstacleOut,
    PersonVerdictOut,
    ReviewDecisionIn,
    ReviewDecisionOut,
    ReviewDecisionQuery,
    ReviewQueueIn,
    ReviewQueueOut,
    ReviewQueueQuery,
    ReviewRemarkIn,
    ReviewRemarkOut,
    ReviewStateOut,
    SendIn,
)
from webapp.review.subjects import locked_subject, require_subject, tag_of
from webapp.review.task_gate import obstacles
from webapp.review.tools.person_verdicts import person_verdicts
from webapp.scenarios.models import Task

router = Router(tags=["review"])
ReviewKind = Literal["task", "tool", "trajectory"]


def _settings(wish: ReviewQueueIn) -> queues.QueueSettings:
    values = wish.model_dump()
    return queues.QueueSettings(**values | {name: tuple(values[name]) for name in ("roles", "members")})


@router.get("/review/queues", auth=needs("read"), response=PageOf[ReviewQueueOut])
def list_review_queues(request: HttpRequest, query: Query[ReviewQueueQuery]) -> Any:
    """Queues, newest first."""
    rows = ReviewQueue.objects.prefetch_related("members")
    return cursor_page(rows.filter(kind=query.kind) if query.kind else rows, query)


@router.get("/review/queues/{pk}", auth=needs("read"), response=ReviewQueueOut)
def get_review_queue(request: HttpRequest, pk: Id) -> ReviewQueue:
    """One queue."""
    return get_object_or_404(ReviewQueue.objects.prefetch_related("members"), pk=pk)


@router.post("/review/queues", auth=needs("review"), response={201: ReviewQueueOut})
@idempotent
def create_review_queue(request: HttpRequest, wish: ReviewQueueIn) -> Any:
    """Make a queue and fill it. Annotators may not."""
    return 201, queues.make_queue(person(request), _settings(wish))


@router.put("/review/queues/{pk}", auth=needs("review"), response=ReviewQueueOut)
def change_review_queue(request: HttpRequest, pk: Id, wish: ReviewQueueIn) -> ReviewQueue:
    """Change a queue and fill it anew; `If-Match` with the ETag that was read keeps others' changes."""
    with transaction.atomic():
        row = ReviewQueue.objects.select_for_update(of=("self",)).filter(pk=pk).first()
        if row is None:
            raise NotFound("There is no such queue.")
        require_match(request, ReviewQueueOut.from_orm(row))
        settings = _settings(wish.model_copy(update={"kind": row.kind}))
        return queues.change_queue(person(request), pk, settings)


@router.post("/review/queues/{pk}/next", auth=needs("review"), response=NextOut)
def pull_next_item(request: HttpRequest, pk: Id) -> Any:
    """Hold the caller's next item of a queue; one that they hold already comes first."""
    queue = get_object_or_404(ReviewQueue, pk=pk)
    return {"assignment": assignments.pull_next(person(request), queue)}


@router.get("/review/assignments/{pk}", auth=needs("review"), response=AssignmentOut)
def get_assignment(request: HttpRequest, pk: Id) -> Assignment:
    """One of the caller's own holds."""
    return get_object_or_404(Assignment.objects.select_related("item"), pk=pk, user=person(request))


@router.post("/review/assignments/{pk}/heartbeat", auth=needs("review"), response=AssignmentOut)
def keep_assignment(request: HttpRequest, pk: Id, wish: HeartbeatIn) -> Assignment:
    """Keep an item for another lease; 409 where somebody else has it now."""
    return assignments.heartbeat(person(request), pk, wish.seconds)


def _matched(request: HttpRequest, pk: int) -> None:
    """The caller's hold is as `If-Match` names it, where that is sent. Call it in the transaction that changes it."""
    require_match(request, AssignmentOut.from_orm(assignments.require_assignment(person(request), pk)))


@router.post("/review/assignments/{pk}/skip", auth=needs("review"), response=AssignmentOut)
def skip_assignment(request: HttpRequest, pk: Id) -> Assignment:
    """Let others have the item, and do not offer it to the caller again."""
    with transaction.atomic():
        _matched(request, pk)
        return assignments.skip(person(request), pk)


@router.post("/review/assignments/{pk}/unskip", auth=needs("review"), response=AssignmentOut)
def unskip_assignment(request: HttpRequest, pk: Id) -> Assignment:
    """Take a skipped item up again; 409 where as many people as it needs hold it or have decided."""
    with transaction.atomic():
        _matched(request, pk)
        row = assignments.unskip(person(request), pk)
        return assignments.take_over(person(request), row.item)


@router.post("/review/assignments/{pk}/give-back", auth=needs("review"), response=AssignmentOut)
def give_back_assignment(request: HttpRequest, pk: Id) -> Assignment:
    """Let others have the item; it may come back."""
    with transaction.atomic():
        _matched(request, pk)
        return assignments.give_back(person(request), pk)


@router.post("/review/items/{pk}/take-over", auth=needs("review"), response=AssignmentOut)
def take_item_over(request: HttpRequest, pk: Id) -> Assignment:
    """Hold an item by choice: on a free place, else in place of the one who began first."""
    return assignments.take_over(person(request), get_object_or_404(QueueItem.objects.select_related("queue"), pk=pk))


@router.post("/review/items/{pk}/assign", auth=needs("review"), response={204: None})
def assign_item(request: HttpRequest, pk: Id, wish: SendIn) -> Any:
    """Give an open item to one person; an empty `to` lets everybody have it again. Annotators may not."""
    queues.require_editor(person(request))
    item = get_object_or_404(QueueItem.objects.select_related("queue"), pk=pk)
    assignments.assign(person(request), item, _named(wish.to) if wish.to else None, wish.note)
    return 204, None


def _named(name: str) -> User:
    found = User.objects.filter(username=name, is_active=True).first()
    if found is None:
        raise NotFound("Nobody here has this user name.")
    return found


@router.post("/review/assignments/{pk}/send", auth=needs("review"), response=AssignmentOut)
def send_assignment(request: HttpRequest, pk: Id, wish: SendIn) -> Assignment:
    """Send the item to another person, whose alone it is from now on."""
    with transaction.atomic():
        _matched(request, pk)
        return assignments.send(person(request), pk, _named(wish.to), wish.note)


@router.get("/review/{kind}/{pk}", auth=needs("read"), response=ReviewStateOut)
def get_review_state(request: HttpRequest, kind: ReviewKind, pk: Id) -> Any:
    """What a decision on this object would be bound to, and what stands in the way of approving a task."""
    with transaction.atomic():
        return _state(kind, pk)


def _state(kind: str, pk: int) -> ReviewStateOut:
    """The object's row is locked: it stays so until the caller's transaction ends."""
    subject = locked_subject(kind, pk)
    found = obstacles(subject) if isinstance(subject, Task) else []
    return ReviewStateOut(
        kind=kind,
        object_id=pk,
        seen=tag_of(kind, subject),
        revision=subject.current.number if isinstance(subject, Task) and subject.current is not None else None,
        obstacles=[ObstacleOut(code=one.code, message=one.message, overridable=one.overridable) for one in found],
    )


def _choice_of(wish: ReviewDecisionIn) -> decisions.DecisionChoice:
    return decisions.DecisionChoice(
        verdict=wish.verdict,
        reasons=tuple(wish.reasons),
        comment=wish.comment,
        places=tuple(wish.places),
        detail={"groups": dict(wish.groups)} if wish.groups else {},
        overrides=wish.overrides,
        seconds=wish.seconds,
    )


def _decided(request: HttpRequest, kind: str, pk: int, wish: ReviewDecisionIn, held: int | None) -> ReviewDecision:
    if "If-Match" not in request.headers:
        words = f"Send If-Match with the ETag of GET /review/{kind}/{pk}: a decision stands for what its author saw."
        raise Problem(428, words, code="precondition_required")
    with transaction.atomic():
        state = _state(kind, pk)
        require_match(request, state)
        own = assignments.require_held(person(request), held) if held is not None else None
        return decisions.decide(person(request), kind, pk, _choice_of(wish), state.seen, assignment=own)


@router.post("/review/assignments/{pk}/decision", auth=needs("review"), response={201: ReviewDecisionOut})
@idempotent
def decide_assignment(request: HttpRequest, pk: Id, wish: ReviewDecisionIn) -> Any:
    """Decide on the item that is held. `If-Match` is required; 412 where the object is not as it was read."""
    held = get_object_or_404(Assignment.objects.select_related("item"), pk=pk, user=person(request))
    return 201, _decided(request, held.item.kind, held.item.subject_id, wish, pk)


@router.post("/review/{kind}/{pk}/decisions", auth=needs("review"), response={201: ReviewDecisionOut})
@idempotent
def create_decision(request: HttpRequest, kind: ReviewKind, pk: Id, wish: ReviewDecisionIn) -> Any:
    """Decide on an object outside of a queue. `If-Match` is required; 412 where it is not as it was read."""
    return 201, _decided(request, kind, pk, wish, None)


@router.get("/review/versions/{pk}/tools", auth=needs("read"), response=list[PersonVerdictOut])
def list_tool_verdicts(request: HttpRequest, pk: Id) -> Any:
    """What people say of the tools of an environment's version: those alone that they settled."""
    tools = dict(Tool.objects.filter(version=pk).order_by("position").values_list("pk", "name"))
    found = person_verdicts(list(tools))
    return [
        PersonVerdictOut(
            tool_id=tool, tool=tools[tool], verdict=said.verdict, groups=said.groups, people=list(said.people)
        )
        for tool, said in found.items()
    ]


@router.get("/review/decisions", auth=needs("read"), response=PageOf[ReviewDecisionOut])
def list_decisions(request: HttpRequest, query: Query[ReviewDecisionQuery]) -> Any:
    """Decisions of people and judges, newest first, undone ones too.

    A judge's is there only once the caller has decided on the same object, or for adjudicators.
    """
    rows = shown_decisions(person(request)).select_related("user")
    for name in ("queue", "task"):
        if (wanted := getattr(query, name)) is not None:
            rows = rows.filter(**{name: wanted})
    return cursor_page(rows, query)


@router.post("/review/decisions/{pk}/undo", auth=needs("review"), response=ReviewDecisionOut)
def undo_decision(request: HttpRequest, pk: Id) -> ReviewDecision:
    """Take a decision back: one's own, or as an adjudicator another's.

    `If-Match`, where it is sent, is the ETag of GET /review/{kind}/{pk} of what was decided on.
    """
    with transaction.atomic():
        known = ReviewDecision.objects.filter(pk=pk).first()
        if known is not None and "If-Match" in request.headers:
            require_match(request, _state(known.kind, known.subject_id))
        return decisions.undo(person(request), pk)


@router.post("/review/bulk-decisions", auth=needs("review"), response={201: BulkDecisionsOut})
@idempotent
def create_bulk_decisions(request: HttpRequest, wish: BulkDecisionsIn) -> Any:
    """One decision on many tasks. Of each, `seen` stands as GET /review/task/{pk} says it.

    One that was changed since, or may not be approved, is left as it is.
    """
    seen = {one.task: one.seen for one in wish.tasks}
    group, decided, left = decide_many(person(request), seen, _choice_of(wish.decision))
    return 201, {"group": group, "decided": decided, "left": left}


@router.post("/review/bulk-decisions/{group}/undo", auth=needs("review"), response=BulkUndoneOut)
def undo_bulk_decisions(request: HttpRequest, group: UUID) -> Any:
    """Take back all of the caller's standing decisions of one bulk act."""
    return {"undone": decisions.undo_group(person(request), group)}


@router.get("/review/{kind}/{pk}/remarks", auth=needs("read"), response=list[ReviewRemarkOut])
def list_remarks(request: HttpRequest, kind: ReviewKind, pk: Id) -> Any:
    """The newest hundred remarks on an object."""
    require_subject(kind, pk)
    return Remark.objects.filter(**subject_filter(kind, pk)).select_related("user").order_by("-id")[:100]


@router.post("/review/{kind}/{pk}/remarks", auth=needs("review"), response={201: ReviewRemarkOut})
@idempotent
def create_remark(request: HttpRequest, kind: ReviewKind, pk: Id, wish: ReviewRemarkIn) -> Any:
    """Put a comment, a label or a flag on an object or a place of it."""
    return 201, remarks.add_remark(person(request), kind, pk, wish.remark, wish.text, wish.place)


@router.post("/review/remarks/{pk}/resolve", auth=needs("review"), response=ReviewRemarkOut)
def resolve_remark(request: HttpRequest, pk: Id) -> Remark:
    """Say that a remark is dealt with: its author, or an adjudicator."""
    return remarks.resolve_remark(person(request), pk, dealt_with=True)


@router.post("/review/remarks/{pk}/reopen", auth=needs("review"), response=ReviewRemarkOut)
def reopen_remark(request: HttpRequest, pk: Id) -> Remark:
    """Say that a remark is not dealt with after all: its author, or an adjudicator."""
    return remarks.resolve_remark(person(request), pk, dealt_with=False)
