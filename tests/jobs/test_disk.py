"""A disk without room: jobs wait instead of failing, pages and the API say so, and all goes on afterwards."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest
from django.db import OperationalError
from django.test import Client
from psycopg.errors import DiskFull

from synthesis.errors import InfrastructureError
from tests.fixtures.api import problem, program
from tests.fixtures.pages_seed import person
from tests.jobs import kinds  # noqa: F401 - registers the kinds
from webapp.common import disk
from webapp.jobs import services
from webapp.jobs.jobs import execute_job
from webapp.jobs.models import Job, JobState
from webapp.jobs.registry import KINDS, JobKind

pytestmark = pytest.mark.django_db


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Bytes that are free, to be changed."""
    free = [1 << 40]
    monkeypatch.setattr(disk, "count_free_bytes", lambda _folder: free[0])
    monkeypatch.setattr(disk, "LOOK_SECONDS", -1.0)
    yield free
    monkeypatch.undo()
    disk._seen = None


def full_database() -> Exception:
    try:
        try:
            raise DiskFull("could not extend file")
        except DiskFull as error:
            raise OperationalError(str(error)) from error
    except OperationalError as error:
        return error


def wrapped() -> Exception:
    try:
        raise OSError(errno.ENOSPC, "No space left on device")
    except OSError as error:
        found = InfrastructureError("cannot be written")
        found.__cause__ = error
        return found


def test_no_job_begins_without_room_and_it_begins_as_soon_as_there_is(room: list[int]) -> None:
    job = services.enqueue_job("tests.count", "Count", {"to": 0})
    room[0] = 1 << 20
    assert services.claim_job(job.pk, "here") is None
    assert services.reap_jobs() == 0
    job.refresh_from_db()
    assert (job.state, job.attempt, job.lost) == (JobState.QUEUED, 0, 0)
    room[0] = 1 << 40
    assert services.reap_jobs() == 1
    assert services.claim_job(job.pk, "here") is not None


@pytest.mark.parametrize("make", [full_database, wrapped])
def test_a_job_that_finds_the_disk_full_is_queued_again(make, monkeypatch: pytest.MonkeyPatch) -> None:
    def handler(context: object) -> None:
        raise make()

    monkeypatch.setitem(KINDS, "tests.full", JobKind("tests.full", "llm", handler))
    claimed = services.claim_job(services.enqueue_job("tests.full", "Full", {}).pk, "here")
    assert claimed is not None
    execute_job(claimed)
    claimed.refresh_from_db()
    assert (claimed.state, claimed.error, claimed.lost) == (JobState.QUEUED, "", 0)
    assert "when there is room" in claimed.note


def test_every_page_and_the_health_page_say_it(room: list[int], client: Client) -> None:
    client.force_login(person("viewer"))
    assert b"The disk is almost full" not in client.get("/").content
    room[0] = 100 << 20
    assert b"The disk is almost full" in Client().get("/account/login/").content
    for path in ("/", "/tasks/", "/jobs/"):
        assert b"The disk is almost full: 100 MiB are free" in client.get(path).content
    told = client.get("/healthz").json()
    assert (told["disk"]["ok"], told["disk"]["free_mib"], told["status"] == "ok") == (False, 100, False)


def test_an_answer_that_could_not_be_written_says_why(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **named: object) -> None:
        raise full_database()

    monkeypatch.setattr("webapp.jobs.job_views.services.cancel_job", fail)
    monkeypatch.setattr("webapp.jobs.api.services.cancel_job", fail)
    job = services.enqueue_job("tests.count", "Count", {"to": 0})
    operator = person("operator")
    client.force_login(operator)
    answer = client.post(f"/jobs/{job.pk}/cancel")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert b"nothing was saved" in answer.content
    refused = problem(program(operator, "read", "synthesise").post(f"/jobs/{job.pk}/cancel"), 503)
    assert "disk of this installation is full" in refused["detail"]
    assert Job.objects.get(pk=job.pk).state == JobState.QUEUED
