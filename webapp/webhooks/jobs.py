"""Periodic jobs of webhooks: messages that are due are sent, old ones removed."""

from __future__ import annotations

from celery import shared_task

from webapp.database.connections import release_connection
from webapp.webhooks import delivery, services

AT_ONCE = 5
"""Five that do not answer take less than what a message is claimed for."""


@shared_task(name="webhooks.send_due")
def send_due() -> int:
    """Send what is due, one after the other; a message that is not told of again is due once more after a minute."""
    due = services.claim_due(AT_ONCE)
    for row in due:
        release_connection()
        delivery.send(row)
    return len(due)


@shared_task(name="webhooks.prune")
def prune() -> None:
    """Remove messages that are over and older than a month."""
    services.prune()
