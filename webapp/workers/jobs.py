"""Periodic jobs of training: leases that are over are reaped, what is no longer kept is removed."""

from __future__ import annotations

from celery import shared_task

from webapp.jobs.scheduler import LOCAL
from webapp.workers import claims, retention

LOCAL["workers.reap"] = claims.reap


@shared_task(name="workers.prune")
def prune() -> None:
    """Remove old checkpoints, the files of old attempts, and uploads that nobody goes on with."""
    retention.prune()
