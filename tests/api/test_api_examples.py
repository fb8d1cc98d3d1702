"""What a form shows as curl and Python is what the API understands, whatever a person typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.test import Client, RequestFactory

from tests.fixtures import pages_seed
from webapp.accounts.models import User
from webapp.common.rest.api_examples import build_api_call
from webapp.endpoints.models import Endpoint

HOSTILE = "a'b\"c$(touch hit)`touch hit`\\\n;&|é\u202e" + pages_seed.EVIL


def call(method: str, name: str, **how: Any) -> Any:
    return build_api_call(RequestFactory().get("/"), method, name, **how)


def test_the_shell_sees_each_value_as_one_word(tmp_path: Path) -> None:
    shown = call("POST", "api:cancel_job", args=(7,), query={"q": HOSTILE, "empty": ""}, body={"text": HOSTILE})
    fake = tmp_path / "curl"
    fake.write_text('#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done\n')
    fake.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    said = subprocess.run(
        ["bash", "-c", shown.curl],
        env={"PATH": path, "ENVARIUM_TOKEN": "envr_x_y"},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    words = said.stdout.decode().split("\0")
    assert words[1] == shown.url
    assert "Authorization: Bearer envr_x_y" in words
    assert json.loads(words[words.index("-d") + 1]) == {"text": HOSTILE}
    assert [word for word in words if re.fullmatch(r"Idempotency-Key: \d+-\d+", word)]
    assert "empty" not in shown.url
    assert not (tmp_path / "hit").exists()


def test_the_python_sends_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    sent: list[Any] = []

    def request(method: str, url: str, **how: Any) -> httpx.Response:
        sent.append((method, url, how))
        return httpx.Response(200, json={}, request=httpx.Request(method, url))

    monkeypatch.setattr(httpx, "request", request)
    monkeypatch.setenv("ENVARIUM_TOKEN", "envr_x_y")
    shown = call("POST", "api:cancel_job", args=(7,), body={"text": HOSTILE, "none": None, "yes": True})
    exec(compile(shown.python, "shown", "exec"), {})
    method, url, how = sent[0]
    assert (method, url) == ("POST", shown.url)
    assert how["json"] == {"text": HOSTILE, "none": None, "yes": True}
    assert how["headers"]["Authorization"] == "Bearer envr_x_y"
    assert how["headers"]["Idempotency-Key"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "page", ["/environments/", "/tasks/", "/trajectories/", "/jobs/", "/import/", "/taxonomy/themes/"]
)
def test_lists_and_forms_show_their_call(annotator: User, page: str) -> None:
    client = Client()
    client.force_login(annotator)
    html = client.get(page, {"q": HOSTILE, "state": "failed"}).content.decode()
    assert "http://testserver/api/v1/" in html
    assert "<script>window" not in html
    assert "\u202e" not in html


@pytest.mark.django_db
def test_the_call_of_an_endpoint_leaves_its_key_out(admin: User) -> None:
    row = Endpoint.objects.create(name="local", base_url="https://models.example.org/v1", sealed_key="sk-hidden")
    client = Client()
    client.force_login(admin)
    for page in ("/endpoints/new/", f"/endpoints/{row.pk}/"):
        html = client.get(page).content.decode()
        assert "http://testserver/api/v1/endpoints" in html
        assert "sk-hidden" not in html
