"""Claims of background jobs: what their holder writes, and the two reasons to stop."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Case, F, PositiveSmallIntegerField, When
from django.utils import timezone

from synthesis.errors import EnvariumError
from webapp.claims import Claim
from webapp.events.services import publish
from webapp.jobs.models import Job, JobLog, JobState
from webapp.jobs.queries import came_to_nothing, result_view


class Cancelled(EnvariumError):
    """A person asked the job to stop."""


@dataclass(frozen=True)
class JobClaim(Claim[Job]):
    """The hold of a background job. Its writes change nothing once another worker holds the job."""

    model = Job

    @classmethod
    def of(cls, job: Job) -> JobClaim:
        """The claim that a row was taken under."""
        return cls(job.pk, job.attempt)

    def check(self) -> None:
        """Raises StaleClaim, and Cancelled where the job was asked to stop."""
        cancel_requested = self.held().values_list("cancel_requested", flat=True).first()
        if cancel_requested is None:
            raise self.stale()
        if cancel_requested:
            raise Cancelled(f"Job {self.row} was asked to stop.")

    def renew(self) -> bool:
        """Renew the lease. False when the claim is stale."""
        now = timezone.now()
        return bool(self.held().update(lease_until=now + lease(), heartbeat_at=now))

    def progress(self, *, done: int, total: int, note: str) -> None:
        """Raises as `check`."""
        self.held().update(done=done, total=total, note=note[:300])
        self.check()

    def log(self, message: str, level: str = "info") -> None:
        JobLog.objects.create(job_id=self.row, attempt=self.number, level=level, message=message[:10_000])

    def give_back(self, reason: str) -> bool:
        """Queue the job again, as if nobody had begun it. False when the claim is stale."""
        given = self.held().update(state=JobState.QUEUED, lease_until=None, woken_at=timezone.now(), note=reason[:300])
        if given:
            publish([f"job:{self.row}"])
        return bool(given)

    def let_go(self) -> bool:
        """Leave the job to the reaper, which counts a loss and queues it again. False when the claim is stale."""
        return bool(self.held().update(lease_until=timezone.now()))

    def advance(self, done: int, total: int) -> None:
        """Note how much is done for good, whoever goes on: with more of it, losses before are forgiven."""
        lost = Case(When(done__lt=done, then=0), default=F("lost"), output_field=PositiveSmallIntegerField())
        self.held().update(done=done, total=total, lost=lost)

    def finish(self, state: JobState, *, result: Any = None, error: str = "") -> bool:
        """Close the row and tell who follows. False, and nothing written, when the claim is stale."""
        kind = self.held().values_list("kind", flat=True).first() if state == JobState.SUCCEEDED else None
        ended = self.held().update(
            state=state,
            result=result,
            nothing_made=kind is not None and came_to_nothing(kind, result_view(result)),
            error=error[:10_000],
            finished_at=timezone.now(),
            lease_until=None,
        )
        if ended:
            publish([f"job:{self.row}"])
        return bool(ended)


def lease() -> timedelta:
    return timedelta(seconds=settings.JOB_LEASE_SECONDS)
