"""What a running handler holds: progress, log and the two reasons to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from webapp.jobs import services


class JobContext:
    """Handed to a job's handler. Every write carries the attempt number of this claim.

    `progress` and `check` raise `services.Cancelled` when a person asked to stop and `services.StaleAttempt`
    when another worker holds the job by now; a handler lets both pass through.
    """

    def __init__(self, job_id: int, attempt: int, payload: dict[str, Any], user_id: int | None) -> None:
        self.job_id = job_id
        self.attempt = attempt
        self.payload = payload
        self.user_id = user_id
        self.afterwards: list[Callable[[], None]] = []
        """What to do once the row says that the job succeeded: till then another attempt may need what this removes."""
        self._written = 0.0

    def check(self) -> None:
        services.guard(self.job_id, self.attempt)

    def progress(self, done: int, total: int, note: str = "") -> None:
        """Show how far the job is. Cheap to call for every item: writes at most five times a second."""
        now = time.monotonic()
        if now - self._written < 0.2 and done != total:
            return
        self._written = now
        services.progress(self.job_id, self.attempt, done=done, total=total, note=note)

    def log(self, message: str, level: str = "info") -> None:
        services.log(self.job_id, self.attempt, message, level)
