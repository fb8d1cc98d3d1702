"""Remarks: comments, labels and flags that people put on an object or a place of it."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from webapp.accounts.access import ADJUDICATORS
from webapp.accounts.row_log import set_actor
from webapp.common.errors import Conflict, NotFound
from webapp.review.models import Remark, RemarkKind, build_subject_filter
from webapp.review.places import require_place, require_place_length
from webapp.review.subjects import get_subject

TEXT_CHARS = 4_000
LABEL_CHARS = 60


def add_remark(user: Any, kind: str, pk: int, remark: str, text: str, place: str = "") -> Remark:
    """Put a remark on an object. Raises NotFound; InputError if it is empty, too long, or at an unknown place."""
    subject = get_subject(kind, pk)
    if remark not in RemarkKind.values:
        raise InputError("A remark is a comment, a label or a flag.")
    words, where = clean_text(text).strip(), clean_text(place).strip()
    most = LABEL_CHARS if remark == RemarkKind.LABEL else TEXT_CHARS
    if not words:
        raise InputError("Write what you want to say; a flag says what is wrong.")
    if len(words) > most:
        raise InputError(f"Write at most {most:,} characters; these are {len(words):,}.")
    if where:
        require_place_length(where)
        require_place(subject, where)
    with set_actor(user):
        return Remark.objects.create(
            **build_subject_filter(kind, pk), remark=remark, place=where, text=words, user=user
        )


def resolve_remark(user: Any, pk: int, *, dealt_with: bool) -> Remark:
    """Resolve or reopen a remark: its author, or an adjudicator.

    Raises NotFound; Conflict if it is another person's.
    """
    with set_actor(user):
        row = Remark.objects.select_for_update().filter(pk=pk).first()
        if row is None:
            raise NotFound("There is no such remark.")
        if row.user_id != user.pk and user.role not in ADJUDICATORS:
            raise Conflict("Only its author or an adjudicator says that a remark is dealt with.", code="not_yours")
        if dealt_with != (row.resolved_at is not None):
            row.resolved_at, row.resolved_by = (timezone.now(), user) if dealt_with else (None, None)
            row.save(update_fields=["resolved_at", "resolved_by"])
    return row
