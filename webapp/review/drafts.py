"""Drafts: what people have filled in and not decided yet, one for each person and object."""

from __future__ import annotations

import json
from typing import Any

from synthesis.errors import InputError
from synthesis.formats.values import clean
from webapp.review.models import Draft, subject_filter
from webapp.review.subjects import require_subject

MOST_BYTES = 64 << 10


def save_draft(user: Any, kind: str, pk: int, body: dict[str, Any], seen: str) -> Draft:
    """Keep what is filled in, in place of what was kept before. Raises NotFound; InputError: too large."""
    require_subject(kind, pk)
    kept = {name: clean(value) if isinstance(value, str) else value for name, value in body.items()}
    for name in ("reasons", "places"):
        kept[name] = [clean(value) for value in kept.get(name, [])]
    if len(json.dumps(kept)) > MOST_BYTES:
        raise InputError(f"A draft may have {MOST_BYTES >> 10} KiB; shorten the comment.")
    row, _ = Draft.objects.update_or_create(
        user=user, **subject_filter(kind, pk), defaults={"body": kept, "seen": seen[:64]}
    )
    return row
