"""Drafts: what people have filled in and not decided yet, one for each person and object."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from django.db import transaction

from synthesis.errors import InputError
from synthesis.formats.values import clean
from webapp.database.kept_sql import Given, KeptQuery
from webapp.errors import ChangedMeanwhile
from webapp.review.models import Draft, subject_filter
from webapp.review.subjects import require_subject

MOST_BYTES = 512 << 10


def draft_of(user: Any, kind: str, pk: int) -> Draft | None:
    """A person's draft of a decision on an object."""
    return _drafts(kind).first(user=user.pk, subject=pk)


@cache
def _drafts(kind: str) -> KeptQuery[Draft]:
    return KeptQuery(
        lambda: Draft.objects.filter(user=Given("user"), **{f"{kind}_id": Given("subject")}).order_by("pk")[:1]
    )


def mark_of(draft: Draft | None) -> str:
    """What tells one writing of a draft from the next; "" where there is none."""
    return draft.updated_at.isoformat() if draft is not None else ""


@transaction.atomic
def save_draft(user: Any, kind: str, pk: int, body: dict[str, Any], seen: str, over: str | None = None) -> Draft:
    """Keep what is filled in, in place of what was kept before; `over` is the mark of what it was filled in on.

    Raises NotFound; InputError: too large; ChangedMeanwhile: another tab has written it since.
    """
    require_subject(kind, pk)
    kept = {name: clean(value) if isinstance(value, str) else value for name, value in body.items()}
    for name in ("reasons", "places"):
        kept[name] = [clean(value) for value in kept.get(name, [])]
    if len(json.dumps(kept, ensure_ascii=False).encode()) > MOST_BYTES:
        raise InputError(f"A draft may have {MOST_BYTES >> 10} KiB; shorten the comment.")
    about = subject_filter(kind, pk)
    known = Draft.objects.select_for_update().filter(user=user, **about).first()
    if over is not None and over != mark_of(known):
        raise ChangedMeanwhile("This was filled in in another tab too. Load the page again to see what stands there.")
    row, _ = Draft.objects.update_or_create(user=user, **about, defaults={"body": kept, "seen": seen[:64]})
    return row
