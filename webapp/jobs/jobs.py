"""Celery's entry points for every job: load the row, claim it, delegate, write how it ended."""

from __future__ import annotations

import logging
import os
import socket
import threading

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import connection

from synthesis.errors import EnvariumError
from webapp.jobs import services
from webapp.jobs.context import JobContext
from webapp.jobs.models import JobState
from webapp.jobs.registry import KINDS

logger = logging.getLogger(__name__)


def beat(job_id: int, attempt: int, stop: threading.Event) -> None:
    """Renew the lease from a thread of its own, so that a long step does not lose the job."""
    while not stop.wait(settings.JOB_LEASE_SECONDS / 3):
        if not services.heartbeat(job_id, attempt):
            break
    connection.close()


@shared_task(name="jobs.run", bind=False)
def run(job_id: int) -> None:
    job = services.claim(job_id, f"{socket.gethostname()}:{os.getpid()}")
    if job is None:
        return
    context = JobContext(job.pk, job.attempt, job.payload, job.created_by_id)
    stop = threading.Event()
    heart = threading.Thread(target=beat, args=(job.pk, job.attempt, stop), daemon=True)
    heart.start()
    try:
        result = KINDS[job.kind].handler(context)
        services.finish(job.pk, job.attempt, JobState.SUCCEEDED, result=result)
    except services.StaleAttempt as error:
        logger.warning("%s", error)
    except services.Cancelled:
        services.finish(job.pk, job.attempt, JobState.CANCELLED)
    except SoftTimeLimitExceeded:
        limit = settings.CELERY["task_soft_time_limit"]
        services.finish(job.pk, job.attempt, JobState.FAILED, error=f"Stopped after its limit of {limit} s.")
    except EnvariumError as error:
        services.finish(job.pk, job.attempt, JobState.FAILED, error=str(error))
    except Exception as error:
        logger.exception("job %s failed", job.pk)
        services.finish(job.pk, job.attempt, JobState.FAILED, error=f"{type(error).__name__}: {error}")
    finally:
        stop.set()
        heart.join(timeout=5)


@shared_task(name="jobs.reap")
def reap() -> None:
    services.reap()
