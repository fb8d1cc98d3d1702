"""Trying again over the API: an item, a stage, all that failed; replies at fault are asked for anew."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from synthesis.contracts import Message
from synthesis.errors import InputError
from synthesis.llm.asker import TRIES
from synthesis.llm.calls import Site, StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.cost import CostMeter
from tests.batches.support import make_batch, settings_at, work_off
from tests.batches.table import answer
from tests.fixtures.api import Program, problem, program
from tests.fixtures.llm import Request, Scripted, llm_server, say
from tests.rollouts_web.support import person
from webapp.batches.engine.call_store import CallWriter, ItemStore
from webapp.batches.models import Batch, BatchItem, Body, LLMCall

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def caller() -> Program:
    return program(person("operator"), "read", "synthesise")


def states(batch: Batch) -> dict[str, str]:
    return dict(batch.items.filter(level="theme").values_list("path", "state"))


def test_three_malformed_replies_are_set_aside_and_asked_for_again(caller: Program) -> None:
    well = False

    def moody(request: Request) -> Scripted:
        return answer(request) if well else say("no JSON")

    with llm_server(moody) as server:
        batch = work_off(make_batch(None, settings_at(server.url), ["one"]))
        item = BatchItem.objects.get()
        assert (item.state, item.reason, len(server.requests)) == ("failed", "malformed", TRIES)
        assert set(LLMCall.objects.values_list("state", flat=True)) == {"done"}
        # A second look at stored replies asks nothing: they stay until a person asks for another try.
        caller.post(f"/batches/{batch.pk}/retry", {"item": item.pk})
        assert list(LLMCall.objects.values_list("state", flat=True)) == ["aside"] * TRIES
        work_off(batch)
        assert (states(batch), len(server.requests)) == ({"one": "failed"}, 2 * TRIES)
        run = item.runs.get(stage="assemble")
        assert (run.attempt, run.requests, run.replayed, len(run.calls)) == (2, TRIES, 0, TRIES)
        assert set(LLMCall.objects.values_list("state", "requests")) == {("done", 2)}
        well = True
        seen = caller.post(f"/batches/{batch.pk}/retry", {}).json()
        assert (seen["state"], seen["items"]["theme"]) == ("running", {"waiting": 1})
        work_off(batch)
    assert set(batch.items.values_list("state", flat=True)) == {"kept"}
    assert LLMCall.objects.filter(state="aside").count() == TRIES - 1  # later tries of the same question


def test_a_stage_or_all_that_failed_is_tried_again(caller: Program) -> None:
    broken: dict[str, str] = {"one": "code_attributes", "two": "call", "three": "call"}

    def ill(request: Request) -> Scripted:
        text: Any = request["messages"][0]["content"]
        return (
            say("no JSON") if any(f"{stage} 0 of {name}" in text for name, stage in broken.items()) else answer(request)
        )

    with llm_server(ill) as server:
        batch = work_off(make_batch(None, settings_at(server.url), [*broken, "poor"]))
        ends = dict(batch.items.filter(level="theme").values_list("path", "stage"))
        assert ends == {"one": "assemble", "two": "assess", "three": "assess", "poor": "assemble"}
        assert states(batch) == {"one": "failed", "two": "failed", "three": "failed", "poor": "rejected"}
        broken.clear()
        url = f"/batches/{batch.pk}/retry"
        assert caller.post(url, {"stage": "assess"}).json()["items"]["theme"] == {
            "failed": 1,
            "rejected": 1,
            "waiting": 2,
        }
        work_off(batch)
        assert states(batch) == {"one": "failed", "two": "kept", "three": "kept", "poor": "rejected"}
        caller.post(url, {})
        work_off(batch)
        assert states(batch)["one"] == "kept"
        assert "nothing to try again" in problem(caller.post(url, {}), 409)["detail"]
        poor = len([one for one in server.requests if "of poor" in one["messages"][0]["content"]])
        caller.post(url, {"rejected": True})
        work_off(batch)
        assert states(batch)["poor"] == "rejected"
        asked = [one for one in server.requests if "of poor" in one["messages"][0]["content"]]
        assert len(asked) == poor + 1


def test_a_reply_that_cannot_be_stored_is_the_fault_of_its_own_item_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Body, "LARGEST", 2_000)
    batch = make_batch(None, settings_at("http://127.0.0.1:9/v1"), ["one"], start=False)
    item = batch.items.get()

    async def ask(writer: CallWriter, words: str) -> Reply | Exception:
        store = ItemStore(writer, item.pk)
        call = StageCall(
            site=Site(role="author", stage="s", item=words[:9]), messages=(Message(role="user", content=words),)
        )
        key = call.key("m")
        try:
            await store.begin(key, call, "m")
            return await store.keep(key, call, Reply(message=Message(role="assistant", content="Yes.")))
        except InputError as error:
            return error

    async def all_at_once(threads: ThreadPoolExecutor) -> list[Reply | Exception]:
        writer = CallWriter(batch.pk, 0, threads, CostMeter())
        return await asyncio.gather(*(ask(writer, words) for words in ["a", "b" * 9_000, "c", "d" * 9_000, "e"]))

    with ThreadPoolExecutor(1) as threads:
        found = asyncio.run(all_at_once(threads))
    assert [type(one).__name__ for one in found] == ["Reply", "InputError", "Reply", "InputError", "Reply"]
    assert LLMCall.objects.filter(state="done").count() == 3
    batch.refresh_from_db()
    assert batch.requests == 3
