"""Remarks over the API: comments, labels and flags on an object or a place of it."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Router

from webapp.common.errors import NotFound
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.etags import describe_optional_match, require_match
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.types import Id
from webapp.review import remarks
from webapp.review.models import Remark, build_subject_filter
from webapp.review.rest.schemas import Kind, ReviewRemarkIn, ReviewRemarkOut
from webapp.review.rest.states import STATE, build_review_state
from webapp.review.subjects import require_subject

router = Router(tags=["review"])
REMARK = "GET /review/remarks/{pk}"


@router.get("/review/remarks/{pk}", auth=require_scope("read"), response=ReviewRemarkOut)
def get_remark(request: HttpRequest, pk: Id) -> Remark:
    """Return one remark."""
    return get_object_or_404(Remark.objects.select_related("user"), pk=pk)


@router.get("/review/{kind}/{pk}/remarks", auth=require_scope("read"), response=list[ReviewRemarkOut])
def list_remarks(request: HttpRequest, kind: Kind, pk: Id) -> Any:
    """List the newest hundred remarks on an object."""
    require_subject(kind, pk)
    return Remark.objects.filter(**build_subject_filter(kind, pk)).select_related("user").order_by("-id")[:100]


@router.post(
    "/review/{kind}/{pk}/remarks", auth=require_scope("review"), response={201: ReviewRemarkOut},
    openapi_extra=describe_optional_match(STATE),
)  # fmt: skip
@idempotent
def create_remark(request: HttpRequest, kind: Kind, pk: Id, wish: ReviewRemarkIn) -> Any:
    """Put a comment, a label or a flag on an object or a place of it."""
    with transaction.atomic():
        if "If-Match" in request.headers:
            require_match(request, build_review_state(kind, pk))
        return 201, remarks.add_remark(get_acting_user(request), kind, pk, wish.remark, wish.text, wish.place)


@router.post(
    "/review/remarks/{pk}/resolve",
    auth=require_scope("review"),
    response=ReviewRemarkOut,
    openapi_extra=describe_optional_match(REMARK),
)
def resolve_remark(request: HttpRequest, pk: Id) -> Remark:
    """Resolve a remark: its author, or an adjudicator."""
    return _set_resolved(request, pk, dealt_with=True)


@router.post(
    "/review/remarks/{pk}/reopen",
    auth=require_scope("review"),
    response=ReviewRemarkOut,
    openapi_extra=describe_optional_match(REMARK),
)
def reopen_remark(request: HttpRequest, pk: Id) -> Remark:
    """Reopen a remark: its author, or an adjudicator."""
    return _set_resolved(request, pk, dealt_with=False)


def _set_resolved(request: HttpRequest, pk: int, *, dealt_with: bool) -> Remark:
    with transaction.atomic():
        row = Remark.objects.select_for_update(of=("self",)).select_related("user").filter(pk=pk).first()
        if row is None:
            raise NotFound("There is no such remark.")
        require_match(request, ReviewRemarkOut.from_orm(row))
        return remarks.resolve_remark(get_acting_user(request), pk, dealt_with=dealt_with)
