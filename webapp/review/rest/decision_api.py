"""Decisions over the API: what they are bound to, taken, undone, in bulk; and drafts of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.environments.models import Tool
from webapp.errors import NotFound
from webapp.rest.auth import needs, person
from webapp.rest.etags import demand_match, match_needed
from webapp.rest.idempotency import idempotent
from webapp.rest.paging import cursor_page
from webapp.rest.types import Id, PageOf
from webapp.review import assignments, decisions, drafts
from webapp.review.bulk.bulk_decisions import decide_many
from webapp.review.judges.votes import shown_decisions
from webapp.review.models import Assignment, ReviewDecision
from webapp.review.rest.schemas import (
    BulkActOut,
    BulkDecisionsIn,
    BulkDecisionsOut,
    BulkUndoneOut,
    Kind,
    PersonVerdictOut,
    ReviewDecisionIn,
    ReviewDecisionOut,
    ReviewDecisionQuery,
    ReviewDraftIn,
    ReviewDraftOut,
    ReviewStateOut,
    SeenTaskOut,
)
from webapp.review.rest.states import STATE, state_of
from webapp.review.subjects import locked_subject
from webapp.review.task_gate import task_tag
from webapp.review.tools.person_verdicts import person_verdicts
from webapp.scenarios.models import Task

router = Router(tags=["review"])
BULK, DRAFT = "GET /review/bulk-decisions/{group}", "GET /review/{kind}/{pk}/draft"


@router.get("/review/bulk-decisions/{group}", auth=needs("review"), response=BulkActOut)
def get_bulk_act(request: HttpRequest, group: UUID) -> BulkActOut:
    """The caller's own bulk act as it stands; 404 where all of it is undone."""
    return _bulk_act(request, group, Task.objects.select_related("current").defer("current__record"))


def _bulk_act(request: HttpRequest, group: UUID, rows: QuerySet[Task]) -> BulkActOut:
    """Of `rows` those that the caller's standing decisions of one bulk act are on. Raises NotFound: there are none."""
    made = ReviewDecision.objects.filter(group=group, user=person(request), undone_at__isnull=True)
    tasks = [SeenTaskOut(task=row.pk, seen=task_tag(row)) for row in rows.filter(pk__in=made.values("task"))]
    if not tasks:
        raise NotFound("These decisions are undone already, or are not yours.")
    return BulkActOut(group=group, tasks=sorted(tasks, key=lambda one: one.task))


@router.get("/review/{kind}/{pk}", auth=needs("read"), response=ReviewStateOut)
def get_review_state(request: HttpRequest, kind: Kind, pk: Id) -> Any:
    """What a decision on this object would be bound to, and what stands in the way of approving a task."""
    with transaction.atomic():
        return state_of(kind, pk)


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
    with transaction.atomic():
        state = state_of(kind, pk)
        demand_match(request, state, f"GET /review/{kind}/{pk}")
        own = assignments.require_held(person(request), held) if held is not None else None
        return decisions.decide(person(request), kind, pk, _choice_of(wish), state.seen, assignment=own)


@router.post(
    "/review/assignments/{pk}/decision", auth=needs("review"), response={201: ReviewDecisionOut},
    openapi_extra=match_needed(f"{STATE} of what is held"),
)  # fmt: skip
@idempotent
def decide_assignment(request: HttpRequest, pk: Id, wish: ReviewDecisionIn) -> Any:
    """Decide on the item that is held. `If-Match` is required; 412 where the object is not as it was read."""
    held = get_object_or_404(Assignment.objects.select_related("item"), pk=pk, user=person(request))
    return 201, _decided(request, held.item.kind, held.item.subject_id, wish, pk)


@router.post(
    "/review/{kind}/{pk}/decisions", auth=needs("review"), response={201: ReviewDecisionOut},
    openapi_extra=match_needed(STATE),
)  # fmt: skip
@idempotent
def create_decision(request: HttpRequest, kind: Kind, pk: Id, wish: ReviewDecisionIn) -> Any:
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


@router.post(
    "/review/decisions/{pk}/undo", auth=needs("review"), response=ReviewDecisionOut,
    openapi_extra=match_needed(f"{STATE} of what was decided on"),
)  # fmt: skip
def undo_decision(request: HttpRequest, pk: Id) -> ReviewDecision:
    """Take a decision back: one's own, or as an adjudicator another's. `If-Match` is required.

    412 where what was decided on is not as it was read: others have settled it since, or it was edited.
    """
    with transaction.atomic():
        known = ReviewDecision.objects.filter(pk=pk).first()
        if known is None:
            raise NotFound("There is no such decision.")
        demand_match(request, state_of(known.kind, known.subject_id), f"GET /review/{known.kind}/{known.subject_id}")
        return decisions.undo(person(request), pk)


@router.post("/review/bulk-decisions", auth=needs("review"), response={201: BulkDecisionsOut})
@idempotent
def create_bulk_decisions(request: HttpRequest, wish: BulkDecisionsIn) -> Any:
    """One decision on many tasks. Of each, `seen` stands as GET /review/task/{pk} says it, in the place of `If-Match`.

    One that was changed since, or may not be approved, is left as it is; so is one that the caller approved already.
    """
    seen = {one.task: one.seen for one in wish.tasks}
    return 201, decide_many(person(request), seen, _choice_of(wish.decision))


@router.post(
    "/review/bulk-decisions/{group}/undo", auth=needs("review"), response=BulkUndoneOut,
    openapi_extra=match_needed(BULK),
)  # fmt: skip
def undo_bulk_decisions(request: HttpRequest, group: UUID) -> Any:
    """Take back all of the caller's standing decisions of one bulk act. `If-Match` is required."""
    rows = Task.objects.select_for_update(of=("self",)).select_related("current").defer("current__record")
    with transaction.atomic():
        demand_match(request, _bulk_act(request, group, rows.order_by("pk")), f"GET /review/bulk-decisions/{group}")
        return {"undone": decisions.undo_group(person(request), group)}


@router.get("/review/{kind}/{pk}/draft", auth=needs("review"), response=ReviewDraftOut)
def get_draft(request: HttpRequest, kind: Kind, pk: Id) -> ReviewDraftOut:
    """What the caller has filled in about an object and not decided; empty where there is nothing."""
    with transaction.atomic():
        locked_subject(kind, pk)
        return _draft_now(request, kind, pk)


@router.put(
    "/review/{kind}/{pk}/draft", auth=needs("review"), response=ReviewDraftOut, openapi_extra=match_needed(DRAFT)
)
def keep_draft(request: HttpRequest, kind: Kind, pk: Id, wish: ReviewDraftIn) -> ReviewDraftOut:
    """Keep the caller's draft, which outlives their lease. `If-Match` is required; 412 where another tab wrote it."""
    body = wish.model_dump(exclude={"seen", "groups"})
    with transaction.atomic():
        locked_subject(kind, pk)
        demand_match(request, _draft_now(request, kind, pk), f"GET /review/{kind}/{pk}/draft")
        detail = {"groups": dict(wish.groups)} if wish.groups else {}
        drafts.save_draft(person(request), kind, pk, body | {"detail": detail}, wish.seen)
        return _draft_now(request, kind, pk)


def _draft_now(request: HttpRequest, kind: str, pk: int) -> ReviewDraftOut:
    row = drafts.draft_of(person(request), kind, pk)
    body = row.body if row is not None else {}
    return ReviewDraftOut(
        kind=kind,
        object_id=pk,
        verdict=body.get("verdict", ""),
        reasons=body.get("reasons", []),
        comment=body.get("comment", ""),
        places=body.get("places", []),
        groups=body.get("detail", {}).get("groups", {}),
        overrides=body.get("overrides", False),
        seen=row.seen if row is not None else "",
        updated_at=row.updated_at if row is not None else None,
    )
