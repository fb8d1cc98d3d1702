"""Queues of review over the API: made, changed, opened, closed, pulled from."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from webapp.common.errors import NotFound
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.etags import demand_match, describe_optional_match, describe_required_match, require_match
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import cursor_page
from webapp.common.rest.types import Id, PageOf
from webapp.review import assignments, queues
from webapp.review.models import ReviewQueue
from webapp.review.rest.schemas import (
    NextOut,
    ReviewProgressOut,
    ReviewQueueIn,
    ReviewQueueLine,
    ReviewQueueOut,
    ReviewQueueQuery,
)

router = Router(tags=["review"])
QUEUE = "GET /review/queues/{pk}"


def _build_settings(wish: ReviewQueueIn) -> queues.QueueSettings:
    values = wish.model_dump()
    return queues.QueueSettings(**values | {name: tuple(values[name]) for name in ("roles", "members")})


@router.get("/review/queues", auth=require_scope("read"), response=PageOf[ReviewQueueLine])
def list_review_queues(request: HttpRequest, query: Query[ReviewQueueQuery]) -> Any:
    """List queues, newest first."""
    rows = ReviewQueue.objects.prefetch_related("members")
    return cursor_page(rows.filter(kind=query.kind) if query.kind else rows, query)


@router.get("/review/queues/{pk}", auth=require_scope("read"), response=ReviewQueueOut)
def get_review_queue(request: HttpRequest, pk: Id) -> ReviewQueue:
    """Return one queue's settings. Its progress is at /review/queues/{pk}/progress."""
    return get_object_or_404(ReviewQueue.objects.prefetch_related("members"), pk=pk)


@router.get("/review/queues/{pk}/progress", auth=require_scope("read"), response=ReviewProgressOut)
def get_review_progress(request: HttpRequest, pk: Id) -> ReviewQueue:
    """Return how many items a queue has, how many of them are decided, and when it was filled."""
    return get_object_or_404(ReviewQueue, pk=pk)


@router.post("/review/queues", auth=require_scope("review"), response={201: ReviewQueueOut})
@idempotent
def create_review_queue(request: HttpRequest, wish: ReviewQueueIn) -> Any:
    """Make a queue and fill it. Annotators may not."""
    return 201, queues.create_queue(get_acting_user(request), _build_settings(wish))


@router.put(
    "/review/queues/{pk}",
    auth=require_scope("review"),
    response=ReviewQueueOut,
    openapi_extra=describe_required_match(QUEUE),
)
def change_review_queue(request: HttpRequest, pk: Id, wish: ReviewQueueIn) -> ReviewQueue:
    """Change a queue and fill it anew. `If-Match` is required; 412 if its settings are not as they were read."""
    with transaction.atomic():
        row = _lock_matched_queue(request, pk)
        settings = _build_settings(wish.model_copy(update={"kind": row.kind}))
        return queues.change_queue(get_acting_user(request), pk, settings)


@router.post(
    "/review/queues/{pk}/open",
    auth=require_scope("review"),
    response=ReviewQueueOut,
    openapi_extra=describe_required_match(QUEUE),
)
def open_review_queue(request: HttpRequest, pk: Id) -> ReviewQueue:
    """Let people pull from a queue again. `If-Match` is required. Annotators may not."""
    with transaction.atomic():
        _lock_matched_queue(request, pk)
        return queues.set_queue_open(get_acting_user(request), pk, is_open=True)


@router.post(
    "/review/queues/{pk}/close",
    auth=require_scope("review"),
    response=ReviewQueueOut,
    openapi_extra=describe_required_match(QUEUE),
)
def close_review_queue(request: HttpRequest, pk: Id) -> ReviewQueue:
    """Let no person pull from a queue any more. `If-Match` is required. Annotators may not."""
    with transaction.atomic():
        _lock_matched_queue(request, pk)
        return queues.set_queue_open(get_acting_user(request), pk, is_open=False)


def _lock_matched_queue(request: HttpRequest, pk: int) -> ReviewQueue:
    """Return the queue, locked, if it matches `If-Match`."""
    row = ReviewQueue.objects.select_for_update(of=("self",)).filter(pk=pk).first()
    if row is None:
        raise NotFound("There is no such queue.")
    demand_match(request, ReviewQueueOut.from_orm(row), f"GET /review/queues/{pk}")
    return row


@router.post(
    "/review/queues/{pk}/next",
    auth=require_scope("review"),
    response=NextOut,
    openapi_extra=describe_optional_match(QUEUE),
)
def pull_next_item(request: HttpRequest, pk: Id) -> Any:
    """Hold the caller's next item of a queue; one that they already hold comes first.

    `If-Match`, if it is sent, is the ETag of the queue: an item chosen by other settings is not held.
    """
    queue = get_object_or_404(ReviewQueue, pk=pk)
    require_match(request, ReviewQueueOut.from_orm(queue))
    return {"assignment": assignments.pull_next_assignment(get_acting_user(request), queue)}
