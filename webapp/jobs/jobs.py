"""Celery entry points of every job: load the row, claim it, call its handler, write the outcome."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from celery import Task, shared_task
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import Error, connection

from synthesis.errors import EnvariumError, SandboxUnavailable
from synthesis.runtime import get_default_sandbox
from webapp.common.claims import StaleClaim
from webapp.common.database.connections import is_away
from webapp.common.disk import is_disk_full
from webapp.common.events import throttle
from webapp.jobs import memory_limit, presence, services
from webapp.jobs.claims import Cancelled, JobClaim
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job, JobState
from webapp.jobs.registry import KINDS

logger = logging.getLogger(__name__)

AWAY_SECONDS = 15.0
"""Time that a job waits for a database that is being restarted."""
T = TypeVar("T")


def renew_lease(claim: JobClaim, stop: threading.Event) -> None:
    """Renew the lease in a thread of its own, so that a long step does not lose the job."""
    while not stop.wait(settings.JOB_LEASE_SECONDS / 3):
        try:
            if not claim.renew():
                break
        except Error as error:  # the database may be back before the lease is over
            logger.warning("%s: no heartbeat: %s", claim, error)
            connection.close()
    connection.close()


@shared_task(name="jobs.run", bind=False)
def run_job(job_id: int) -> None:
    job = _call_with_retries(services.claim_job, job_id, f"{socket.gethostname()}:{os.getpid()}")
    if job is None:
        return
    stop = threading.Event()
    heart = threading.Thread(target=renew_lease, args=(JobClaim.of(job), stop), daemon=True)
    heart.start()
    try:
        execute_job(job)
    finally:
        stop.set()
        heart.join(timeout=5)
        throttle.flush_throttles()  # this process ends with its job


def execute_job(job: Job) -> None:
    """Run the handler of a claimed job and write the outcome under its claim."""
    context = JobContext.of(job)
    claim = context.claim
    try:
        kind = KINDS.get(job.kind)
        if kind is None:
            raise EnvariumError(f"This installation has no jobs of the kind {job.kind!r}.")
        result = kind.handler(context)
        if claim.finish(JobState.SUCCEEDED, result=result):
            for act in context.afterwards:
                act()
    except StaleClaim as error:
        logger.warning("%s", error)
        if is_away(error):
            _release_claim(claim)
    except Cancelled:
        claim.finish(JobState.CANCELLED)
    except SoftTimeLimitExceeded:
        claim.finish(JobState.FAILED, error=f"Stopped after its limit of {settings.JOB_LIMIT_SECONDS} s.")
    except services.FailedWithResult as error:
        claim.finish(JobState.FAILED, result=error.result, error=str(error))
    except Exception as error:
        if memory_limit.is_memory_error(error):
            claim.finish(JobState.FAILED, error=memory_limit.format_memory_error(error))
        elif is_disk_full(error):
            _requeue_for_disk_space(claim)
        elif is_away(error):
            logger.warning("%s: the database went away: %s", claim, error)
            _release_claim(claim)
        elif isinstance(error, EnvariumError):
            claim.finish(JobState.FAILED, error=str(error))
        else:
            logger.exception("job %s failed", job.pk)
            claim.finish(JobState.FAILED, error=f"{type(error).__name__}: {error}")


def _call_with_retries(work: Callable[..., T], *given: Any) -> T:
    """Return the result of `work`, waiting for a database that is being restarted. Raises its error after
    `AWAY_SECONDS`."""
    until = time.monotonic() + AWAY_SECONDS
    while True:
        try:
            return work(*given)
        except Error as error:
            connection.close()
            if not is_away(error) or time.monotonic() > until:
                raise
            time.sleep(0.5)


def _release_claim(claim: JobClaim) -> None:
    """Release a job after the database was away: no failure of the job, which begins again, at the latest when its
    lease expires."""
    try:
        _call_with_retries(claim.let_go)
    except Error as error:
        logger.warning("%s: not let go: %s", claim, error)


def _requeue_for_disk_space(claim: JobClaim) -> None:
    """Queue a job again after the disk was full: no failure of the job. If even that cannot be written, its lease
    expires."""
    logger.warning("%s: the disk is full", claim)
    try:
        claim.give_back("The disk was full. It begins again when there is room.")
    except Error as error:
        logger.warning("%s: not queued again: %s", claim, error)
        connection.close()


@shared_task(name="jobs.probe_sandbox", bind=True)
def probe_sandbox(self: Task[Any, Any]) -> None:
    """Let this worker's sandbox report itself, so that the health page shows the sandbox of the place where jobs
    run."""
    try:
        report = get_default_sandbox().report()
        sandbox: dict[str, Any] = {"ok": True, "mode": report.mode}
    except SandboxUnavailable as error:
        sandbox = {"ok": False, "mode": "none", "error": str(error)}
    presence.report_sandbox(settings.BROKER_URL, str(self.request.hostname), sandbox)
