"""A worker for the kill test: does batches' jobs on the short pipeline until it is stopped.

python -m tests.batches.engine.lane
"""

from __future__ import annotations

import time

import django

django.setup()

from django.db import connection  # noqa: E402

from tests.batches.support import use_table  # noqa: E402
from webapp.jobs import services  # noqa: E402
from webapp.jobs.jobs import run  # noqa: E402
from webapp.jobs.models import Job, JobState  # noqa: E402


def main() -> None:
    use_table()
    services.wake = lambda job_id, queue: None  # type: ignore[assignment]
    while True:
        services.reap()
        waiting = Job.objects.filter(kind="run_batch", state=JobState.QUEUED).order_by("?").first()
        if waiting is not None:
            run(waiting.pk)
        connection.close()
        time.sleep(0.1)


if __name__ == "__main__":
    main()
