"""What the worker's client does when the server is slow, away, wrong or hostile; only the far end is scripted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from synthesis.errors import InfrastructureError, InputError
from training.worker import client as patient
from training.worker.client import Client, GivenUp, ServerRefusal, StaleAttempt, Unauthorised, build_attempt_path

TOKEN = "envr_abc_secret"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient, "WAITS_S", (0.01, 0.02))


class Far:
    """Answers requests in their order; the last answer is given again and again."""

    def __init__(self, *answers: httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer


def client(far: Far, **more) -> Client:
    return Client("http://site.test:8000/", TOKEN, transport=httpx.MockTransport(far), **more)


def problem(status: int, code: str, **more) -> httpx.Response:
    return httpx.Response(status, json={"detail": f"It is {code}.", "error": {"code": code}, **more})


def test_errors_of_the_network_and_of_the_server_are_tried_again() -> None:
    told: list[str] = []
    far = Far(
        httpx.ConnectError("refused"), httpx.Response(503), httpx.Response(200, text="no json"), httpx.Response(204)
    )
    assert client(far, say=told.append).call("POST", "workers", {"name": "w"}) is None
    assert len(far.asked) == 4
    assert far.asked[0].url == "http://site.test:8000/api/v1/training/workers"
    assert far.asked[3].headers["Authorization"] == f"Bearer {TOKEN}"
    assert far.asked[3].content == far.asked[0].content == b'{"name": "w"}'
    assert len(told) == 3
    assert not any(TOKEN in line for line in told)
    assert TOKEN not in repr(client(far))


def test_retry_after_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    clock = [0.0]
    monkeypatch.setattr(patient.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(patient.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    far = Far(httpx.Response(429, headers={"Retry-After": "7"}), httpx.Response(200, json={"id": "wk-1"}))
    assert client(far, say=said.append).call("POST", "workers", {}) == {"id": "wk-1"}
    assert 7.0 <= clock[0] < 8.0


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(409, "stale_attempt"), StaleAttempt),
        (problem(409, "gap", next_seq=7), ServerRefusal),
        (problem(401, "invalid_token"), Unauthorised),
        (problem(403, "forbidden"), Unauthorised),
        (problem(422, "invalid"), ServerRefusal),
        (httpx.Response(301, headers={"Location": "https://site.test/"}), ServerRefusal),
        (httpx.Response(413, text="<html>"), ServerRefusal),
    ],
)
def test_what_the_server_refuses_is_not_tried_again(answer: httpx.Response, kind: type[ServerRefusal]) -> None:
    far = Far(answer)
    with pytest.raises(kind) as caught:
        client(far).call("POST", build_attempt_path("ftjob-1", 2, "records"), {})
    assert type(caught.value) is kind
    assert len(far.asked) == 1
    if answer.status_code == 409:
        assert str(caught.value).startswith("It is ")
    assert caught.value.data.get("next_seq") in (None, 7)


def test_patience_ends_when_the_worker_does() -> None:
    far = Far(httpx.ConnectError("refused"))
    with pytest.raises(GivenUp):
        client(far, given_up=lambda: len(far.asked) >= 3).call("POST", "workers", {})
    assert len(far.asked) == 3
    with pytest.raises(GivenUp):
        client(far).call("POST", "workers", {}, tries=2)
    assert len(far.asked) == 5


def test_endless_replies_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient, "REPLY_BYTES", 1_000)
    with pytest.raises(ServerRefusal, match="more than 1000 bytes"):
        client(Far(httpx.Response(200, text="x" * 1_001))).call("POST", "workers", {})


CONTENT = bytes(range(256)) * 50
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def ranged(request: httpx.Request) -> httpx.Response:
    start = int(request.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
    return httpx.Response(206 if start else 200, content=CONTENT[start:])


def test_download_goes_on_where_it_was_broken_off(tmp_path: Path) -> None:
    far = Far(httpx.Response(200, content=CONTENT[:700]), ranged)
    client(far).fetch("/api/v1/training/x?path=a", tmp_path / "a", len(CONTENT), DIGEST)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert [request.headers.get("Range") for request in far.asked] == [None, "bytes=700-"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_server_without_range_is_read_from_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(b"other")
    client(Far(httpx.Response(200, content=CONTENT))).fetch("/x", tmp_path / "a", len(CONTENT), DIGEST)
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_damaged_and_overlong_files_are_refused(tmp_path: Path) -> None:
    far = Far(httpx.Response(200, content=CONTENT[::-1]))
    with pytest.raises(InfrastructureError, match="another hash"):
        client(far).fetch("/x", tmp_path / "a", len(CONTENT), DIGEST)
    assert len(far.asked) == patient.DAMAGED
    with pytest.raises(ServerRefusal, match="more than its"):
        client(Far(httpx.Response(200, content=CONTENT * 2))).fetch("/x", tmp_path / "b", len(CONTENT), DIGEST)
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_token_goes_to_the_own_origin_only(tmp_path: Path) -> None:
    far = Far(httpx.Response(200, content=CONTENT))
    client(far).fetch("https://evil.test/steal?path=a", tmp_path / "a", len(CONTENT), DIGEST)
    assert str(far.asked[0].url) == "http://site.test:8000/steal?path=a"


@pytest.mark.parametrize("url", ["", "site.test", "ftp://site.test", "http://user:word@site.test", "http://"])
def test_addresses_that_are_none_are_refused(url: str) -> None:
    with pytest.raises(InputError, match="--url"):
        Client(url, TOKEN)
