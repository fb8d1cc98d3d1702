"""Claims of background jobs: what their holder writes, and the two reasons to stop."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Case, F, PositiveSmallIntegerField, When
from django.utils import timezone

from synthesis.errors import EnvariumError
from webapp.common.claims import Claim
from webapp.common.events.services import publish_topics
from webapp.jobs.models import Job, JobLog, JobState
from webapp.jobs.queries import build_result_view, has_made_nothing


class Cancelled(EnvariumError):
    """A person asked the job to stop."""


@dataclass(frozen=True)
class JobClaim(Claim[Job]):
    """Hold of a background job. Its writes change nothing once another worker holds the job."""

    model = Job

    @classmethod
    def of(cls, job: Job) -> JobClaim:
        """Return the claim that a row was taken under."""
        return cls(job.pk, job.attempt)

    def check(self) -> None:
        """Raise StaleClaim if the claim is stale, Cancelled if the job was asked to stop."""
        cancel_requested = self.held().values_list("cancel_requested", flat=True).first()
        if cancel_requested is None:
            raise self.stale()
        if cancel_requested:
            raise Cancelled(f"Job {self.row} was asked to stop.")

    def renew(self) -> bool:
        """Renew the lease. Return False if the claim is stale."""
        now = timezone.now()
        return bool(self.held().update(lease_until=now + get_lease_duration(), heartbeat_at=now))

    def progress(self, *, done: int, total: int, note: str) -> None:
        """Store the progress. Raises as `check`."""
        self.held().update(done=done, total=total, note=note[:300])
        self.check()

    def log(self, message: str, level: str = "info") -> None:
        JobLog.objects.create(job_id=self.row, attempt=self.number, level=level, message=message[:10_000])

    def give_back(self, reason: str) -> bool:
        """Queue the job again without counting a loss. Return False if the claim is stale."""
        updated = self.held().update(
            state=JobState.QUEUED, lease_until=None, woken_at=timezone.now(), note=reason[:300]
        )
        if updated:
            publish_topics([f"job:{self.row}"])
        return bool(updated)

    def let_go(self) -> bool:
        """Leave the job to the reaper, which counts a loss and queues it again. Return False if the claim is stale."""
        return bool(self.held().update(lease_until=timezone.now()))

    def advance(self, done: int, total: int) -> None:
        """Store how much is permanently done, whichever attempt continues; progress beyond the stored value resets
        `lost`."""
        lost = Case(When(done__lt=done, then=0), default=F("lost"), output_field=PositiveSmallIntegerField())
        self.held().update(done=done, total=total, lost=lost)

    def finish(self, state: JobState, *, result: Any = None, error: str = "") -> bool:
        """Close the row and notify its subscribers. Return False, and write nothing, if the claim is stale."""
        kind = self.held().values_list("kind", flat=True).first() if state == JobState.SUCCEEDED else None
        ended = self.held().update(
            state=state,
            result=result,
            nothing_made=kind is not None and has_made_nothing(kind, build_result_view(result)),
            error=error[:10_000],
            finished_at=timezone.now(),
            lease_until=None,
        )
        if ended:
            publish_topics([f"job:{self.row}"])
        return bool(ended)


def get_lease_duration() -> timedelta:
    return timedelta(seconds=settings.JOB_LEASE_SECONDS)
