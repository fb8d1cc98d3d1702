"""Items of review over the API, and who holds them: kept, skipped, given back, sent on, taken over."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router

from webapp.accounts.models import User
from webapp.errors import NotFound
from webapp.rest.auth import needs, person
from webapp.rest.etags import demand_match, match_needed, match_taken, require_match
from webapp.rest.types import Id
from webapp.review import assignments, queues, transfers
from webapp.review.models import Assignment, QueueItem
from webapp.review.rest.schemas import AssignmentOut, AssignmentTimeIn, ReviewItemOut, SendIn

router = Router(tags=["review"])
HOLD, ITEM = "GET /review/assignments/{pk}", "GET /review/items/{pk}"
KEPT: dict[str, Any] = {"auth": needs("review"), "response": AssignmentOut, "openapi_extra": match_taken(HOLD)}
"""A write to one's own hold: its id is what binds it, so that `If-Match` may be left out."""


@router.get("/review/assignments/{pk}", auth=needs("review"), response=AssignmentOut)
def get_assignment(request: HttpRequest, pk: Id) -> Assignment:
    """One of the caller's own holds."""
    return get_object_or_404(Assignment.objects.select_related("item"), pk=pk, user=person(request))


@router.post("/review/assignments/{pk}/heartbeat", **KEPT)
def keep_assignment(request: HttpRequest, pk: Id, wish: AssignmentTimeIn) -> Assignment:
    """Keep an item for another lease; 409 where somebody else has it now."""
    with transaction.atomic():
        require_match(request, _hold_now(request, pk))
        return assignments.heartbeat(person(request), pk, wish.seconds)


@router.post("/review/assignments/{pk}/skip", **KEPT)
def skip_assignment(request: HttpRequest, pk: Id) -> Assignment:
    """Let others have the item, and do not offer it to the caller again."""
    with transaction.atomic():
        require_match(request, _hold_now(request, pk))
        return assignments.skip(person(request), pk)


@router.post("/review/assignments/{pk}/unskip", **KEPT)
def unskip_assignment(request: HttpRequest, pk: Id) -> Assignment:
    """Take a skipped item up again; 409 where as many people as it needs hold it or have decided."""
    with transaction.atomic():
        require_match(request, _hold_now(request, pk))
        row = assignments.unskip(person(request), pk)
        return assignments.take_over(person(request), row.item)


@router.post("/review/assignments/{pk}/give-back", **KEPT)
def give_back_assignment(request: HttpRequest, pk: Id) -> Assignment:
    """Let others have the item; it may come back."""
    with transaction.atomic():
        require_match(request, _hold_now(request, pk))
        return assignments.give_back(person(request), pk)


@router.post(
    "/review/assignments/{pk}/send", auth=needs("review"), response=AssignmentOut, openapi_extra=match_needed(HOLD)
)
def send_assignment(request: HttpRequest, pk: Id, wish: SendIn) -> Assignment:
    """Send the item to another person, whose alone it is from now on. `If-Match` is required."""
    with transaction.atomic():
        demand_match(request, _hold_now(request, pk), f"GET /review/assignments/{pk}")
        return transfers.send(person(request), pk, _named(wish.to), wish.note)


def _hold_now(request: HttpRequest, pk: int) -> AssignmentOut:
    """The caller's hold as a GET would answer now, its rows locked. Call it in the transaction that changes it."""
    return AssignmentOut.from_orm(assignments.require_assignment(person(request), pk))


@router.get("/review/items/{pk}", auth=needs("read"), response=ReviewItemOut)
def get_review_item(request: HttpRequest, pk: Id) -> QueueItem:
    """An item of a queue: what is decided on, whose it is, and who holds it now."""
    return get_object_or_404(QueueItem.objects.select_related("assignee"), pk=pk)


@router.post(
    "/review/items/{pk}/take-over", auth=needs("review"), response=AssignmentOut, openapi_extra=match_needed(ITEM)
)
def take_item_over(request: HttpRequest, pk: Id) -> Assignment:
    """Hold an item by choice: on a free place, else in place of the one who began first. `If-Match` is required."""
    with transaction.atomic():
        return assignments.take_over(person(request), _item_matched(request, pk))


@router.post(
    "/review/items/{pk}/assign", auth=needs("review"), response=ReviewItemOut, openapi_extra=match_needed(ITEM)
)
def assign_item(request: HttpRequest, pk: Id, wish: SendIn) -> QueueItem:
    """Give an open item to one person; an empty `to` lets everybody have it again. `If-Match` is required.

    Annotators may not.
    """
    queues.require_editor(person(request))
    with transaction.atomic():
        item = _item_matched(request, pk)
        return transfers.assign(person(request), item, _named(wish.to) if wish.to else None, wish.note)


def _item_matched(request: HttpRequest, pk: int) -> QueueItem:
    """The item, locked, as `If-Match` names it."""
    rows = QueueItem.objects.select_for_update(of=("self",)).select_related("queue", "assignee")
    item = rows.filter(pk=pk).first()
    if item is None:
        raise NotFound("There is no such item.")
    demand_match(request, ReviewItemOut.from_orm(item), f"GET /review/items/{pk}")
    return item


def _named(name: str) -> User:
    found = User.objects.filter(username=name, is_active=True).first()
    if found is None:
        raise NotFound("Nobody here has this user name.")
    return found
