"""Whatever is sent, the answer is a problem that says what to do; never a page, never 500."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from tests.fixtures import pages_seed
from tests.fixtures.api import BASE, Program, problem
from webapp.accounts.models import User
from webapp.jobs.models import Job, JobState

pytestmark = pytest.mark.django_db


def raw(caller: Program, method: str, path: str, body: bytes, kind: str = "application/json") -> Any:
    return caller.client.generic(method, BASE + path, body, content_type=kind, headers=caller.headers)


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/environments/", "/tasks/1/nothing", "/environments/1/versions/1/x"]
)
def test_an_address_of_nothing(reader: Program, path: str) -> None:
    problem(reader.get(path), 404)


def test_a_method_that_is_not_answered(reader: Program) -> None:
    for method in ("DELETE", "PATCH", "PUT", "POST", "TRACE"):
        answer = reader.send(method, "/environments")
        problem(answer, 405)
        assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.parametrize(
    "wrong", ["0", "-1", str(2**63), str(2**64), "9" * 400, "x", "1.5", "%00", "1e3", "%F0%9F%98%80", "\u0663x"]
)
def test_ids_that_are_none(reader: Program, wrong: str) -> None:
    for path in (
        "/environments/{}",
        "/tasks/{}",
        "/trajectories/{}/steps/0/state",
        "/jobs/{}",
        "/trajectories/1/steps/{}",
    ):
        found = reader.get(path.format(wrong))
        assert found.status_code in (404, 422)
        problem(found, found.status_code)


@pytest.mark.parametrize(
    "query",
    [
        "q=%00",
        "q=%ED%A0%80",
        "q=" + "x" * 201,
        "limit=0",
        "limit=201",
        "limit=x",
        "limit=" + "9" * 5000,
        "cursor=" + "x" * 3000,
    ],
)
def test_query_strings_that_cannot_be_used(reader: Program, query: str) -> None:
    pages_seed.environment()
    for path in ("/environments", "/tasks"):
        answer = reader.get(f"{path}?{query}")
        assert answer.status_code in (200, 400, 422), answer.content
        if answer.status_code != 200:
            problem(answer, answer.status_code)


BODIES = {
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "closed deep lists": b"[" * 50_000 + b"]" * 50_000,
    "not UTF-8": b'{"name": "\xff\xfe"}',
    "NaN": b'{"name": NaN}',
    "half": b'{"name": ',
    "NUL": b'{"name": "a\\u0000b"}',
    "raw NUL": b'{"name": "a\x00b"}',
    "surrogate": b'{"name": "\\ud800"}',
    "a number": b"7",
    "a list": b"[]",
    "null": b"null",
    "a long number": b'{"name": ' + b"9" * 10_000 + b"}",
    "empty": b"",
}


@pytest.mark.parametrize("what", BODIES)
def test_hostile_bodies(admin: User, what: str) -> None:
    """Where JSON is read, it is refused; where none is, it is not looked at. Every other operation has a key, and over
    the bodies each has one and none."""
    from tests.fixtures.api import program
    from webapp.api import list_operations

    caller = program(admin, "read", "review", "synthesise", "train", "worker", "admin")
    written = [one for one in list_operations() if {"POST", "PUT", "PATCH"} & set(one.methods)]
    assert written
    for number, operation in enumerate(written, list(BODIES).index(what)):
        path = operation.path.replace("{pk}", "999999").replace("{index}", "0")
        headers = {**caller.headers, **({"Idempotency-Key": "a-key"} if number % 2 else {})}
        answer = caller.client.generic(
            operation.methods[0], BASE + path, BODIES[what], content_type="application/json", headers=headers
        )
        assert answer.status_code in (400, 404, 409, 422), (path, answer.status_code, answer.content[:500])
        problem(answer, answer.status_code)


def test_a_body_that_is_too_large(writer: Program, admin: User) -> None:
    from tests.fixtures.api import program

    row = pages_seed.job(JobState.QUEUED)
    large = b" " * (9 * 1024 * 1024)
    headers = {**writer.headers, "Idempotency-Key": "k"}
    answer = writer.client.generic("POST", f"{BASE}/jobs/{row.pk}/cancel", large, "application/json", headers=headers)
    assert problem(answer, 413)["error"]["code"] == "too_large"
    chief = program(admin, "admin")
    answer = raw(chief, "POST", "/endpoints", b'{"name": "' + large + b'"}')
    problem(answer, 413)
    assert Job.objects.get().state == JobState.QUEUED


@pytest.mark.parametrize(
    "kind", ["text/plain", "multipart/form-data", "multipart/form-data; boundary=", "application/xml", "x"]
)
def test_uploads_of_the_wrong_kind(writer: Program, kind: str) -> None:
    answer = raw(writer, "POST", "/imports/environments", b"--x\r\nbroken", kind)
    assert answer.status_code in (400, 422)
    assert "form" in problem(answer, answer.status_code)["detail"] or answer.status_code == 422
    assert not Job.objects.exists()


def test_a_session_reads_but_writes_only_with_its_csrf_token(annotator: User) -> None:
    row = pages_seed.job(JobState.QUEUED)
    client = Client(enforce_csrf_checks=True)
    client.force_login(annotator)
    assert client.get(f"{BASE}/jobs/{row.pk}").status_code == 200
    url = f"{BASE}/jobs/{row.pk}/cancel"
    assert problem(client.post(url), 403)["error"]["code"] == "csrf"
    row.refresh_from_db()
    assert row.state == JobState.QUEUED
    client.get("/account/")
    token = client.cookies[settings.CSRF_COOKIE_NAME].value
    assert client.post(url, headers={"X-CSRFToken": token}).status_code == 200


def test_no_other_origin_is_let_in(reader: Program) -> None:
    answer = reader.get("/jobs", Origin="https://elsewhere.example")
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_a_fault_of_ours_is_a_problem_without_its_details(reader: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.jobs.queries.filter_jobs", lambda state: 1 / 0)
    found = problem(reader.get("/jobs"), 500)
    assert "division" not in json.dumps(found)
    assert found["error"]["type"] == "server_error"


def test_openais_error_stands_beside_the_problem(reader: Program) -> None:
    found = problem(reader.get("/jobs?limit=x"), 422)
    assert found["error"]["param"]
    assert found["errors"][0]["loc"][0] == "query"
    assert found["instance"] == "/api/v1/jobs"
