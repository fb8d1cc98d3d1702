"""Periodic jobs of training: leases that are over are reaped, what is no longer kept is removed."""

from __future__ import annotations

from celery import shared_task

from webapp.jobs.scheduler import LOCAL
from webapp.runs.jobs import WORK_SECONDS
from webapp.runs.local import installation, worker_process
from webapp.workers import claims, retention
from webapp.workers.serving import deployment_claims
from webapp.workers.serving.wakeups import waiting

LOCAL["workers.reap"] = lambda: claims.reap() + deployment_claims.reap()
SERVED_BESIDE = 2
"""So many models are served at once beside this site."""


@shared_task(
    name="workers.serve",
    acks_late=False,  # what a lost message held is in the rows: the clock wakes the queue again
    soft_time_limit=WORK_SECONDS,
    time_limit=WORK_SECONDS + 60,
)
def serve() -> None:
    """Run a serving worker until nothing is to be served, if something waits and what serving needs is here."""
    wanted = installation.importable() and waiting().exists()
    if wanted and not worker_process.is_working(SERVED_BESIDE):
        worker_process.work(SERVED_BESIDE)


@shared_task(name="workers.prune")
def prune() -> None:
    """Remove old checkpoints, the files of old attempts, and uploads that nobody goes on with."""
    retention.prune()
