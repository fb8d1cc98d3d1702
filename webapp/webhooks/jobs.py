"""Periodic jobs of webhooks: messages that are due are sent, old ones removed."""

from __future__ import annotations

from celery import shared_task

from webapp.database.connections import release_connection
from webapp.webhooks import delivery, services

EACH = 20
"""Messages of one address at a time."""


@shared_task(name="webhooks.send_due")
def send_due() -> int:
    """Send what is due, to all addresses at the same time; a message that is not told of again is due once more after a
    minute."""
    claimed = services.claim_due(EACH)
    release_connection()
    return delivery.send(claimed)


@shared_task(name="webhooks.prune")
def prune() -> None:
    """Remove messages that are over and older than a month."""
    services.prune()
