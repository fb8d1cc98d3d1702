"""Drafts: values of decision forms that people have not sent yet, one for each person and object."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from django.db import transaction

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.common.errors import ChangedMeanwhile
from webapp.review.models import Draft, build_subject_filter
from webapp.review.subjects import require_subject

MOST_BYTES = 512 << 10


def find_draft(user: Any, kind: str, pk: int) -> Draft | None:
    """Return a person's draft of a decision on an object; None if there is none."""
    return _query_drafts(kind).first(user=user.pk, subject=pk)


@cache
def _query_drafts(kind: str) -> KeptQuery[Draft]:
    return KeptQuery(
        lambda: Draft.objects.filter(user=Given("user"), **{f"{kind}_id": Given("subject")}).order_by("pk")[:1]
    )


def format_draft_mark(draft: Draft | None) -> str:
    """Return the mark that distinguishes one state of a draft from the next; "" if there is no draft."""
    return draft.updated_at.isoformat() if draft is not None else ""


@transaction.atomic
def save_draft(user: Any, kind: str, pk: int, body: dict[str, Any], seen: str, over: str | None = None) -> Draft:
    """Store the filled-in values in place of the earlier draft; `over` is the mark of the draft that they are based on.

    Raises NotFound; InputError if too large; ChangedMeanwhile if another tab has written it since.
    """
    require_subject(kind, pk)
    cleaned_body = {name: clean_text(value) if isinstance(value, str) else value for name, value in body.items()}
    for name in ("reasons", "places"):
        cleaned_body[name] = [clean_text(value) for value in cleaned_body.get(name, [])]
    if len(json.dumps(cleaned_body, ensure_ascii=False).encode()) > MOST_BYTES:
        raise InputError(f"A draft may have {MOST_BYTES >> 10} KiB; shorten the comment.")
    about = build_subject_filter(kind, pk)
    stored_draft = Draft.objects.select_for_update().filter(user=user, **about).first()
    if over is not None and over != format_draft_mark(stored_draft):
        raise ChangedMeanwhile("This was filled in in another tab too. Load the page again to see the current text.")
    row, _ = Draft.objects.update_or_create(user=user, **about, defaults={"body": cleaned_body, "seen": seen[:64]})
    return row
