"""Writes on jobs. Claims and results are conditional updates, so that two workers never both hold one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from synthesis.errors import EnvariumError
from webapp.jobs.models import OPEN_STATES, Job, JobLog, JobState
from webapp.jobs.registry import KINDS

REQUEUE_AFTER = timedelta(seconds=60)


class StaleAttempt(EnvariumError):
    """Another worker holds this job by now; what this one would write is refused."""


class Cancelled(EnvariumError):
    """A person asked the job to stop."""


def wake(job_id: int, queue: str) -> None:
    """Tell Celery to look at the row. Losing this message is harmless: the reaper sends it again."""
    from webapp.jobs.jobs import run  # the task module imports this one

    run.apply_async(args=[job_id], queue=queue)


def create(kind: str, title: str, payload: dict[str, Any], user: Any = None) -> Job:
    """Write a job row and wake a worker once the transaction is committed."""
    queue = KINDS[kind].queue
    job = Job.objects.create(kind=kind, queue=queue, title=title[:200], payload=payload, created_by=user)
    transaction.on_commit(lambda: wake(job.pk, queue))
    return job


def claim(job_id: int, worker: str) -> Job | None:
    """Take a queued job, or one whose lease is over, under the next attempt number; None if it is not free."""
    now = timezone.now()
    free = Q(state=JobState.QUEUED) | Q(state=JobState.RUNNING, lease_until__lt=now)
    taken = Job.objects.filter(free, pk=job_id).update(
        state=JobState.RUNNING,
        attempt=F("attempt") + 1,
        worker=worker[:200],
        lease_until=now + timedelta(seconds=settings.JOB_LEASE_SECONDS),
        heartbeat_at=now,
        started_at=now,
        error="",
    )
    return Job.objects.get(pk=job_id) if taken else None


def held(job_id: int, attempt: int) -> QuerySet[Job]:
    return Job.objects.filter(pk=job_id, attempt=attempt, state=JobState.RUNNING)


def heartbeat(job_id: int, attempt: int) -> bool:
    """Renew the lease. False when the attempt is stale."""
    now = timezone.now()
    until = now + timedelta(seconds=settings.JOB_LEASE_SECONDS)
    return bool(held(job_id, attempt).update(lease_until=until, heartbeat_at=now))


def guard(job_id: int, attempt: int) -> None:
    row = held(job_id, attempt).values_list("cancel_requested", flat=True).first()
    if row is None:
        raise StaleAttempt(f"Job {job_id}: attempt {attempt} no longer holds it.")
    if row:
        raise Cancelled(f"Job {job_id} was asked to stop.")


def progress(job_id: int, attempt: int, *, done: int, total: int, note: str) -> None:
    held(job_id, attempt).update(done=done, total=total, note=note[:300])
    guard(job_id, attempt)


def log(job_id: int, attempt: int, message: str, level: str = "info") -> None:
    JobLog.objects.create(job_id=job_id, attempt=attempt, level=level, message=message[:10_000])


def finish(job_id: int, attempt: int, state: JobState, *, result: Any = None, error: str = "") -> bool:
    """Close the row under its attempt. False, and nothing written, when the attempt is stale."""
    return bool(
        held(job_id, attempt).update(
            state=state, result=result, error=error[:10_000], finished_at=timezone.now(), lease_until=None
        )
    )


def cancel(job_id: int) -> bool:
    """Ask a job to stop: a queued one ends at once, a running one at its next look at the flag."""
    now = timezone.now()
    if Job.objects.filter(pk=job_id, state=JobState.QUEUED).update(
        state=JobState.CANCELLED, cancel_requested=True, finished_at=now
    ):
        return True
    return bool(Job.objects.filter(pk=job_id, state=JobState.RUNNING).update(cancel_requested=True))


def retry(job_id: int) -> bool:
    """Queue a failed or cancelled job again, from its payload."""
    with transaction.atomic():
        again = Job.objects.filter(pk=job_id, state__in=[JobState.FAILED, JobState.CANCELLED]).update(
            state=JobState.QUEUED, cancel_requested=False, error="", finished_at=None, done=0, note=""
        )
        if again:
            job = Job.objects.get(pk=job_id)
            transaction.on_commit(lambda: wake(job.pk, job.queue))
    return bool(again)


def reap() -> int:
    """Wake jobs that nobody holds: leases that are over, and queued rows whose message was lost.

    A job that lost its worker `JOB_MAX_ATTEMPTS` times fails with that reason instead of a fourth try.
    """
    now = timezone.now()
    over = Job.objects.filter(state=JobState.RUNNING, lease_until__lt=now)
    over.filter(attempt__gte=settings.JOB_MAX_ATTEMPTS).update(
        state=JobState.FAILED,
        finished_at=now,
        error=f"The worker was lost {settings.JOB_MAX_ATTEMPTS} times while it ran this job. "
        "Look at the worker's log for why, then press Retry.",
    )
    woken = 0
    lost = Q(state=JobState.RUNNING, lease_until__lt=now) | Q(
        state=JobState.QUEUED, created_at__lt=now - REQUEUE_AFTER
    )
    for pk, queue in Job.objects.filter(lost, state__in=OPEN_STATES).values_list("pk", "queue")[:500]:
        wake(pk, queue)
        woken += 1
    return woken
