"""Periodic jobs of webhooks: due messages are sent, old ones removed."""

from __future__ import annotations

from celery import shared_task

from webapp.common.database.connections import release_connection
from webapp.webhooks import delivery, services

EACH = 20
"""Messages of one address at a time."""


@shared_task(name="webhooks.send_due")
def send_due_deliveries() -> int:
    """Send due messages, to all addresses at the same time; a claimed message without a result is due again after a
    minute."""
    claimed = services.claim_due_deliveries(EACH)
    release_connection()
    return delivery.send_deliveries(claimed)


@shared_task(name="webhooks.prune")
def prune_deliveries() -> None:
    """Remove messages that are over and older than a month."""
    services.prune_deliveries()
