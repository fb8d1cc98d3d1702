"""Writes of the pages above all apps: the visits of a person, and what they have hidden."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from webapp.pages.models import Visit

VISIT_ENDS_AFTER = timedelta(minutes=30)
WRITTEN_EVERY = timedelta(minutes=1)


def record_visit(user: Any) -> Visit:
    """Record that `user` sees the home page; `before` of the result is the end of the visit before this one.

    Requests less than `VISIT_ENDS_AFTER` apart are one visit, so that what is new remains marked while a person works.
    """
    now = timezone.now()
    row, new = Visit.objects.get_or_create(user=user, defaults={"at": now})
    if new:
        return row
    if now - row.at > VISIT_ENDS_AFTER:
        row.before, row.at = row.at, now
        Visit.objects.filter(pk=row.pk).update(before=row.before, at=now)
    elif now - row.at > WRITTEN_EVERY:
        Visit.objects.filter(pk=row.pk).update(at=now)
    return row


def hide_first_steps(user: Any, hidden: bool) -> None:
    """Hide a person's first steps, or show them again."""
    Visit.objects.update_or_create(
        user=user, defaults={"steps_hidden": hidden}, create_defaults={"steps_hidden": hidden, "at": timezone.now()}
    )
