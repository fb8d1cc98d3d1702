"""The worker is killed in mid-job: the job runs again under the next attempt, and ends once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.processes import celery_worker, wait_for
from tests.jobs import kinds  # noqa: F401 - registers the kinds
from webapp.celery import app
from webapp.jobs import services
from webapp.jobs.models import Job, JobLog, JobState

pytestmark = [pytest.mark.kill, pytest.mark.django_db(transaction=True)]


def reaped(job: Job, *states: str) -> Job | None:
    """What the clock does every few seconds, then the row if it is in one of `states`."""
    services.reap_jobs()
    return ended(job, *states)


def ended(job: Job, *states: str) -> Job | None:
    return Job.objects.filter(pk=job.pk, state__in=states).first()


def test_a_whole_worker_killed_in_mid_job(tmp_path: Path) -> None:
    with celery_worker(tmp_path, "first") as first:
        job = services.enqueue_job("tests.count", "Count", {"to": 8, "pause": 0.5})
        wait_for(lambda: Job.objects.filter(pk=job.pk, done__gte=2).exists(), what="progress")
        first.kill()
    with celery_worker(tmp_path, "second"):
        done = wait_for(lambda: reaped(job, JobState.SUCCEEDED, JobState.FAILED), seconds=40, what="the end")
    assert (done.state, done.attempt, done.lost) == (JobState.SUCCEEDED, 2, 1)
    assert done.result["attempt"] == 2
    assert [line.attempt for line in JobLog.objects.filter(job=job, message="counted")] == [2]


def test_a_pool_process_killed_in_mid_job(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with celery_worker(tmp_path, "one"):
        job = services.enqueue_job("tests.die", "Die once", {"marks": str(marks), "times": 1})
        done = wait_for(lambda: reaped(job, JobState.SUCCEEDED, JobState.FAILED), seconds=40, what="the end")
    assert (done.state, done.attempt) == (JobState.SUCCEEDED, 2)


def test_a_job_that_kills_every_worker_is_given_up(tmp_path: Path, settings) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    settings.JOB_MAX_ATTEMPTS = 3
    with celery_worker(tmp_path, "poisoned"):
        poison = services.enqueue_job("tests.die", "Die always", {"marks": str(marks), "times": 99})
        done = wait_for(lambda: reaped(poison, JobState.FAILED), seconds=60, what="giving up")
        healthy = services.enqueue_job("tests.count", "Count", {"to": 1})
        wait_for(lambda: reaped(healthy, JobState.SUCCEEDED), what="the worker's health")
    assert len(list(marks.iterdir())) == settings.JOB_MAX_ATTEMPTS
    assert "lost 3 times" in done.error


def test_a_job_past_its_time_limit_fails_in_words_and_one_that_is_deaf_to_it_is_killed(tmp_path: Path) -> None:
    """Limits hold though each job has a process of its own, which ends with it."""
    app.finalize()  # as a process that has looked at its tasks: it knows limits of its own, which must not count
    with celery_worker(tmp_path, "limited", "llm", ENVARIUM_JOB_LIMIT_SECONDS="4"):
        late = services.enqueue_job("tests.linger", "Linger", {})
        deaf = services.enqueue_job("tests.linger", "Hear nothing", {"deaf": True})
        # Nothing is reaped so far: on a busy machine a heartbeat comes later than the short lease of the tests.
        failed = wait_for(lambda: ended(late, JobState.FAILED), seconds=40, what="the limit")
        assert (failed.error, failed.attempt) == ("Stopped after its limit of 4 s.", 1)
        again = wait_for(lambda: reaped(deaf, JobState.SUCCEEDED), seconds=60, what="the end after a kill")
        assert (again.attempt, again.lost) == (2, 1)
