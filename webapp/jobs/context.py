"""Context of a running job's handler: its claim with progress and log, its payload, and the reasons to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from webapp.jobs.claims import JobClaim
from webapp.jobs.models import Job


class JobContext:
    """Context that a job's handler gets. Every write carries the number of its claim.

    `progress` and `check` raise `Cancelled` if a person asked the job to stop and `StaleClaim` if another worker holds
    the job by now; a handler lets both pass through.
    """

    def __init__(self, claim: JobClaim, payload: dict[str, Any], user_id: int | None) -> None:
        self.claim = claim
        self.payload = payload
        self.user_id = user_id
        self.afterwards: list[Callable[[], None]] = []
        """What to do once the row says that the job succeeded: till then another attempt may need what this removes."""
        self._written = 0.0

    @classmethod
    def of(cls, job: Job) -> JobContext:
        """Build the context of a row that was just claimed."""
        return cls(JobClaim.of(job), job.payload, job.created_by_id)

    @property
    def job_id(self) -> int:
        return self.claim.row

    def check(self) -> None:
        self.claim.check()

    def progress(self, done: int, total: int, note: str = "") -> None:
        """Show how far the job is. Cheap to call for every item: writes at most five times a second."""
        now = time.monotonic()
        if now - self._written < 0.2 and done != total:
            return
        self._written = now
        self.claim.progress(done=done, total=total, note=note)

    def log(self, message: str, level: str = "info") -> None:
        self.claim.log(message, level)
