"""Files and bodies that hold what they should not, on every way by which themes come in."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.batches.real import HostileModel, item, real_batch, real_pipeline, theme_of
from tests.batches.support import work_off
from tests.fixtures.api import BASE, Program, problem, program
from tests.rollouts_web.support import person
from webapp.batches.engine.theme_source import build_theme_specs
from webapp.batches.models import Batch
from webapp.environments.models import Tool
from webapp.jobs.jobs import run_job
from webapp.jobs.models import Job
from webapp.taxonomy.models import Theme

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = ("__init__", "reset", "book a room", "drop table;--", "\u202etool")
NOISE = random.Random(7).randbytes(200_000)
SERVER = {"name": "Badges", "server_id": "badge-desk__served", "overview": "Badges of a site and who holds them."}


def caller(role: str = "operator") -> Program:
    return program(person(role), "read", "synthesise")


def upload(content: bytes) -> Job:
    """A file on the page that takes MCP servers, and what its job came to."""
    client = Client()
    client.force_login(person("operator", f"op-{Job.objects.count()}"))
    file = SimpleUploadedFile("servers.jsonl", content)
    answer = client.post("/import/", {"what": "servers", "servers": file})
    assert answer.status_code in (200, 302), answer.content[:500]
    job = Job.objects.order_by("-id").first()
    assert job is not None, answer.content.decode()[-3_000:]
    run_job(job.pk)
    job.refresh_from_db()
    return job


@pytest.mark.parametrize(
    "content",
    [
        NOISE,
        b"\x89PNG\r\n\x1a\n" + NOISE,
        gzip.compress(NOISE),
        gzip.compress(b"[" * 1_000_000),
        b"\xff\xfe" + json.dumps([SERVER]).encode("utf-16-le") + b"\x00",
        b"PK\x03\x04" + bytes(1_000),
    ],
    ids=["noise", "picture", "packed-noise", "packed-depth", "utf-16", "archive"],
)
def test_a_file_of_servers_that_is_none_is_one_clear_message(content: bytes) -> None:
    job = upload(content)
    assert job.state == "failed", job.result
    assert job.error.startswith("servers.jsonl"), job.error
    assert len(job.error) < 600
    assert "Traceback" not in job.error
    assert Theme.objects.count() == 0


@pytest.mark.slow
def test_a_server_whose_tools_have_impossible_names_becomes_an_environment() -> None:
    tools = [{"name": name, "description": "Does it.", "input_schema": {"type": "object"}} for name in NAMES]
    lines = [SERVER | {"tools": tools}, {"name": "No tools", "tools": []}, {"name": "Large", "overview": "x" * 10**6}]
    lines.append({"name": "Long", "tools": [{"name": "x" * 5_000}]})
    job = upload("\n".join([*map(json.dumps, lines), '{"name": "A", "tools": ']).encode())
    assert job.state == "succeeded", job.error
    failed = job.result["failed"]
    assert [one["place"].partition(".")[0] for one in failed] == ["line 2", "line 3", "line 4", "line 5"]
    assert all(0 < len(one["reason"]) < 300 for one in failed)
    (row,) = Theme.objects.all()
    specs = build_theme_specs([row.pk])
    assert specs[0].theme is not None
    # The provider knows the theme by its key alone; all that the server says goes into the prompts.
    draft = theme_of("badge-desk__served", tools=specs[0].theme.tools)
    assert [tool.name for tool in draft.tools][:3] == list(NAMES[:3])
    with real_pipeline(HostileModel()) as model:
        batch = work_off(real_batch(person("operator"), [draft]))
    assert item(batch, "badge-desk__served/scenario-0/task-0/work-0").state == "kept"
    assert not Tool.objects.filter(name__in=NAMES).exists()
    first = next(call.messages[0].content for call in model.asked if call.site.stage == "plan_state")
    assert "'book a room'" in first
    assert len(first) < 20_000


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"tasks": ["Cancel \x00 it."]}, "NUL"),
        ({"tasks": ["Cancel \ud800 it."]}, "surrogates"),
        ({"tasks": ["fine", "x" * 1_000_000]}, "100000"),
        ({"tasks": [""]}, "at least 1"),
        ({"tasks": [7]}, "string"),
        ({"tasks": "Cancel it."}, "list"),
        ({"typed": [{"name": "A\x00", "description": "All about badges and who holds them."}]}, "NUL"),
        ({"typed": [{"name": "Badges", "description": "x" * 1_000_000}]}, "100000"),
        ({"tasks": ["Cancel it."], "source": "a\x00b"}, "NUL"),
        ({"tasks": ["Cancel it."], "name": "\udfff"}, "unicode"),
        ({"tasks": ["Cancel it."], "settings": {"stages": {"tasks": 10**30}}}, "settings.stages.tasks"),
        ({"tasks": ["Cancel it."], "settings": {"models": {"author": "\x00"}}}, "author"),
        ({"tasks": ["Cancel it."], "settings": {"seed": "\ud800"}}, "settings.seed"),
    ],
)
def test_a_body_says_what_is_wrong_with_it_and_nothing_is_made(body: dict[str, Any], words: str) -> None:
    found = problem(caller().post("/batches", body), 422)
    said = json.dumps(found)
    assert words in said
    assert len(said) < 5_000
    assert (Batch.objects.count(), Job.objects.count()) == (0, 0)


def test_a_body_of_bytes_is_no_body() -> None:
    client = caller()
    for content in (NOISE, b"[" * 100_000, b'{"tasks": [NaN]}', b""):
        sent: dict[str, Any] = {"content_type": "application/json", "headers": client.headers}
        answer = client.client.generic("POST", f"{BASE}/batches", content, **sent)
        assert 400 <= answer.status_code < 500, answer.content[:300]
        assert answer.json()["detail"]
    assert Batch.objects.count() == 0
