"""What a request says and the operation does not know is refused, never left out; errors lead to where they are."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from pydantic import ValidationError

from tests.fixtures import pages_seed
from tests.fixtures.api import BASE, PROBLEM, Program, problem, program
from webapp.accounts.models import AuditEntry, User
from webapp.asgi import bound_bodies
from webapp.common.rest import bodies
from webapp.common.rest.problems import Problem
from webapp.edits.schemas import EditStart
from webapp.jobs.models import Job
from webapp.jobs.uploads import FOLDER

pytestmark = pytest.mark.django_db
ATIF = b'[{"schema_version": "ATIF-v1.6", "steps": []}]'


def send_files(caller: Program, path: str, **parts: Any) -> Any:
    named = {
        name: SimpleUploadedFile(f"{name}.json", value) if isinstance(value, bytes) else value
        for name, value in parts.items()
    }
    return caller.client.post(BASE + path, named, headers=caller.headers)


def test_a_misspelled_filter_is_not_left_out(reader: Program) -> None:
    pages_seed.environment()
    for path in ("/environments", "/environments/export", "/tasks", "/jobs"):
        found = problem(reader.get(f"{path}?enviroment=5&q="), 422)
        assert found["errors"][0]["loc"] == ["query", "enviroment"]
    assert not AuditEntry.objects.filter(action="environments.export").exists()
    problem(Program().get("/tasks?enviroment=5"), 401)
    assert problem(reader.get("/tasks?%0d%0aX-Evil:1%ff\u202e=1"), 422)["errors"][0]["loc"][1].isascii()


def test_what_is_given_twice_is_not_half_left_out(writer: Program) -> None:
    found = problem(writer.get("/environments?category=Health&category=Trade"), 422)
    assert (found["errors"][0]["loc"], found["errors"][0]["code"]) == (["query", "category"], "repeated")
    files = [SimpleUploadedFile(name, b"[1]") for name in ("a.json", "b.json")]
    found = problem(send_files(writer, "/imports/mcp-servers", servers=files), 422)
    assert found["errors"][0]["loc"] == ["file", "servers"]
    assert not Job.objects.exists()


def test_both_files_of_an_import_arrive(writer: Program) -> None:
    answer = send_files(writer, "/imports/environments", environments=b"[1]", scenarios=b"[2]")
    assert answer.status_code == 202
    assert Job.objects.get().payload["scenarios"]["original"] == "scenarios.json"


@pytest.mark.parametrize(
    ("parts", "loc"),
    [
        ({"environments": b"[1]", "scenarios": "scenarios.json"}, ["form", "scenarios"]),
        ({"environments": b"[1]", "scenario": b"[2]"}, ["file", "scenario"]),
        ({"environments": b"[1]", "source": "starter"}, ["form", "source"]),
    ],
)
def test_a_part_of_a_form_that_is_not_taken(writer: Program, parts: dict[str, Any], loc: list[str]) -> None:
    assert problem(send_files(writer, "/imports/environments", **parts), 422)["errors"][0]["loc"] == loc
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("path", "field", "others"),
    [
        ("environments", "environments", {}),
        ("environments", "scenarios", {"environments": b"[1]"}),
        ("mcp-servers", "servers", {}),
    ],
)
def test_a_file_of_another_import_is_told_where_it_belongs(
    writer: Program, path: str, field: str, others: dict[str, Any]
) -> None:
    for content in (ATIF, gzip.compress(ATIF)):
        found = problem(send_files(writer, f"/imports/{path}", **others, **{field: content}), 422)
        assert found["detail"].startswith(f"{field}: this file holds trajectories in ATIF")
        assert "POST /imports/trajectories" in found["detail"]
    assert not Job.objects.exists()


def test_a_refused_import_keeps_neither_file(writer: Program) -> None:
    folder = Path(default_storage.path(FOLDER))
    before = set(folder.glob("*"))
    problem(send_files(writer, "/imports/environments", environments=b"[1]", scenarios=b""), 422)
    assert set(folder.glob("*")) == before
    assert not Job.objects.exists()


def test_mcp_servers_are_imported_by_a_job(writer: Program, reader: Program) -> None:
    answer = send_files(writer, "/imports/mcp-servers", servers=b"{}")
    assert answer.status_code == 202
    row = Job.objects.get()
    assert (row.kind, answer.json()["id"]) == ("import_mcp_servers", row.pk)
    problem(send_files(writer, "/imports/mcp-servers", servers=b""), 422)
    problem(send_files(writer, "/imports/mcp-servers"), 422)
    problem(send_files(reader, "/imports/mcp-servers", servers=b"{}"), 403)
    assert Job.objects.count() == 1


def test_an_error_names_the_field_as_the_caller_knows_it(admin: User) -> None:
    caller = program(admin, "synthesise", "admin")
    found = problem(caller.post("/endpoints", {"name": 7, "base_url": "a\x00b"}), 422)
    assert {tuple(error["loc"]) for error in found["errors"]} == {("body", "name"), ("body", "base_url")}
    assert found["error"]["param"] == "name"
    assert not any("Value error" in error["message"] for error in found["errors"])
    assert problem(caller.post("/endpoints", [1]), 422)["errors"][0]["message"] == "Must be an object"
    whole = problem(caller.post("/audits", {}), 422)
    assert (whole["errors"][0]["loc"], whole["error"]["param"]) == (["body"], None)
    for name in ("task", "environment"):
        missing = problem(caller.post("/audits", {name: 999_999}), 422)
        assert missing["errors"][0]["loc"] == ["body", name]
        assert "999999" in missing["detail"]


@pytest.mark.parametrize("wrong", [True, "1", [1], {"id": 1}])
def test_values_have_the_type_that_the_schema_names(writer: Program, wrong: Any) -> None:
    """`true` would be task 1."""
    found = problem(writer.post("/audits", {"task": wrong}), 422)
    assert found["errors"][0]["loc"] == ["body", "task"]
    problem(writer.post("/tasks/1/rollouts", {"policy": "reference", "attempts": wrong}), 422)
    assert not Job.objects.exists()
    assert writer.get("/tasks?fewest=1&low=0.5").status_code == 200


def test_many_faults_are_counted_and_the_first_are_shown(writer: Program) -> None:
    found = problem(writer.post("/audits", {f"field{number}": 1 for number in range(150)}), 422)
    assert len(found["errors"]) == 100
    assert "149 more: see errors, the first 99 of them." in found["detail"]
    found = problem(writer.post("/audits", {"a": 1, "b": 1}), 422)
    assert found["detail"].endswith("1 more: see errors.")


def test_a_body_that_is_no_json_is_told_where(writer: Program) -> None:
    answer = writer.client.generic(
        "POST", f"{BASE}/audits", b'{"task": 1,}', "application/json", headers=writer.headers
    )
    assert "at character 12" in problem(answer, 400)["detail"]


def test_a_packed_body_is_refused_by_name(writer: Program) -> None:
    body = gzip.compress(b'{"task": 1}')
    headers = {**writer.headers, "Content-Encoding": "gzip"}
    answer = writer.client.generic("POST", f"{BASE}/audits", body, "application/json", headers=headers)
    assert "Content-Encoding" in problem(answer, 415)["detail"]


def test_head_answers_as_get_without_its_body(reader: Program) -> None:
    row = pages_seed.environment()
    for path in ("/environments", f"/environments/{row.pk}"):
        got, headed = reader.get(path), reader.send("HEAD", path)
        assert headed.status_code == 200
        assert headed.headers["ETag"] == got.headers["ETag"]
        assert headed.content == b""
        assert reader.send("HEAD", path, **{"If-None-Match": got.headers["ETag"]}).status_code == 304
    assert reader.send("HEAD", "/environments/999999").status_code == 404
    assert reader.send("HEAD", "/environments/export").status_code == 405
    assert Program().send("HEAD", "/environments").status_code == 401


@pytest.mark.parametrize(("declared", "chunks"), [(b"11", []), (b"9" * 30, []), (b"", [b"12345678", b"90ab"])])
@pytest.mark.parametrize("path", ["/jobs/", "/api/v1/audits"])
def test_a_request_that_is_too_large_does_not_reach_the_application(
    declared: bytes, chunks: list[bytes], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    sent: list[dict[str, Any]] = []
    left = [{"type": "http.request", "body": body, "more_body": True} for body in chunks]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] == "http.request":
            seen.append(message["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> dict[str, Any]:
        return left.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def ask(scope: Any, size: int) -> tuple[int, Problem | None]:
        return 10, bodies.find_size_problem(size, 10)

    monkeypatch.setattr(bodies, "STRANGERS", 5)
    scope = {"type": "http", "path": path, "headers": [(b"content-length", declared)] if declared else []}
    asyncio.run(bound_bodies(app, ask)(scope, receive, send))
    assert [message["status"] for message in sent if message["type"] == "http.response.start"] == [413]
    assert seen == chunks[:1]
    kind = dict(sent[0]["headers"])[b"content-type"].decode()
    if path == "/jobs/":
        assert kind.startswith("text/html")
    else:
        found = json.loads(sent[1]["body"])
        assert (kind, found["status"], found["instance"]) == (PROBLEM, 413, path)
        assert found["error"]["code"] == "too_large"


def test_every_operation_says_what_it_does_and_takes() -> None:
    from webapp.api import load_schema

    schema = load_schema()
    faults = []
    for path, methods in schema["paths"].items():
        for method, details in methods.items():
            silent = [one["name"] for one in details["parameters"] if not one.get("description")]
            body = details.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            named = [one["$ref"].rpartition("/")[2] for one in (body, *body.get("anyOf", [])) if "$ref" in one]
            example = not body or schema["components"]["schemas"][named[0]].get("examples")
            if silent or not example or not details.get("summary") or not details.get("description"):
                faults.append(f"{method} {path}: {silent or 'no summary, description or example of its body'}")
    assert not faults, "\n".join(faults)


def test_no_two_schemas_share_a_name() -> None:
    """The API's document knows them by name: of two with one name, one would describe what the other answers."""
    from ninja import Schema

    def below(kind: type) -> list[type]:
        return [one for child in kind.__subclasses__() for one in (child, *below(child))]

    named: dict[str, set[str]] = {}
    for one in below(Schema):
        if one.__module__.startswith("webapp."):
            named.setdefault(one.__name__, set()).add(one.__module__)
    assert named
    assert not {name: places for name, places in named.items() if len(places) > 1}


def test_half_a_million_unknown_keys_are_counted_not_listed(writer: Program) -> None:
    body = b'{"name": "x", ' + b",".join(b'"k%d": 1' % number for number in range(200_000)) + b"}"
    tracemalloc.start()
    try:
        answer = writer.client.post(f"{BASE}/batches", body, content_type="application/json", headers=writer.headers)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    found = problem(answer, 422)
    assert [error["code"] for error in found["errors"]] == ["too_many_faults"]
    assert "200,0" in found["detail"]
    assert "It takes" in found["detail"]
    assert "name" in found["detail"]
    assert peak < 25 * len(body), "their errors took a hundred times what was sent"


def test_no_error_is_made_of_each_of_countless_keys() -> None:
    """What pydantic keeps of an error is not Python's memory, which is what the test above measures."""
    with pytest.raises(ValidationError) as refused:
        EditStart.model_validate({f"k{number}": 1 for number in range(20_000)})
    assert refused.value.error_count() == 1
