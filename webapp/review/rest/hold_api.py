"""Items of review over the API, and their holds: kept, skipped, given back, sent on, taken over."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router

from webapp.accounts.models import User
from webapp.common.errors import NotFound
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.etags import demand_match, describe_optional_match, describe_required_match, require_match
from webapp.common.rest.types import Id
from webapp.review import assignments, queues, transfers
from webapp.review.models import Assignment, QueueItem
from webapp.review.rest.schemas import AssignmentOut, AssignmentTimeIn, ReviewItemOut, SendIn

router = Router(tags=["review"])
HOLD, ITEM = "GET /review/assignments/{pk}", "GET /review/items/{pk}"
KEPT: dict[str, Any] = {
    "auth": require_scope("review"),
    "response": AssignmentOut,
    "openapi_extra": describe_optional_match(HOLD),
}
"""A write to one's own hold: its id is what binds it, so that `If-Match` may be left out."""


@router.get("/review/assignments/{pk}", auth=require_scope("review"), response=AssignmentOut)
def get_assignment(request: HttpRequest, pk: Id) -> Assignment:
    """Return one of the caller's own holds."""
    return get_object_or_404(Assignment.objects.select_related("item"), pk=pk, user=get_acting_user(request))


@router.post("/review/assignments/{pk}/heartbeat", **KEPT)
def keep_assignment(request: HttpRequest, pk: Id, wish: AssignmentTimeIn) -> Assignment:
    """Keep an item for another lease; 409 if another person has it now."""
    with transaction.atomic():
        require_match(request, _build_locked_hold(request, pk))
        return assignments.renew_lease(get_acting_user(request), pk, wish.seconds)


@router.post("/review/assignments/{pk}/skip", **KEPT)
def skip_assignment(request: HttpRequest, pk: Id) -> Assignment:
    """Let others have the item, and do not offer it to the caller again."""
    with transaction.atomic():
        require_match(request, _build_locked_hold(request, pk))
        return assignments.skip_item(get_acting_user(request), pk)


@router.post("/review/assignments/{pk}/unskip", **KEPT)
def unskip_assignment(request: HttpRequest, pk: Id) -> Assignment:
    """Take a skipped item up again; 409 if as many people as it needs hold it or have decided."""
    with transaction.atomic():
        require_match(request, _build_locked_hold(request, pk))
        row = assignments.unskip_item(get_acting_user(request), pk)
        return assignments.take_over_item(get_acting_user(request), row.item)


@router.post("/review/assignments/{pk}/give-back", **KEPT)
def give_back_assignment(request: HttpRequest, pk: Id) -> Assignment:
    """Let others have the item; it may come back."""
    with transaction.atomic():
        require_match(request, _build_locked_hold(request, pk))
        return assignments.give_back_item(get_acting_user(request), pk)


@router.post(
    "/review/assignments/{pk}/send",
    auth=require_scope("review"),
    response=AssignmentOut,
    openapi_extra=describe_required_match(HOLD),
)
def send_assignment(request: HttpRequest, pk: Id, wish: SendIn) -> Assignment:
    """Send the item to another person; from now on only they can take it. `If-Match` is required."""
    with transaction.atomic():
        demand_match(request, _build_locked_hold(request, pk), f"GET /review/assignments/{pk}")
        return transfers.send_item(get_acting_user(request), pk, _get_named_user(wish.to), wish.note)


def _build_locked_hold(request: HttpRequest, pk: int) -> AssignmentOut:
    """Return the caller's hold as a GET would answer now, its rows locked. Call it in the transaction that changes
    it."""
    return AssignmentOut.from_orm(assignments.lock_assignment(get_acting_user(request), pk))


@router.get("/review/items/{pk}", auth=require_scope("read"), response=ReviewItemOut)
def get_review_item(request: HttpRequest, pk: Id) -> QueueItem:
    """Return an item of a queue: the object to decide on, its assignee, and its holders."""
    return get_object_or_404(QueueItem.objects.select_related("assignee"), pk=pk)


@router.post(
    "/review/items/{pk}/take-over",
    auth=require_scope("review"),
    response=AssignmentOut,
    openapi_extra=describe_required_match(ITEM),
)
def take_item_over(request: HttpRequest, pk: Id) -> Assignment:
    """Hold an item by choice: on a free place, else in place of the person who began first. `If-Match` is required."""
    with transaction.atomic():
        return assignments.take_over_item(get_acting_user(request), _lock_matched_item(request, pk))


@router.post(
    "/review/items/{pk}/assign",
    auth=require_scope("review"),
    response=ReviewItemOut,
    openapi_extra=describe_required_match(ITEM),
)
def assign_item(request: HttpRequest, pk: Id, wish: SendIn) -> QueueItem:
    """Give an open item to one person; an empty `to` lets all people have it again. `If-Match` is required.

    Annotators may not.
    """
    queues.require_editor(get_acting_user(request))
    with transaction.atomic():
        item = _lock_matched_item(request, pk)
        return transfers.assign_item(
            get_acting_user(request), item, _get_named_user(wish.to) if wish.to else None, wish.note
        )


def _lock_matched_item(request: HttpRequest, pk: int) -> QueueItem:
    """Return the item, locked, if it matches `If-Match`."""
    rows = QueueItem.objects.select_for_update(of=("self",)).select_related("queue", "assignee")
    item = rows.filter(pk=pk).first()
    if item is None:
        raise NotFound("There is no such item.")
    demand_match(request, ReviewItemOut.from_orm(item), f"GET /review/items/{pk}")
    return item


def _get_named_user(name: str) -> User:
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise NotFound("There is no user with this name.")
    return user
