"""Remarks over the API: comments, labels and flags on an object or a place of it."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router

from webapp.errors import NotFound
from webapp.rest.auth import needs, person
from webapp.rest.etags import match_taken, require_match
from webapp.rest.idempotency import idempotent
from webapp.rest.types import Id
from webapp.review import remarks
from webapp.review.models import Remark, subject_filter
from webapp.review.rest.schemas import Kind, ReviewRemarkIn, ReviewRemarkOut
from webapp.review.rest.states import STATE, state_of
from webapp.review.subjects import require_subject

router = Router(tags=["review"])
REMARK = "GET /review/remarks/{pk}"


@router.get("/review/remarks/{pk}", auth=needs("read"), response=ReviewRemarkOut)
def get_remark(request: HttpRequest, pk: Id) -> Remark:
    """One remark."""
    return get_object_or_404(Remark.objects.select_related("user"), pk=pk)


@router.get("/review/{kind}/{pk}/remarks", auth=needs("read"), response=list[ReviewRemarkOut])
def list_remarks(request: HttpRequest, kind: Kind, pk: Id) -> Any:
    """The newest hundred remarks on an object."""
    require_subject(kind, pk)
    return Remark.objects.filter(**subject_filter(kind, pk)).select_related("user").order_by("-id")[:100]


@router.post(
    "/review/{kind}/{pk}/remarks", auth=needs("review"), response={201: ReviewRemarkOut},
    openapi_extra=match_taken(STATE),
)  # fmt: skip
@idempotent
def create_remark(request: HttpRequest, kind: Kind, pk: Id, wish: ReviewRemarkIn) -> Any:
    """Put a comment, a label or a flag on an object or a place of it."""
    with transaction.atomic():
        if "If-Match" in request.headers:
            require_match(request, state_of(kind, pk))
        return 201, remarks.add_remark(person(request), kind, pk, wish.remark, wish.text, wish.place)


@router.post(
    "/review/remarks/{pk}/resolve", auth=needs("review"), response=ReviewRemarkOut, openapi_extra=match_taken(REMARK)
)
def resolve_remark(request: HttpRequest, pk: Id) -> Remark:
    """Say that a remark is dealt with: its author, or an adjudicator."""
    return _resolved(request, pk, dealt_with=True)


@router.post(
    "/review/remarks/{pk}/reopen", auth=needs("review"), response=ReviewRemarkOut, openapi_extra=match_taken(REMARK)
)
def reopen_remark(request: HttpRequest, pk: Id) -> Remark:
    """Say that a remark is not dealt with after all: its author, or an adjudicator."""
    return _resolved(request, pk, dealt_with=False)


def _resolved(request: HttpRequest, pk: int, *, dealt_with: bool) -> Remark:
    with transaction.atomic():
        row = Remark.objects.select_for_update(of=("self",)).select_related("user").filter(pk=pk).first()
        if row is None:
            raise NotFound("There is no such remark.")
        require_match(request, ReviewRemarkOut.from_orm(row))
        return remarks.resolve_remark(person(request), pk, dealt_with=dealt_with)
