"""Shifts of a batch: intervals in which lanes worked on it, so that its time excludes pauses.

A lane updates its shift every few seconds. If its process is killed, the shift ends at the last update.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.utils import timezone

from webapp.batches.models import Batch, BatchLane, BatchShift, BatchState
from webapp.jobs.claims import JobClaim

Interval = tuple[datetime, datetime]
FRESH = timedelta(seconds=10)
"""A shift of a running batch that was seen so lately still goes on."""


def begin_shift(claim: JobClaim, batch: int) -> None:
    now = timezone.now()
    defaults = {"batch_id": batch, "began_at": now, "seen_at": now}
    BatchShift.objects.get_or_create(job_id=claim.row, attempt=claim.number, defaults=defaults)


def extend_shift(claim: JobClaim) -> None:
    """Record that the lane is alive. A lane whose job another process has taken over records nothing."""
    if claim.held().exists():
        BatchShift.objects.filter(job_id=claim.row, attempt=claim.number).update(seen_at=timezone.now())


def count_worked_seconds(batch: Batch) -> float | None:
    """Return the seconds in which at least one lane worked on a batch; None if none ever did."""
    intervals = list(batch.shifts.values_list("began_at", "seen_at"))
    if not intervals:
        intervals = _find_job_times(batch)
    if not intervals:
        return None
    now = timezone.now()
    if batch.state == BatchState.RUNNING:
        intervals = [(began, now if now - seen < FRESH else seen) for began, seen in intervals]
    return sum_intervals(intervals)


def _find_job_times(batch: Batch) -> list[Interval]:
    """Return the times of the jobs of a batch without shifts, because it is older than shifts are."""
    times = BatchLane.objects.filter(batch=batch, job__started_at__isnull=False).values_list(
        "job__started_at", "job__finished_at", "job__heartbeat_at"
    )
    return [(began, ended) for began, finished, seen in times if began and (ended := finished or seen)]


def sum_intervals(intervals: Iterable[Interval]) -> float:
    """Return the seconds that lie in at least one of the intervals."""
    total, until = 0.0, None
    for began, ended in sorted(intervals):
        if until is None or began > until:
            total += max(0.0, (ended - began).total_seconds())
            until = max(began, ended)
        elif ended > until:
            total += (ended - until).total_seconds()
            until = ended
    return total
