"""Whole batches against a real server: its replies are of no use, what is done with them must be right."""

from __future__ import annotations

import re
import urllib.request
from typing import Any

import pytest
from django.db.models import Sum

from synthesis.pipeline import ENVSCALER
from synthesis.scripted import list_bundled_themes
from tests.fixtures.api import Program, program
from tests.real_server.conftest import KEY, Server
from tests.rollouts_web.support import person
from webapp.accounts.models import User
from webapp.batches import services
from webapp.batches.management.command_run import build_report, run_batch_to_end
from webapp.batches.models import Batch, BatchItem, BatchProduct, Body, LLMCall
from webapp.batches.services import build_theme_spec, create_batch
from webapp.batches.spec import ROLES, SCRIPTED, BatchSettings
from webapp.common.content_store import load_value
from webapp.endpoints.models import Endpoint
from webapp.endpoints.trial import Trial, try_endpoint
from webapp.environments.models import Environment
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db(transaction=True)
SMALL = {"scenarios": 1, "tasks": 1, "teacher_runs": 1, "solver_runs": 1, "conversational": False}
TYPED = [
    {"name": "Hotel front desk", "description": "Guests, rooms, bookings and payments of a small hotel."},
    {"name": "Tool library", "description": "People borrow tools, bring them back and pay for what broke."},
]
PRICE = {"prompt": 2.0, "completion": 8.0, "cached": None}


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)


@pytest.fixture
def admin() -> Program:
    return program(person("admin"), "read", "synthesise", "worker", "admin")


def register(admin: Program, server: Server, **changes: Any) -> Endpoint:
    body = {"name": "real", "base_url": server.url, "key": KEY, "model_names": list(server.names)}
    prices = dict.fromkeys(server.names, PRICE)
    made = admin.post("/endpoints", body | {"prices": prices, "timeout_s": 120, "max_concurrency": 4} | changes)
    assert made.status_code == 201, made.content
    return Endpoint.objects.get(pk=made.json()["id"])


def tried(admin: Program, row: Endpoint, model: str) -> Trial:
    """What the button on the endpoint's page finds out, kept as a person would."""
    found = try_endpoint(row, model)
    assert found.ok, found.message
    assert found.structured is not None, found.message
    said = {"name": row.name, "base_url": row.base_url, "model_names": row.model_names}
    kept = {"timeout_s": row.timeout_s, "max_concurrency": row.max_concurrency, "structured": found.structured}
    assert admin.send("PUT", f"/endpoints/{row.pk}", said | kept).status_code == 200
    row.refresh_from_db()
    return found


def launched(admin: Program, row: Endpoint, model: str, typed: list[dict[str, str]], **changes: Any) -> Batch:
    settings = {"models": dict.fromkeys(ROLES, f"{row.pk}/{model}"), "stages": SMALL, "cap": 1.0} | changes
    made = admin.post("/batches", {"name": f"Real: {model}", "typed": typed, "settings": settings})
    assert made.status_code == 202, made.content
    return run_batch_to_end(Batch.objects.get(pk=made.json()["id"]))


def counted(server: Server) -> dict[str, float]:
    """Tokens and requests as the server itself counts them."""
    with urllib.request.urlopen(server.url.removesuffix("/v1") + "/metrics", timeout=10) as said:
        text = said.read().decode()
    names = {"prompt": "vllm:prompt_tokens_total", "written": "vllm:generation_tokens_total"}
    names |= {"requests": "vllm:request_success_total"}
    found = {}
    for short, name in names.items():
        numbers = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        assert numbers, f"{name} is not among the server's metrics"
        found[short] = sum(map(float, numbers))
    return found


def requests_of(batch: Batch) -> list[dict[str, Any]]:
    return [load_value(Body, call.request_id) for call in LLMCall.objects.filter(batch=batch).order_by("id")]


def tell(batch: Batch) -> None:
    used = batch.calls.aggregate(prompt=Sum("prompt_tokens"), written=Sum("completion_tokens"), s=Sum("seconds"))
    print({name: value for name, value in build_report(batch).items() if value} | used)


def test_a_batch_of_useless_replies_ends_with_clear_failures_and_every_token_counted(
    admin: Program, server: Server
) -> None:
    row = register(admin, server)
    assert tried(admin, row, "terse").structured == "json_schema"
    before = counted(server)
    batch = launched(admin, row, "brief", TYPED)
    tell(batch)
    after = counted(server)
    calls = LLMCall.objects.filter(batch=batch)
    assert batch.state == "done"
    assert (batch.requests, batch.lost, calls.count()) == (calls.count(), 0, after["requests"] - before["requests"])
    assert calls.count() >= 2 * 3, "each theme was asked for, and asked again"
    used = calls.aggregate(prompt=Sum("prompt_tokens"), written=Sum("completion_tokens"), cost=Sum("cost"))
    assert used["prompt"] == after["prompt"] - before["prompt"] > 0
    assert used["written"] == after["written"] - before["written"] > 0
    assert batch.spent == pytest.approx(used["cost"])
    assert batch.spent == pytest.approx((used["prompt"] * 2 + used["written"] * 8) / 1e6)
    held = [sent["parameters"]["response_format"]["type"] for sent in requests_of(batch)]
    assert set(held) == {"json_schema"}, "structured output was asked for, and no request was refused"
    assert set(batch.items.values_list("state", "reason")) == {("failed", "malformed")}
    for item in batch.items.all():
        assert "gave no usable reply in 3 tries" in item.message
        assert "cut off at the limit of tokens" in item.message
        assert LLMCall.objects.get(key=item.call_key).state == "done", "the offending reply is a click away"
    assert batch.items.values("signature").distinct().count() == 1, "failures of a kind are one"
    assert not BatchProduct.objects.exists()
    assert not Environment.objects.exists()
    shown = admin.get(f"/batches/{batch.pk}/failures").json()
    assert [row["count"] for row in (shown["data"] if isinstance(shown, dict) else shown)] == [2]
    first = calls.count()
    again = admin.post(f"/batches/{batch.pk}/retry", {})
    assert again.status_code == 200, again.content
    assert run_batch_to_end(batch).state == "done"
    assert batch.requests == 2 * first, "what failed was asked anew, not replayed"
    assert counted(server)["requests"] - before["requests"] == batch.requests


def test_replies_that_a_grammar_forms_are_read_and_their_content_is_judged(admin: Program, server: Server) -> None:
    """Each is JSON of the right shape, so the stages go on to what it says: nothing, which is no plan."""
    row = register(admin, server)
    assert tried(admin, row, "terse").structured == "json_schema"
    batch = launched(admin, row, "terse", TYPED[:1])
    tell(batch)
    (item,) = batch.items.all()
    assert (batch.state, item.state) == ("done", "failed")
    assert "cut off" not in item.message
    replies = [load_value(Body, call.reply_id)["message"]["content"] for call in batch.calls.all()]
    assert all(text.startswith("{") and text.endswith("}") for text in replies), replies
    assert not BatchProduct.objects.exists()


def test_a_teacher_of_no_sense_calls_tools_in_the_sandbox_and_nothing_is_kept_of_it(
    admin: Program, server: Server
) -> None:
    """Environment and task are the scripted provider's; the teacher is the real server's, held to calls of tools."""
    row = register(admin, server)
    assert tried(admin, row, "caller").calls_tools
    models = dict.fromkeys(ROLES, SCRIPTED) | {"teacher": f"{row.pk}/caller"}
    settings = BatchSettings.model_validate({"models": models, "stages": SMALL, "cap": 5.0})
    batch = run_batch_to_end(
        create_batch(
            User.objects.get(role="admin"),
            "Real teacher",
            [build_theme_spec(list_bundled_themes()[0])],
            settings,
            ENVSCALER,
        )
    )
    tell(batch)
    assert batch.state == "done"
    asked = [sent for sent in requests_of(batch) if sent.get("tools")]
    assert asked
    assert {len(sent["tools"]) for sent in asked} == {Environment.objects.get().tool_count}
    real = batch.calls.filter(model="real/caller")
    replies = [load_value(Body, call.reply_id)["message"] for call in real.filter(state="done")]
    calls = [call for message in replies for call in message.get("tool_calls", [])]
    assert calls, "the server made calls of what it wrote, and they were read"
    names = {tool["name"] for tool in asked[0]["tools"]}
    assert {call["name"] for call in calls if not call.get("error")} <= names
    assert real.aggregate(cost=Sum("cost"))["cost"] == pytest.approx(batch.spent)
    assert batch.spent > 0
    assert not Trajectory.objects.filter(source="synthesis", reward=1).exists()
    ended = batch.items.exclude(state="kept")
    assert ended
    assert all(item.message and item.signature for item in ended)


def test_a_deadline_that_is_shorter_than_a_reply_loses_calls_and_a_retry_makes_new_ones(
    admin: Program, server: Server
) -> None:
    row = register(admin, server, timeout_s=1)
    batch = launched(admin, row, "slow", TYPED[:1])
    tell(batch)
    (item,) = batch.items.all()
    assert (batch.state, item.state, item.reason) == ("done", "failed", "timeout")
    assert "did not reply within" in item.message
    assert re.search(r"tried [2-9] times", item.message)
    (call,) = batch.calls.all()
    assert (call.state, call.reason, call.key) == ("failed", "timeout", item.call_key)
    assert (call.requests, call.lost, call.open) == (batch.requests, batch.lost, 0)
    assert call.lost == call.requests >= 2
    assert (call.completion_tokens, batch.spent) == (0, 0.0)
    before = call.requests
    services.retry_items(User.objects.get(role="admin"), batch.pk)
    assert run_batch_to_end(batch).state == "done"
    call.refresh_from_db()
    assert call.lost == call.requests == batch.lost >= before + 2
    assert BatchItem.objects.get(pk=item.pk).state == "failed"
