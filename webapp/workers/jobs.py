"""Periodic jobs of training: expired leases are reaped, files past their retention are removed."""

from __future__ import annotations

from celery import shared_task

from webapp.jobs.scheduler import LOCAL
from webapp.runs.jobs import WORK_SECONDS
from webapp.runs.local import installation, worker_process
from webapp.workers import claims, retention
from webapp.workers.serving import deployment_claims
from webapp.workers.serving.wakeups import waiting_deployments

LOCAL["workers.reap"] = lambda: claims.reap_jobs() + deployment_claims.reap_deployments()
SERVED_BESIDE = 2
"""Number of models that are served at once beside this site."""


@shared_task(
    name="workers.serve",
    acks_late=False,  # what a lost message held is in the rows: the clock wakes the queue again
    soft_time_limit=WORK_SECONDS,
    time_limit=WORK_SECONDS + 60,
)
def serve_models() -> None:
    """Run a serving worker until nothing is to be served, if a deployment waits and the packages for serving are
    here."""
    can_serve = installation.can_import_training() and waiting_deployments().exists()
    if can_serve and not worker_process.is_working(SERVED_BESIDE):
        worker_process.run_worker(SERVED_BESIDE)


@shared_task(name="workers.prune")
def prune_training() -> None:
    """Remove old checkpoints, the files of old attempts, and abandoned uploads."""
    retention.prune_expired()
