from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.utils import timezone

from tests.fixtures import pages_seed
from tests.fixtures.api import BASE, Program, problem, program
from webapp.accounts.models import IdempotentReply, User
from webapp.jobs.models import Job, JobState

pytestmark = pytest.mark.django_db


def upload(caller: Program, content: bytes = b"[1]", key: str = "", **fields: str) -> Any:
    headers = {**caller.headers, **({"Idempotency-Key": key} if key else {})}
    file = SimpleUploadedFile("envs.json", content, "application/json")
    return caller.client.post(f"{BASE}/imports/environments", {"environments": file, **fields}, headers=headers)


def test_an_import_becomes_a_job_of_the_tokens_owner(writer: Program, annotator: User) -> None:
    answer = upload(writer)
    assert answer.status_code == 202
    row = Job.objects.get()
    assert answer.json()["id"] == row.pk
    assert row.created_by == annotator
    assert writer.get(f"/jobs/{row.pk}").json()["state"] == "queued"
    assert row.payload["frames"] is False
    assert upload(writer, frames="true").status_code == 202
    assert Job.objects.latest("pk").payload["frames"] is True
    assert "empty" in problem(upload(writer, b""), 422)["detail"]


def test_the_same_key_and_body_happen_once(writer: Program) -> None:
    first, second = upload(writer, key="k-1"), upload(writer, key="k-1")
    assert Job.objects.count() == 1
    assert second.status_code == first.status_code == 202
    assert second.json() == first.json()
    assert second.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert problem(upload(writer, b"[2]", key="k-1"), 422)["error"]["code"] == "key_reused"
    assert upload(writer, key="k-2").status_code == 202
    assert Job.objects.count() == 2


def test_a_key_belongs_to_a_person_and_lasts_a_day(writer: Program, admin: User) -> None:
    upload(writer, key="k")
    other = program(admin, "synthesise")
    assert "Idempotency-Replayed" not in upload(other, key="k").headers
    IdempotentReply.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert "Idempotency-Replayed" not in upload(writer, b"[3]", key="k").headers
    assert Job.objects.count() == 3
    assert IdempotentReply.objects.count() == 1, "what is over is removed"


def test_a_refused_request_leaves_its_key_free(writer: Program) -> None:
    problem(upload(writer, b"", key="k"), 422)
    assert not IdempotentReply.objects.exists()
    assert upload(writer, key="k").status_code == 202
    for key in ("\u00e9", "x" * 201):
        problem(upload(writer, key=key), 400)


def test_an_answer_is_not_repeated_to_who_lost_the_right(writer: Program, annotator: User) -> None:
    upload(writer, key="k")
    User.objects.filter(pk=annotator.pk).update(role="viewer")
    problem(upload(writer, key="k"), 403)
    problem(upload(program(annotator, "read"), key="k"), 403)
    problem(upload(Program(), key="k"), 401)


@pytest.mark.django_db(transaction=True)
def test_one_in_flight_makes_the_second_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = program(pages_seed.person("annotator"), "synthesise")
    entered, leave = threading.Event(), threading.Event()
    answers: list[Any] = []
    from webapp.scenarios import api

    real = api.start_envscaler_import

    def slow(*given: Any, **named: Any) -> Any:
        entered.set()
        assert leave.wait(20)
        return real(*given, **named)

    monkeypatch.setattr(api, "start_envscaler_import", slow)

    def first() -> None:
        try:
            answers.append(upload(caller, key="k"))
        finally:
            connection.close()

    thread = threading.Thread(target=first)
    thread.start()
    assert entered.wait(20)
    late = upload(caller, key="k")
    leave.set()
    thread.join(20)
    assert problem(late, 409)["error"]["code"] == "in_flight"
    assert answers[0].status_code == 202
    assert upload(caller, key="k").json() == answers[0].json()
    assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_crash_in_between_leaves_neither_the_act_nor_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = program(pages_seed.person("annotator"), "synthesise")
    monkeypatch.setattr(IdempotentReply, "save", lambda self: 1 / 0)
    problem(upload(caller, key="k"), 500)
    assert not Job.objects.exists()
    monkeypatch.undo()
    assert upload(caller, key="k").status_code == 202


def test_cancel_and_retry_with_the_tag_that_was_read(writer: Program) -> None:
    row = pages_seed.job(JobState.QUEUED)
    tag = writer.get(f"/jobs/{row.pk}").headers["ETag"]
    Job.objects.update(note="changed meanwhile")
    problem(writer.post(f"/jobs/{row.pk}/cancel", **{"If-Match": tag}), 412)
    row.refresh_from_db()
    assert row.state == JobState.QUEUED
    tag = writer.get(f"/jobs/{row.pk}").headers["ETag"]
    assert writer.post(f"/jobs/{row.pk}/cancel", **{"If-Match": f'"x", {tag}'}).json()["state"] == "cancelled"
    assert "had ended" in problem(writer.post(f"/jobs/{row.pk}/cancel"), 409)["detail"]
    assert (
        "no state that you have read"
        in problem(writer.post(f"/jobs/{row.pk}/retry", **{"If-Match": "*"}), 412)["detail"]
    )
    assert writer.post(f"/jobs/{row.pk}/retry").json()["state"] == "queued"
    problem(writer.post(f"/jobs/{row.pk}/retry"), 409)
    problem(writer.post("/jobs/999999/cancel"), 404)
