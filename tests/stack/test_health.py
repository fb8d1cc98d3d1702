"""`/healthz` on a real site: it tells what is wrong, tells no secret, and never hangs."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.processes import celery_worker, site, wait_for

pytestmark = pytest.mark.django_db(transaction=True)


def ask(url: str) -> tuple[int, dict[str, Any], float]:
    """Status, body and seconds of one request."""
    began = time.monotonic()
    try:
        with urllib.request.urlopen(url + "/healthz", timeout=20) as answer:
            return answer.status, json.loads(answer.read()), time.monotonic() - began
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read()), time.monotonic() - began


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A server that lets everybody connect and never says a word, like a machine that hangs."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        yield server.getsockname()[1]


def test_all_is_well_with_a_worker_and_down_without(live_site: str, tmp_path: Path):
    with celery_worker(tmp_path, "health", "llm,sandbox"):
        code, body, _seconds = wait_for(lambda: _when_ok(live_site), what="health")
        assert (code, body["status"]) == (200, "ok")
        assert body["workers"]["health"]["queues"] == ["llm", "sandbox"]
        assert body["workers"]["health"]["last_seen_s"] < 8
        assert body["postgres"]["version"].startswith("18")
        assert body["sandbox"]["mode"] in {"root", "user", "no_namespaces", "reduced"}
        assert any(layer["active"] for layer in body["sandbox"]["layers"])


def _when_ok(url: str) -> tuple[int, dict[str, Any], float] | None:
    answer = ask(url)
    return answer if answer[0] == 200 else None


def test_no_worker_is_down_and_names_the_queues(tmp_path: Path, live_site: str):
    from django.conf import settings

    from webapp.common.broker import make_client

    with make_client(settings.BROKER_URL) as broker:
        broker.flushdb()
    code, body, _seconds = ask(live_site)
    assert (code, body["status"]) == (503, "down")
    assert body["missing_queues"] == ["llm", "sandbox"]
    assert body["postgres"]["ok"]


@pytest.mark.slow
def test_a_dead_broker_is_told_at_once(tmp_path: Path):
    with site(tmp_path, BROKER_URL=f"redis+socket://{tmp_path}/gone.sock") as url:
        code, body, seconds = ask(url)
    assert (code, body["broker"]["ok"], body["postgres"]["ok"]) == (503, False, True)
    assert seconds < 3


@pytest.mark.slow
def test_servers_that_hang_do_not_hang_the_page_nor_leak_their_address(tmp_path: Path, silent_port: int):
    hung = {
        "DATABASE_URL": f"postgresql://keeper:hunter2secret@127.0.0.1:{silent_port}/hidden",
        "BROKER_URL": f"redis://:hunter2secret@127.0.0.1:{silent_port}/0",
    }
    with site(tmp_path, **hung) as url:
        for _ in range(3):
            code, body, seconds = ask(url)
            assert code == 503
            assert not body["postgres"]["ok"]
            assert not body["broker"]["ok"]
            assert seconds < 3.5
            assert not {"hunter2secret", "keeper", "hidden", str(silent_port)} & set(json.dumps(body).split('"'))
            assert "hunter2secret" not in json.dumps(body)


def test_only_reading_is_answered(live_site: str):
    request = urllib.request.Request(live_site + "/healthz", data=b"{}", method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    assert refused.value.code in {403, 405}
