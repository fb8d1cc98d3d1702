"""Job rows without a worker: who may claim, write, cancel, retry; what the reaper does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import Error, connection, transaction
from django.db.models import F
from django.utils import timezone

from tests.fixtures.api import problem, program
from tests.fixtures.pages_seed import person
from tests.jobs import kinds  # noqa: F401 - registers the kinds
from webapp.common.claims import StaleClaim
from webapp.common.database.connections import is_away
from webapp.jobs import services
from webapp.jobs.claims import JobClaim
from webapp.jobs.context import JobContext
from webapp.jobs.jobs import execute_job
from webapp.jobs.models import Job, JobLog, JobState
from webapp.jobs.registry import KINDS, JobKind

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Messages to the broker, recorded instead of sent."""
    sent: list[tuple[int, str]] = []
    monkeypatch.setattr(services, "wake_job", lambda pk, queue: sent.append((pk, queue)))
    return sent


def make(to: int = 1) -> Job:
    return services.enqueue_job("tests.count", "Count", {"to": to})


def expire(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def take(job: Job) -> Job:
    taken = services.claim_job(job.pk, "here:1")
    assert taken is not None
    return taken


def test_a_job_is_woken_when_its_transaction_commits(woken, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        job = make()
        assert woken == []
    assert woken == [(job.pk, "llm")]


def test_only_one_worker_gets_a_job():
    job = make()
    first = take(job)
    assert (first.attempt, first.state) == (1, JobState.RUNNING)
    assert services.claim_job(job.pk, "there:2") is None
    job.refresh_from_db()
    assert job.worker == "here:1"


def test_a_lease_that_is_over_is_queued_by_the_reaper_and_claimed_under_the_next_attempt(woken):
    job = take(make())
    expire(job)
    assert services.claim_job(job.pk, "there:2") is None
    assert services.reap_jobs() == 1
    assert woken == [(job.pk, "llm")]
    again = services.claim_job(job.pk, "there:2")
    assert again is not None
    assert (again.attempt, again.lost) == (2, 1)


def test_a_stale_claim_writes_nothing():
    job = take(make())
    expire(job)
    services.reap_jobs()
    second = take(job)
    assert not JobClaim(job.pk, 1).renew()
    assert not JobClaim(job.pk, 1).finish(JobState.SUCCEEDED, result={"old": True})
    with pytest.raises(StaleClaim):
        JobClaim(job.pk, 1).progress(done=5, total=9, note="old")
    second.refresh_from_db()
    assert (second.state, second.result, second.done, second.note) == (JobState.RUNNING, None, 0, "")
    assert JobClaim(job.pk, 2).finish(JobState.SUCCEEDED, result={"new": True})


def test_a_heartbeat_keeps_the_lease():
    job = take(make())
    expire(job)
    assert JobClaim(job.pk, 1).renew()
    assert services.reap_jobs() == 0
    job.refresh_from_db()
    assert job.state == JobState.RUNNING
    assert job.lease_until is not None
    assert job.lease_until > timezone.now()


def test_a_job_whose_worker_dies_every_time_fails_and_a_retry_counts_anew(settings, woken):
    job = make()
    for attempt in range(1, settings.JOB_MAX_ATTEMPTS + 1):
        assert take(job).attempt == attempt
        expire(job)
        services.reap_jobs()
    job.refresh_from_db()
    assert job.state == JobState.FAILED
    assert f"lost {settings.JOB_MAX_ATTEMPTS} times" in job.error
    assert len(woken) == 1, "the first time at once; then it rests"
    assert services.retry_job(job.pk)
    assert take(job).attempt == settings.JOB_MAX_ATTEMPTS + 1
    expire(job)
    services.reap_jobs()
    job.refresh_from_db()
    assert (job.state, job.lost) == (JobState.QUEUED, 1)


def test_a_job_that_is_lost_again_rests_before_it_is_woken(woken):
    job = make()
    for _ in range(3):
        take(job)
        expire(job)
        services.reap_jobs()
    assert len(woken) == 1
    for rest, messages in ((2 * services.REST - timedelta(seconds=2), 1), (timedelta(seconds=2), 2)):
        Job.objects.filter(pk=job.pk).update(woken_at=F("woken_at") - rest)
        services.reap_jobs()
        assert len(woken) == messages


def test_losses_are_forgiven_to_a_job_that_gets_further_and_to_no_other(settings, woken):
    job = make()
    for done in [1, 2, 3, 4, *[4] * (settings.JOB_MAX_ATTEMPTS - 1)]:
        job.refresh_from_db()
        assert job.state == JobState.QUEUED, done
        JobClaim.of(take(job)).advance(done, 9)
        expire(job)
        services.reap_jobs()
    job.refresh_from_db()
    assert job.state == JobState.FAILED


def end_connection(*_: object) -> dict[str, Any]:
    """As a server does that goes down. Raises OperationalError."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    return {}


@pytest.mark.django_db(transaction=True)
def test_a_job_whose_database_goes_away_begins_again(monkeypatch, woken):
    monkeypatch.setitem(KINDS, "tests.count", JobKind("tests.count", "llm", end_connection))
    job = make()
    execute_job(take(job))
    services.reap_jobs()
    job.refresh_from_db()
    assert (job.state, job.lost, job.error) == (JobState.QUEUED, 1, "")
    assert woken == [(job.pk, "llm")] * 2


@pytest.mark.django_db(transaction=True)
def test_who_asks_while_the_database_goes_away_is_told_to_try_again(client, monkeypatch):
    operator, job = person("operator"), make()
    client.force_login(operator)
    caller = program(operator, "read", "synthesise")
    monkeypatch.setattr(services, "cancel_job", end_connection)
    answer = client.post(f"/jobs/{job.pk}/cancel")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert b"database does not answer just now" in answer.content
    connection.close()
    assert "database does not answer just now" in problem(caller.post(f"/jobs/{job.pk}/cancel"), 503)["detail"]
    connection.close()


def test_what_a_database_refuses_is_not_taken_for_its_absence():
    def refused(statement: str) -> Exception:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(statement)
        except Error as error:
            return error
        raise AssertionError(statement)

    assert not is_away(refused("SELECT 1 / 0"))
    assert not is_away(refused("SET LOCAL statement_timeout = 20; SELECT pg_sleep(9)"))


def test_cancelling_a_queued_job_ends_it():
    job = make()
    assert services.cancel_job(job.pk)
    assert services.claim_job(job.pk, "here:1") is None
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED
    assert job.finished_at is not None


def test_a_running_handler_meets_the_flag():
    job = take(make(to=50))
    assert services.cancel_job(job.pk)
    execute_job(job)
    job.refresh_from_db()
    assert (job.state, job.result) == (JobState.CANCELLED, None)


def test_a_cancelled_job_whose_worker_died_is_not_run_again(woken):
    job = take(make())
    services.cancel_job(job.pk)
    expire(job)
    assert services.reap_jobs() == 0
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED
    assert woken == []


def test_a_finished_job_cannot_be_cancelled_or_retried():
    job = take(make())
    JobClaim(job.pk, 1).finish(JobState.SUCCEEDED, result={})
    assert not services.cancel_job(job.pk)
    assert not services.retry_job(job.pk)
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED


def test_the_reaper_wakes_a_lost_message_once_a_minute_and_no_fresh_one(woken):
    old, fresh = make(), make()
    Job.objects.filter(pk=old.pk).update(woken_at=timezone.now() - services.REQUEUE_AFTER * 2)
    assert services.reap_jobs() == 1
    assert services.reap_jobs() == 0
    assert woken == [(old.pk, "llm")]
    assert fresh.pk != old.pk


def test_a_handler_that_raises_fails_with_the_reason():
    job = services.enqueue_job("tests.fail", "Fail", {})
    execute_job(take(job))
    job.refresh_from_db()
    assert (job.state, job.error) == (JobState.FAILED, "ValueError: on purpose")


def test_a_kind_that_is_not_installed_fails_with_its_name():
    job = Job.objects.create(kind="gone.kind", queue="llm", title="Gone")
    execute_job(take(job))
    job.refresh_from_db()
    assert job.state == JobState.FAILED
    assert "'gone.kind'" in job.error


def test_progress_is_written_at_most_five_times_a_second_and_always_at_the_end():
    job = take(make())
    context = JobContext.of(job)
    for done in range(0, 101):
        context.progress(done, 100, f"{done}")
    job.refresh_from_db()
    assert (job.done, job.total, job.note) == (100, 100, "100")


def test_a_log_line_names_its_attempt():
    job = take(make())
    JobContext.of(job).log("hello", "warning")
    line = JobLog.objects.get(job=job)
    assert (line.attempt, line.level, line.message) == (1, "warning", "hello")
