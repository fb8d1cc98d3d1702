"""Uploaded files, the hostile ones above all: refused with the line, and nothing is kept of them."""

from __future__ import annotations

import hashlib
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from synthesis.errors import InputError
from tests.fixtures import pages_seed
from tests.fixtures.api import BASE, problem, token_of
from tests.runs.job_support import LESSON, jsonl, lessons, tasks
from webapp.accounts.models import AuditEntry
from webapp.datasets import file_uploads
from webapp.datasets import services as datasets
from webapp.datasets.models import Dataset, FileState, StoredFile
from webapp.jobs import services as job_services
from webapp.jobs.jobs import execute_job
from webapp.jobs.models import Job, JobState

pytestmark = pytest.mark.django_db


@pytest.fixture
def headers() -> dict[str, str]:
    return {"Authorization": f"Bearer {token_of(pages_seed.person('researcher'), 'read', 'train')}"}


def send(headers: dict[str, str], content: bytes, name: str = "a.jsonl", **fields: Any) -> Any:
    form = {"file": SimpleUploadedFile(name, content), "purpose": "fine-tune", **fields}
    return Client().post(f"{BASE}/files", form, headers=headers)


def kept() -> list[str]:
    return default_storage.listdir(file_uploads.FOLDER)[1] if default_storage.exists(file_uploads.FOLDER) else []


DEEP = b'{"messages": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"
GOOD = jsonl(lessons(2))
HOSTILE = {
    "empty": (b"", "empty"),
    "binary": (bytes(range(256)) * 50, "line 1"),
    "an archive": (b"\x1f\x8b\x08\x00" + b"\x00" * 100, "line 1"),
    "a list": (b"[]\n", "line 1"),
    "a number": (b"1\n", "line 1"),
    "neither kind": (b'{"prompt_tokens": 1}\n', "line 1"),
    "torn": (GOOD + GOOD[:100], "line 3"),
    "deep": (DEEP, "line 1"),
    "deep behind good lines": (GOOD + DEEP, "line 3"),
    "no UTF-8": (GOOD + b'{"messages": "\xff"}\n', "line 3"),
    "half a surrogate": (GOOD + b'{"messages": [{"role": "user", "content": "\\ud800"}]}\n', "line 3"),
    "NaN": (GOOD + b'{"messages": NaN}\n', "line 3"),
    "a blank line": (GOOD + b"\n" + GOOD, "line 3"),
    "twice the same id": (GOOD + GOOD, "line 3"),
    "nothing to learn": (jsonl([{"messages": [{"role": "user", "content": "Hm."}]}]), "line 1"),
    "tasks among trajectories": (GOOD + jsonl(tasks(1, 1)), "line 3"),
    "a blank first line": (b"\n" + GOOD, "is empty; delete it"),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, "byte order mark"),
    "a first line of 5 MiB": (json.dumps({"messages": "x" * (5 << 20)}).encode() + b"\n" + GOOD, "is longer than"),
    "countless values": (
        GOOD + b'{"messages": [' + b"[]," * (1 << 20) + b"[]]}\n",
        "line 3: cannot be read: it would take more than 64 MiB of memory",
    ),
    "a line of 5 MiB": (GOOD + json.dumps({"messages": "x" * (5 << 20)}).encode() + b"\n", "line 3"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hostile_is_refused_with_its_line_and_not_kept(name: str, headers: dict[str, str]) -> None:
    content, place = HOSTILE[name]
    before = kept()
    found = problem(send(headers, content), 422)
    assert place in found["detail"]
    assert found["errors"]
    assert not StoredFile.objects.exists()
    assert kept() == before


def test_every_line_at_fault_is_told(headers: dict[str, str]) -> None:
    found = problem(send(headers, GOOD + b"{}\n" + jsonl([LESSON]) + b"[]\n"), 422)
    assert [error["loc"][:3] for error in found["errors"]] == [["file", "file", 3], ["file", "file", 5]]
    assert "1 more problem" in found["detail"]


@pytest.mark.parametrize(("rows", "kind"), [(lessons(2), "trajectories"), (tasks(1, 2), "tasks")])
def test_the_kind_is_found_out_or_said(rows: list[Any], kind: str, headers: dict[str, str]) -> None:
    assert send(headers, jsonl(rows)).json()["kind"] == kind
    said = send(headers, jsonl(rows), kind=kind).json()
    assert (said["kind"], said["report"]["rows"]) == (kind, 2)
    other = "tasks" if kind == "trajectories" else "trajectories"
    problem(send(headers, jsonl(rows), kind=other), 422)


@pytest.mark.parametrize("purpose", ["assistants", "", "fine-tune\x00"])
def test_another_purpose_is_refused(purpose: str, headers: dict[str, str]) -> None:
    assert "purpose" in problem(send(headers, GOOD, purpose=purpose), 422)["detail"]


def test_unknown_fields_and_a_missing_file_are_refused(headers: dict[str, str]) -> None:
    assert "form.expires" in problem(send(headers, GOOD, expires="1"), 422)["detail"]
    answer = Client().post(f"{BASE}/files", {"purpose": "fine-tune"}, headers=headers)
    assert "file" in problem(answer, 422)["detail"]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a\x00b.jsonl", "x" * 500, 'q"\r\nSet-Cookie: a=b', "\u202ea.jsonl"]
)
def test_names_of_uploaders_lead_nowhere(name: str, headers: dict[str, str]) -> None:
    answer = send(headers, GOOD, name)
    assert answer.status_code == 200, answer.content
    row = StoredFile.objects.get()
    assert row.stored == f"{file_uploads.FOLDER}/{row.public_id}.jsonl"
    assert "/" not in row.filename
    assert len(row.filename) <= 200
    content = Client().get(f"{BASE}/files/{row.public_id}/content", headers=headers)
    assert content.headers["Content-Disposition"] == f'attachment; filename="{row.public_id}.jsonl"'
    assert content.headers["X-Content-Type-Options"] == "nosniff"


def test_a_file_above_the_limit_is_refused(settings: Any, headers: dict[str, str]) -> None:
    settings.UPLOAD_LIMIT_MIB = 1
    found = problem(send(headers, jsonl([LESSON]) * 5_000), 422)
    assert "1 MiB" in found["detail"]
    assert not StoredFile.objects.exists()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_claim_of_two_gigabytes_is_answered_before_they_come(live_site: str) -> None:
    parts = urlsplit(live_site)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=10) as line:
        head = f"POST {BASE}/files HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {2 << 30}\r\n"
        line.sendall(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n".encode())
        assert line.recv(100).startswith(b"HTTP/1.1 413")


def big(monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], content: bytes, **fields: str) -> StoredFile:
    monkeypatch.setattr(file_uploads, "AT_ONCE_BYTES", 10)
    answer = send(headers, content, **fields)
    assert answer.json()["status"] == "uploaded"
    row = StoredFile.objects.get()
    job = job_services.claim_job(Job.objects.get(kind=file_uploads.KIND).pk, "a test")
    assert job is not None
    execute_job(job)
    row.refresh_from_db()
    return row


def test_a_large_file_is_checked_by_a_job(monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]) -> None:
    row = big(monkeypatch, headers, GOOD)
    assert (row.state, row.report["rows"]) == (FileState.PROCESSED, 2)
    assert row.sha256


def test_a_person_has_few_files_that_wait_for_their_check(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    monkeypatch.setattr(file_uploads, "AT_ONCE_BYTES", 1)
    for _ in range(file_uploads.MOST_WAITING):
        assert send(headers, GOOD).status_code == 200
    before = len(kept())
    assert "8 of your files wait for their check" in problem(send(headers, GOOD, "one-more.jsonl"), 429)["detail"]
    assert len(kept()) == before
    StoredFile.objects.update(state=FileState.PROCESSED)
    assert send(headers, GOOD).status_code == 200


def test_a_large_file_with_faults_says_so(monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]) -> None:
    row = big(monkeypatch, headers, GOOD + b"{}\n")
    assert row.state == FileState.ERROR
    assert "line 3" in Client().get(f"{BASE}/files/{row.public_id}", headers=headers).json()["status_details"]
    assert "line 3" in Job.objects.get(kind=file_uploads.KIND, state=JobState.FAILED).error


BAD_LINES = b"{}\n" + GOOD[:100] + b"\n"


def test_lines_that_cannot_be_used_are_left_out_where_that_is_chosen(headers: dict[str, str]) -> None:
    refused = problem(send(headers, GOOD + BAD_LINES), 422)
    assert "Send bad_lines=leave_out to keep its other 2 rows." in refused["detail"]
    told = send(headers, BAD_LINES + GOOD + DEEP, bad_lines="leave_out").json()
    assert (told["status"], told["bad_lines"], told["report"]["left_out"]) == ("processed", "leave_out", [1, 2, 5])
    assert (told["report"]["rows"], told["kind"], told["bytes"]) == (2, "trajectories", len(GOOD))
    assert told["sha256"] == hashlib.sha256(GOOD).hexdigest()
    content = Client().get(f"{BASE}/files/{told['id']}/content", headers=headers)
    assert default_storage.open(StoredFile.objects.get().stored).read() == GOOD
    assert content.headers["Content-Length"] == str(len(GOOD))
    problem(send(headers, BAD_LINES, bad_lines="leave_out"), 422)  # nothing would be left of it
    assert "bad_lines" in problem(send(headers, GOOD, bad_lines="mend"), 422)["detail"]


def test_a_dataset_says_how_many_lines_of_its_file_were_left_out(headers: dict[str, str]) -> None:
    row = StoredFile.objects.get(public_id=send(headers, BAD_LINES + GOOD, bad_lines="leave_out").json()["id"])
    made = datasets.create_file_dataset(None, row)
    assert made.job is not None
    job = job_services.claim_job(made.job.pk, "a test")
    assert job is not None
    execute_job(job)
    made.refresh_from_db()
    assert (made.state, made.train_rows, made.left_out) == (
        "ready",
        2,
        {"Its line in the uploaded file cannot be used": 2},
    )


def test_bad_lines_of_a_large_file_are_left_out_by_its_job(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    row = big(monkeypatch, headers, BAD_LINES + GOOD, bad_lines="leave_out")
    assert (row.state, row.report["left_out"], row.bytes) == (FileState.PROCESSED, [1, 2], len(GOOD))
    assert default_storage.open(row.stored).read() == GOOD
    assert len([name for name in kept() if row.public_id in name]) == 1
    send(headers, BAD_LINES + GOOD, "another.jsonl", bad_lines="leave_out")
    with pytest.raises(InputError, match="still being checked"):
        datasets.require_usable(StoredFile.objects.get(filename="another.jsonl"))


def test_a_large_file_deleted_while_it_is_checked_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    checked = file_uploads._check_file

    def deleted_meanwhile(row: StoredFile, file: Any) -> Any:
        report = checked(row, file)
        StoredFile.objects.filter(pk=row.pk).update(deleted_at=row.created_at)
        return report

    monkeypatch.setattr(file_uploads, "_check_file", deleted_meanwhile)
    row = big(monkeypatch, headers, BAD_LINES + GOOD, bad_lines="leave_out")
    assert not [name for name in kept() if row.public_id in name]


def test_a_file_that_a_dataset_was_made_of_stays(headers: dict[str, str]) -> None:
    ident = send(headers, GOOD).json()["id"]
    row = StoredFile.objects.get(public_id=ident)
    made = Dataset.objects.create(name="d", kind="trajectories", source="file", file=row)
    found = problem(Client().delete(f"{BASE}/files/{ident}", headers=headers), 409)
    assert made.public_id in found["detail"]
    assert default_storage.exists(row.stored)


def test_a_deleted_file_is_gone(headers: dict[str, str], django_capture_on_commit_callbacks: Any) -> None:
    ident = send(headers, GOOD).json()["id"]
    stored = StoredFile.objects.get(public_id=ident).stored
    with django_capture_on_commit_callbacks(execute=True):
        assert Client().delete(f"{BASE}/files/{ident}", headers=headers).json()["deleted"] is True
    assert not default_storage.exists(stored)
    for path in ("", "/content"):
        problem(Client().get(f"{BASE}/files/{ident}{path}", headers=headers), 404)
    problem(Client().delete(f"{BASE}/files/{ident}", headers=headers), 404)
    assert Client().get(f"{BASE}/files", headers=headers).json()["data"] == []
    acts = AuditEntry.objects.filter(action__startswith="file.").order_by("pk").values_list("action", flat=True)
    assert list(acts) == ["file.create", "file.delete"]
