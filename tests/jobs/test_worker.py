"""Jobs through a real Celery worker process."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from tests.fixtures.processes import ROOT, child_environment, wait_for
from tests.jobs import kinds  # noqa: F401 - registers the kinds
from webapp.common.broker import make_client
from webapp.jobs import services
from webapp.jobs.models import Job, JobLog, JobState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker_process")]

CREATE = """
import time, django
django.setup()
from tests.jobs import kinds
from webapp.jobs import services
began = time.monotonic()
print(services.enqueue_job("tests.count", "Count", {"to": 1}).pk, time.monotonic() - began)
"""


def state(job: Job, *wanted: str) -> Job | None:
    """The row once its state is one of `wanted`."""
    return Job.objects.filter(pk=job.pk, state__in=wanted).first()


def test_a_job_runs_with_progress_log_and_result():
    job = services.enqueue_job("tests.count", "Count", {"to": 3, "pause": 0.3})
    wait_for(lambda: Job.objects.filter(pk=job.pk, done__gte=1, state=JobState.RUNNING).exists(), what="progress")
    done = wait_for(lambda: state(job, JobState.SUCCEEDED), what="the end")
    assert (done.done, done.total, done.attempt) == (3, 3, 1)
    assert done.result["counted"] == 3
    assert done.lease_until is None
    assert JobLog.objects.get(job=job).message == "counted"


def test_a_failing_job_on_the_other_queue_says_why():
    job = services.enqueue_job("tests.fail", "Fail", {})
    done = wait_for(lambda: state(job, JobState.FAILED), what="the failure")
    assert done.error == "ValueError: on purpose"


def test_a_job_that_needs_too_much_memory_fails_at_once_and_says_what_to_do():
    """More than the limit of this worker, and less than any machine gives out unseen."""
    asked = ({"mib": 1_000}, {"mib": 3_000}, {"mib": 3_000, "pieces": True})
    small, *large = (services.enqueue_job("tests.hoard", "Hoard", one) for one in asked)
    for job in large:
        done = wait_for(lambda job=job: state(job, JobState.FAILED), seconds=60, what="the failure")
        assert (done.attempt, "2,048 MiB (ENVARIUM_JOB_MEMORY_MIB)" in done.error) == (1, True)
    wait_for(lambda: state(small, JobState.SUCCEEDED), what="the other one's end")


def test_a_message_reaches_one_queue_only():
    """With one shared exchange every queue would get every message."""
    job = services.enqueue_job("tests.count", "Count", {"to": 1})
    wait_for(lambda: state(job, JobState.SUCCEEDED), what="the end")
    with make_client(django_settings.BROKER_URL) as broker:
        assert broker.llen("gpu") == 0


def test_cancel_stops_a_running_job_and_retry_runs_it_again():
    job = services.enqueue_job("tests.count", "Count", {"to": 1000, "pause": 0.05})
    wait_for(lambda: state(job, JobState.RUNNING), what="the start")
    assert services.cancel_job(job.pk)
    wait_for(lambda: state(job, JobState.CANCELLED), seconds=5, what="the cancellation")
    Job.objects.filter(pk=job.pk).update(payload={"to": 1})
    assert services.retry_job(job.pk)
    done = wait_for(lambda: state(job, JobState.SUCCEEDED), what="the second run")
    assert done.attempt == 2


def test_a_long_step_keeps_its_lease(settings):
    """One step takes longer than the lease; the heartbeat's thread renews it."""
    job = services.enqueue_job("tests.count", "Count", {"to": 1, "pause": settings.JOB_LEASE_SECONDS + 1.5})
    wait_for(lambda: state(job, JobState.RUNNING), what="the start")

    def done_while_reaping() -> Job | None:
        services.reap_jobs()
        return state(job, JobState.SUCCEEDED, JobState.FAILED)

    done = wait_for(done_while_reaping, what="the end")
    assert (done.state, done.attempt, done.lost) == (JobState.SUCCEEDED, 1, 0)


def test_pool_processes_share_no_connection():
    jobs = [services.enqueue_job("tests.connection", "Which", {"hold": 1.0}) for _ in range(2)]
    results = [wait_for(lambda job=job: state(job, JobState.SUCCEEDED), what="a backend").result for job in jobs]
    assert len({result["pid"] for result in results}) == 2
    assert len({result["backend"] for result in results}) == 2


def test_a_job_made_while_the_broker_is_away_is_kept_and_runs_later(tmp_path):
    away = child_environment(BROKER_URL=f"redis+socket://{tmp_path}/none.sock")
    made = subprocess.run(
        [sys.executable, "-c", CREATE], env=away, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60
    )
    pk, seconds = made.stdout.split()
    assert float(seconds) < 2.0, "a page must not hang on a dead broker"
    job = Job.objects.get(pk=pk)
    assert job.state == JobState.QUEUED
    Job.objects.filter(pk=pk).update(woken_at=timezone.now() - services.REQUEUE_AFTER - timedelta(seconds=1))
    assert services.reap_jobs() == 1
    wait_for(lambda: state(job, JobState.SUCCEEDED), what="the late run")
