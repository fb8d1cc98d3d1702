"""Writes of the pages above all apps: when a person was here, and what they have put away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from webapp.pages.models import Visit

VISIT_ENDS_AFTER = timedelta(minutes=30)
WRITTEN_EVERY = timedelta(minutes=1)


def visit(user: Any) -> Visit:
    """Note that `user` looks at the home page; `before` of what comes back is the end of the visit before this one.

    Looks less than `VISIT_ENDS_AFTER` apart are one visit, so that what is new stays marked while a person works.
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
    """Put a person's first steps away, or show them again."""
    Visit.objects.update_or_create(
        user=user, defaults={"steps_hidden": hidden}, create_defaults={"steps_hidden": hidden, "at": timezone.now()}
    )
