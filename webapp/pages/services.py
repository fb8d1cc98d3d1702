"""Writes of the pages above all apps: when a person was here."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from webapp.pages.models import Visit

VISIT_ENDS_AFTER = timedelta(minutes=30)
WRITTEN_EVERY = timedelta(minutes=1)


def visit(user: Any) -> datetime | None:
    """Note that `user` looks at the home page; gives the end of the visit before this one, None on the first.

    Looks less than `VISIT_ENDS_AFTER` apart are one visit, so that what is new stays marked while a person works.
    """
    now = timezone.now()
    row, new = Visit.objects.get_or_create(user=user, defaults={"at": now})
    if new:
        return None
    if now - row.at > VISIT_ENDS_AFTER:
        Visit.objects.filter(pk=row.pk).update(before=row.at, at=now)
        return row.at
    if now - row.at > WRITTEN_EVERY:
        Visit.objects.filter(pk=row.pk).update(at=now)
    return row.before
