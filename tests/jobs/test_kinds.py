"""Kinds of jobs in a process that imported nothing but what it calls."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fixtures.processes import ROOT, child_environment
from webapp.jobs.models import Job, JobState

GROUP = "from webapp.taxonomy.near_duplicates.services import start_grouping; print(start_grouping(None, 0.9).pk)"


@pytest.mark.django_db(transaction=True)
def test_a_service_creates_its_job_from_a_plain_shell() -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", GROUP],
        cwd=ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    job = Job.objects.get(pk=int(done.stdout))
    assert (job.kind, job.queue, job.state != JobState.FAILED) == ("group_themes", "llm", True)
