"""Decisions over the API: their entity tags, taking, undoing, in bulk; and drafts of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.common.errors import NotFound
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.etags import demand_match, describe_required_match
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import cursor_page
from webapp.common.rest.types import Id, PageOf
from webapp.environments.models import Tool
from webapp.review import assignments, decisions, drafts
from webapp.review.bulk.bulk_decisions import decide_on_tasks
from webapp.review.judges.votes import filter_visible_decisions
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
from webapp.review.rest.states import STATE, build_review_state
from webapp.review.subjects import lock_subject
from webapp.review.task_gate import build_task_tag
from webapp.review.tools.person_verdicts import find_person_verdicts
from webapp.scenarios.models import Task

router = Router(tags=["review"])
BULK, DRAFT = "GET /review/bulk-decisions/{group}", "GET /review/{kind}/{pk}/draft"


@router.get("/review/bulk-decisions/{group}", auth=require_scope("review"), response=BulkActOut)
def get_bulk_act(request: HttpRequest, group: UUID) -> BulkActOut:
    """Return the caller's own bulk action in its current state; 404 if all of it is undone."""
    return _build_bulk_act(request, group, Task.objects.select_related("current").defer("current__record"))


def _build_bulk_act(request: HttpRequest, group: UUID, rows: QuerySet[Task]) -> BulkActOut:
    """Return those of `rows` with standing decisions of the caller's bulk action. Raises NotFound if there are none."""
    own_decisions = ReviewDecision.objects.filter(group=group, user=get_acting_user(request), undone_at__isnull=True)
    tasks = [
        SeenTaskOut(task=row.pk, seen=build_task_tag(row)) for row in rows.filter(pk__in=own_decisions.values("task"))
    ]
    if not tasks:
        raise NotFound("These decisions are undone already, or are not yours.")
    return BulkActOut(group=group, tasks=sorted(tasks, key=lambda one: one.task))


@router.get("/review/{kind}/{pk}", auth=require_scope("read"), response=ReviewStateOut)
def get_review_state(request: HttpRequest, kind: Kind, pk: Id) -> Any:
    """Return the state that a decision on this object is bound to, and the obstacles to approving a task."""
    with transaction.atomic():
        return build_review_state(kind, pk)


def _build_choice(wish: ReviewDecisionIn) -> decisions.DecisionChoice:
    return decisions.DecisionChoice(
        verdict=wish.verdict,
        reasons=tuple(wish.reasons),
        comment=wish.comment,
        places=tuple(wish.places),
        detail={"groups": dict(wish.groups)} if wish.groups else {},
        overrides=wish.overrides,
        seconds=wish.seconds,
    )


def _create_decision(
    request: HttpRequest, kind: str, pk: int, wish: ReviewDecisionIn, held: int | None
) -> ReviewDecision:
    with transaction.atomic():
        state = build_review_state(kind, pk)
        demand_match(request, state, f"GET /review/{kind}/{pk}")
        own = assignments.lock_held_assignment(get_acting_user(request), held) if held is not None else None
        return decisions.create_decision(
            get_acting_user(request), kind, pk, _build_choice(wish), state.seen, assignment=own
        )


@router.post(
    "/review/assignments/{pk}/decision", auth=require_scope("review"), response={201: ReviewDecisionOut},
    openapi_extra=describe_required_match(f"{STATE} of what is held"),
)  # fmt: skip
@idempotent
def decide_assignment(request: HttpRequest, pk: Id, wish: ReviewDecisionIn) -> Any:
    """Decide on the item that is held. `If-Match` is required; 412 if the object is not as it was read."""
    held = get_object_or_404(Assignment.objects.select_related("item"), pk=pk, user=get_acting_user(request))
    return 201, _create_decision(request, held.item.kind, held.item.subject_id, wish, pk)


@router.post(
    "/review/{kind}/{pk}/decisions", auth=require_scope("review"), response={201: ReviewDecisionOut},
    openapi_extra=describe_required_match(STATE),
)  # fmt: skip
@idempotent
def create_decision(request: HttpRequest, kind: Kind, pk: Id, wish: ReviewDecisionIn) -> Any:
    """Decide on an object outside of a queue. `If-Match` is required; 412 if it is not as it was read."""
    return 201, _create_decision(request, kind, pk, wish, None)


@router.get("/review/versions/{pk}/tools", auth=require_scope("read"), response=list[PersonVerdictOut])
def list_tool_verdicts(request: HttpRequest, pk: Id) -> Any:
    """List the verdicts of people on the tools of an environment's version, only those that they settled."""
    tools = dict(Tool.objects.filter(version=pk).order_by("position").values_list("pk", "name"))
    settled_verdicts = find_person_verdicts(list(tools))
    return [
        PersonVerdictOut(
            tool_id=tool, tool=tools[tool], verdict=said.verdict, groups=said.groups, people=list(said.people)
        )
        for tool, said in settled_verdicts.items()
    ]


@router.get("/review/decisions", auth=require_scope("read"), response=PageOf[ReviewDecisionOut])
def list_decisions(request: HttpRequest, query: Query[ReviewDecisionQuery]) -> Any:
    """List decisions of people and judges, newest first, undone ones too.

    A judge's is included only once the caller has decided on the same object, or for adjudicators.
    """
    rows = filter_visible_decisions(get_acting_user(request)).select_related("user")
    for name in ("queue", "task"):
        if (value := getattr(query, name)) is not None:
            rows = rows.filter(**{name: value})
    return cursor_page(rows, query)


@router.post(
    "/review/decisions/{pk}/undo", auth=require_scope("review"), response=ReviewDecisionOut,
    openapi_extra=describe_required_match(f"{STATE} of what was decided on"),
)  # fmt: skip
def undo_decision(request: HttpRequest, pk: Id) -> ReviewDecision:
    """Undo a decision: one's own, or as an adjudicator another person's. `If-Match` is required.

    412 if the object is not as it was read: others have settled it since, or it was edited.
    """
    with transaction.atomic():
        decision = ReviewDecision.objects.filter(pk=pk).first()
        if decision is None:
            raise NotFound("There is no such decision.")
        demand_match(
            request,
            build_review_state(decision.kind, decision.subject_id),
            f"GET /review/{decision.kind}/{decision.subject_id}",
        )
        return decisions.undo_decision(get_acting_user(request), pk)


@router.post("/review/bulk-decisions", auth=require_scope("review"), response={201: BulkDecisionsOut})
@idempotent
def create_bulk_decisions(request: HttpRequest, wish: BulkDecisionsIn) -> Any:
    """Take one decision on many tasks. For each, `seen` is the value of GET /review/task/{pk}, in place of `If-Match`.

    A task that was changed since, or may not be approved, is left unchanged; so is one that the caller approved
    already.
    """
    seen = {one.task: one.seen for one in wish.tasks}
    return 201, decide_on_tasks(get_acting_user(request), seen, _build_choice(wish.decision))


@router.post(
    "/review/bulk-decisions/{group}/undo", auth=require_scope("review"), response=BulkUndoneOut,
    openapi_extra=describe_required_match(BULK),
)  # fmt: skip
def undo_bulk_decisions(request: HttpRequest, group: UUID) -> Any:
    """Undo all of the caller's standing decisions of one bulk action. `If-Match` is required."""
    rows = Task.objects.select_for_update(of=("self",)).select_related("current").defer("current__record")
    with transaction.atomic():
        demand_match(
            request, _build_bulk_act(request, group, rows.order_by("pk")), f"GET /review/bulk-decisions/{group}"
        )
        return {"undone": decisions.undo_bulk_act(get_acting_user(request), group)}


@router.get("/review/{kind}/{pk}/draft", auth=require_scope("review"), response=ReviewDraftOut)
def get_draft(request: HttpRequest, kind: Kind, pk: Id) -> ReviewDraftOut:
    """Return the caller's draft about an object; empty if there is none."""
    with transaction.atomic():
        lock_subject(kind, pk)
        return _build_draft(request, kind, pk)


@router.put(
    "/review/{kind}/{pk}/draft",
    auth=require_scope("review"),
    response=ReviewDraftOut,
    openapi_extra=describe_required_match(DRAFT),
)
def keep_draft(request: HttpRequest, kind: Kind, pk: Id, wish: ReviewDraftIn) -> ReviewDraftOut:
    """Store the caller's draft, which outlives their lease. `If-Match` is required; 412 if another tab wrote it."""
    body = wish.model_dump(exclude={"seen", "groups"})
    with transaction.atomic():
        lock_subject(kind, pk)
        demand_match(request, _build_draft(request, kind, pk), f"GET /review/{kind}/{pk}/draft")
        detail = {"groups": dict(wish.groups)} if wish.groups else {}
        drafts.save_draft(get_acting_user(request), kind, pk, body | {"detail": detail}, wish.seen)
        return _build_draft(request, kind, pk)


def _build_draft(request: HttpRequest, kind: str, pk: int) -> ReviewDraftOut:
    row = drafts.find_draft(get_acting_user(request), kind, pk)
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
