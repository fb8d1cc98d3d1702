"""Creation, claims, cancellation, retries and reaping of jobs, all by conditional updates: no two workers hold one."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from kombu.exceptions import OperationalError

from synthesis.errors import InputError
from webapp.accounts.services import write_audit_entry
from webapp.celery import app
from webapp.common.disk import get_disk
from webapp.common.events.services import publish_topics
from webapp.jobs.claims import get_lease_duration
from webapp.jobs.models import RETRIED_STATES, Job, JobState
from webapp.jobs.registry import KINDS

logger = logging.getLogger(__name__)

REQUEUE_AFTER = timedelta(seconds=60)
"""A queued row is woken again after so long. A second message for a row costs a worker one cheap look."""
REST = timedelta(seconds=5)
"""A job that is lost twice in a row rests so long, then twice as long each time: what ends workers may be over then."""
REAP_AT_ONCE = 500


class FailedWithResult(InputError):
    """Failure of the work because of its input; the row keeps `result`, which says where and why."""

    def __init__(self, message: str, result: dict[str, Any]) -> None:
        super().__init__(message)
        self.result = result


def wake_job(job_id: int, queue: str) -> None:
    """Ask Celery to look at the row. Losing this message is harmless: the reaper sends it again.

    Time limits are the worker's: without the two None, those that the sender read from its own tasks would apply.
    """
    limits: dict[str, Any] = {"time_limit": None, "soft_time_limit": None}
    try:
        app.send_task("jobs.run", args=[job_id], queue=queue, retry=False, **limits)
    except OperationalError as error:
        logger.warning("job %s waits for the broker: %s", job_id, error)


@transaction.atomic
def enqueue_job(kind: str, title: str, payload: dict[str, Any], user: Any = None, *, subject: str = "") -> Job:
    """Write a job row and wake a worker once the transaction is committed. A start by a person is in the audit log.

    `subject` is what the job works on, spelled as `Job.subject`: the job is found by it.
    """
    queue = KINDS[kind].queue
    job = Job.objects.create(
        kind=kind,
        queue=queue,
        title=title[:200],
        subject=subject,
        payload=payload,
        created_by=user,
        woken_at=timezone.now(),
    )
    if user is not None:
        write_audit_entry(user, "job.start", job, kind=kind)
    transaction.on_commit(lambda: wake_job(job.pk, queue))
    return job


def claim_job(job_id: int, worker: str) -> Job | None:
    """Take a queued job under the next attempt number; return None if it is not free.

    A job whose lease has expired is not free either: the reaper queues it first, and counts that. While the disk is
    almost full no job is taken; the reaper wakes them once there is space.
    """
    if get_disk().is_short:
        Job.objects.filter(pk=job_id, state=JobState.QUEUED).update(woken_at=None)
        return None
    now = timezone.now()
    taken = Job.objects.filter(pk=job_id, state=JobState.QUEUED).update(
        state=JobState.RUNNING,
        attempt=F("attempt") + 1,
        worker=worker[:200],
        lease_until=now + get_lease_duration(),
        heartbeat_at=now,
        started_at=now,
        error="",
    )
    return Job.objects.get(pk=job_id) if taken else None


@transaction.atomic
def cancel_job(job_id: int, user: Any = None) -> bool:
    """Ask a job to stop: a queued one ends at once, a running one when it next checks the flag."""
    queued = Job.objects.filter(pk=job_id, state=JobState.QUEUED)
    is_updated = queued.update(state=JobState.CANCELLED, cancel_requested=True, finished_at=timezone.now())
    if is_updated:
        close_jobs([job_id])
    is_updated = is_updated or Job.objects.filter(pk=job_id, state=JobState.RUNNING).update(cancel_requested=True)
    if is_updated and user is not None:
        write_audit_entry(user, "job.cancel", Job.objects.get(pk=job_id))
    return bool(is_updated)


def close_jobs(job_ids: Iterable[int]) -> None:
    """Tidy up after jobs that ended without their handler, and notify their subscribers."""
    ended = list(Job.objects.filter(pk__in=list(job_ids)).values_list("pk", "kind"))
    for pk, kind in ended:
        closing = KINDS[kind].closing if kind in KINDS else None
        if closing is not None:
            closing(pk)
    publish_topics([f"job:{pk}" for pk, _kind in ended])


def retry_job(job_id: int, user: Any = None) -> bool:
    """Queue a failed or cancelled job again, from its payload."""
    with transaction.atomic():
        is_updated = Job.objects.filter(pk=job_id, state__in=RETRIED_STATES).update(
            state=JobState.QUEUED,
            cancel_requested=False,
            error="",
            finished_at=None,
            done=0,
            note="",
            lost=0,
            woken_at=timezone.now(),
        )
        if is_updated:
            job = Job.objects.get(pk=job_id)
            if user is not None:
                write_audit_entry(user, "job.retry", job)
            transaction.on_commit(lambda: wake_job(job.pk, job.queue))
    return bool(is_updated)


def _get_woken_at(lost: int, now: datetime) -> datetime | None:
    """Return the `woken_at` of a lost row: it is woken at once after its first loss, and after a growing rest later."""
    if lost < 2:
        return None
    return now - REQUEUE_AFTER + min(REST * 2 ** (lost - 2), REQUEUE_AFTER)


def reap_jobs() -> int:
    """Queue and wake jobs without a holder: expired leases, and queued rows whose message was lost.

    A job that lost its worker `JOB_MAX_ATTEMPTS` times fails with that reason instead of another try, and one that was
    asked to stop ends as cancelled. Return how many were woken: none while the disk is almost full.
    """
    if get_disk().is_short:
        return 0
    now = timezone.now()
    over = Job.objects.filter(state=JobState.RUNNING, lease_until__lt=now)
    given_up = Q(cancel_requested=True) | Q(lost__gte=settings.JOB_MAX_ATTEMPTS - 1)
    # Listed before the updates, after which the rows match `over` no more.
    ended = list(over.filter(given_up).values_list("pk", flat=True))
    over.filter(cancel_requested=True).update(state=JobState.CANCELLED, finished_at=now, lease_until=None)
    over.filter(lost__gte=settings.JOB_MAX_ATTEMPTS - 1).update(
        state=JobState.FAILED,
        finished_at=now,
        lease_until=None,
        lost=F("lost") + 1,
        error=f"The worker was lost {settings.JOB_MAX_ATTEMPTS} times while it ran this job, which got no further. "
        "Look at the worker's log for why, then press Retry.",
    )
    for lost in {1 + before for before in over.values_list("lost", flat=True)}:
        rested = over.filter(lost=lost - 1)
        rested.update(state=JobState.QUEUED, lost=lost, lease_until=None, woken_at=_get_woken_at(lost, now))
    close_jobs(ended)
    silent = Q(woken_at__isnull=True) | Q(woken_at__lt=now - REQUEUE_AFTER)
    waiting = list(
        Job.objects.filter(silent, state=JobState.QUEUED).order_by("pk").values_list("pk", "queue")[:REAP_AT_ONCE]
    )
    Job.objects.filter(pk__in=[pk for pk, _queue in waiting]).update(woken_at=now)
    for pk, queue in waiting:
        wake_job(pk, queue)
    return len(waiting)
