"""Endpoints that misbehave amid a batch: one clear message on the item, the others go on, later a retry works."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synthesis.llm import client
from tests.batches.support import make_batch, settings_at, work_off
from tests.batches.table import answer
from tests.fixtures.llm import DROP, Request, Scripted, endless, html, llm_server, message, raw, refuse
from tests.rollouts_web.support import KEY, endpoint_at, person
from webapp.batches import services
from webapp.batches.models import Batch, BatchItem, BatchProduct, LLMCall, StageRun

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

HOUR = "3600"
RUDE: dict[str, tuple[Scripted, str, tuple[str, ...]]] = {
    "drops": (DROP, "unreachable", ("hung up", "retry the item")),
    "page": (html(), "malformed", ("no chat completion", "text/html", "Sign in", "OpenAI-compatible")),
    "page-of-an-error": (html(502), "failed", ("502", "Sign in")),
    "cut": (raw(200, '{"choices": [{"message"'), "malformed", ("no chat completion",)),
    "other": (raw(200, '{"hello": "world"}'), "malformed", ("no chat completion",)),
    "list": (raw(200, "[1, 2]"), "malformed", ("no chat completion",)),
    "odd-types": (raw(200, '{"choices": {"0": 7}, "usage": "much"}'), "malformed", ("no chat completion",)),
    "empty": (raw(200, ""), "malformed", ("no chat completion",)),
    "floods": (endless("x" * 65_536), "too_large", ("larger than",)),
    "trickles": (endless(" ", 0.05), "timeout", ("did not reply within",)),
    "hour": (
        refuse(429, "Slow down.", Retry_After=HOUR),
        "rate_limited",
        ("429", "Slow down.", "left alone for 3600 seconds"),
    ),
    "key": (
        refuse(401, f"Incorrect API key provided: {KEY}."),
        "refused",
        ("refused the key", "401", "Correct its key"),
    ),
    "gone": (refuse(404, "The model does not exist."), "refused", ("404", "does not exist")),
    "says-nothing": (message(""), "malformed", ("it is empty",)),
    "says-a-page": (message("<!doctype html><p>Sign in"), "malformed", ("a page of HTML",)),
}
"""By theme: what the server does, how the item ends, and words of its message."""


class Server:
    """Answers by theme, rudely until it is well."""

    def __init__(self) -> None:
        self.well = False

    def __call__(self, request: Request) -> Scripted:
        text = json.dumps(request["messages"])
        rude = next((RUDE[name][0] for name in RUDE if f" of {name}-desk" in text), None)
        return answer(request) if self.well or rude is None else rude


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are as short as can be; a server that wants an hour keeps everybody off for a moment."""
    monkeypatch.setattr(client, "FIRST_WAIT_S", 0.02)
    monkeypatch.setattr(client, "LONGEST_RETRY_AFTER_S", 0.2)


def themes_of(batch: Batch) -> dict[str, BatchItem]:
    return {row.path: row for row in batch.items.filter(level="theme")}


def settings(url: str, **changes: Any) -> Any:
    endpoint_at(url, max_concurrency=64, timeout_s=1)
    return settings_at(url, **changes)


def test_each_misbehaviour_is_named_on_its_item_and_the_others_go_on() -> None:
    user, server = person("operator"), Server()
    good = ["good-desk", "better-desk"]
    with llm_server(server) as running:
        batch = work_off(make_batch(user, settings(running.url), [*(f"{name}-desk" for name in RUDE), *good]))
        assert batch.state == "done"
        found = themes_of(batch)
        for name, (_, reason, words) in RUDE.items():
            row = found[f"{name}-desk"]
            assert (row.state, row.stage, row.reason) == ("failed", "assemble", reason), row.message
            assert [word for word in words if word not in row.message] == [], row.message
            assert KEY not in row.message
            assert len(row.message) < 1_200
            assert not row.children.exists()
            assert LLMCall.objects.get(key=row.call_key).path == row.path
        assert not BatchProduct.objects.filter(item__path__in=[f"{name}-desk" for name in RUDE]).exists()
        assert not StageRun.objects.filter(state="failed", output__isnull=False).exists()
        for key in good:
            rows = batch.items.filter(path__startswith=key)
            assert set(rows.values_list("level", "state")) == {
                (level, "kept") for level in ("theme", "scenario", "task", "trajectory")
            }
        assert KEY not in json.dumps(list(LLMCall.objects.values_list("error", flat=True)))
        # The server is well again: all that failed is tried again, and goes all the way.
        server.well = True
        assert services.retry_items(user, batch.pk) == len(RUDE)
        work_off(batch)
    assert [(row.path, row.stage, row.message) for row in batch.items.exclude(state="kept")] == []
    assert BatchProduct.objects.filter(item__batch=batch).count() == 4 * (len(RUDE) + len(good))
    assert batch.requests == sum(LLMCall.objects.values_list("requests", flat=True)) == len(running.requests)
