"""The asker over HTTP: retries that count, pauses that all keep, one gate for all roles, keys that stay away."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from synthesis.contracts import Message
from synthesis.errors import InputError, LLMError
from synthesis.llm import Endpoint
from synthesis.llm import client as client_module
from synthesis.llm.asker import Asker
from synthesis.llm.client import connect_to_endpoint, open_models
from synthesis.llm.cost import CostMeter, Price
from synthesis.llm.embedding import EndpointVectors
from synthesis.llm.store import FileStore, MemoryStore
from synthesis.llm.wire import encode_body
from tests.fixtures.llm import DROP, Scripted, hang, html, llm_server, message, raw, refuse, say
from tests.llm_layer.support import stage_call

KEY = "sk-secret-0123456789"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_WAIT_S", 0.01)


def endpoint(url: str, **changes: Any) -> Endpoint:
    return Endpoint(**({"name": "far", "base_url": url, "api_key": KEY, "max_retries": 2} | changes))


def ask(url: str, store: Any, count: int = 1, meter: CostMeter | None = None, **changes: Any) -> list[Any]:
    async def run() -> list[Any]:
        async with open_models({"author": (endpoint(url, **changes), "m")}) as models:
            asker = Asker(models, store, meter or CostMeter())
            calls = [asker.reply(stage_call(sample=number)) for number in range(count)]
            return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(run())


def test_each_retry_is_begun_counted_and_kept_as_one_reply() -> None:
    store, meter = MemoryStore(), CostMeter({"far/m": Price(prompt=1)})
    with llm_server([refuse(500, "oops"), html(), say("Hello.")]) as server:
        (reply,) = ask(server.url, store, meter=meter)
    assert len(server.requests) == len(store.begun) == 3
    assert (reply.usage.requests, reply.usage.lost, len(store.replies)) == (3, 2, 1)
    assert meter.total.usage == reply.usage


def test_after_the_last_retry_the_call_failed_and_its_key_is_free() -> None:
    store, meter = MemoryStore(), CostMeter()
    with llm_server([DROP, DROP, DROP, say("Hello.")]) as server:
        (error,) = ask(server.url, store, meter=meter)
        assert (error.reason, error.requests, len(store.begun)) == ("unreachable", 3, 3)
        assert (meter.total.usage.requests, meter.total.usage.lost) == (3, 3)
        (reply,) = ask(server.url, store)
    assert reply.message.content == "Hello."
    assert len(store.failed) == 1


def test_what_waits_at_the_gate_has_not_begun_and_is_not_late() -> None:
    """64 calls, 2 at once: a deadline shorter than the whole queue takes is no reason to fail."""
    store = MemoryStore()
    begun_at_most: list[int] = []

    def script(request: dict[str, Any]) -> Scripted:
        begun_at_most.append(len(store.begun) - request["_number"])
        return message("Hello.", seconds=0.02)

    with llm_server(script) as server:
        replies = ask(server.url, store, count=64, max_concurrency=2, deadline_s=0.4, max_retries=0)
    assert not [reply for reply in replies if isinstance(reply, LLMError)]
    assert server.most_open <= 2
    assert max(begun_at_most) <= 2, "a crash loses what is in flight, not what waits"


def test_one_gate_for_all_roles_of_an_endpoint() -> None:
    async def run(url: str) -> None:
        here = endpoint(url, max_concurrency=3)
        there = endpoint(url, name="another", max_concurrency=1)
        chosen = {"author": (here, "a"), "tester": (here.model_copy(), "b"), "judge": (there, "c")}
        async with open_models(chosen) as models:
            assert models["author"].connection is models["tester"].connection is not models["judge"].connection
            hello = [Message(role="user", content="Hello")]
            await asyncio.gather(*[models[role].complete(hello) for role in ("author", "tester") for _ in range(8)])

    with llm_server(lambda request: message("Hello.", seconds=0.03)) as server:
        asyncio.run(run(server.url))
    assert len(server.requests) == 16
    assert server.most_open <= 3


def test_a_pause_that_a_server_asks_for_is_kept_by_all() -> None:
    at: list[float] = []

    def script(request: dict[str, Any]) -> Scripted:
        at.append(time.monotonic())
        return refuse(429, "slow down", retry_after="1") if request["_number"] == 0 else say("Hello.")

    with llm_server(script) as server:
        replies = ask(server.url, MemoryStore(), count=6, max_concurrency=1)
    assert [reply.usage.lost for reply in replies].count(1) == 1
    assert at[1] - at[0] >= 1.0, "nobody else asked meanwhile"


def test_a_longer_pause_than_the_deadline_ends_the_call_and_is_no_wait_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "LONGEST_RETRY_AFTER_S", 0.2)
    with llm_server([refuse(503, "later", retry_after="1e9"), say("Hello.")]) as server:
        first, second = ask(server.url, MemoryStore(), count=2, max_concurrency=1)
    assert (first.reason, first.requests, first.retry_after) == ("failed", 1, 1e9)
    assert second.message.content == "Hello."


@pytest.mark.parametrize("words", ["You exceeded your current quota", "insufficient_quota"])
def test_no_money_left_is_not_asked_for_again(words: str) -> None:
    with llm_server([refuse(429, words)]) as server:
        (error,) = ask(server.url, MemoryStore())
    assert (error.reason, len(server.requests)) == ("refused", 1)


def test_a_deadline_counts_all_tries() -> None:
    with llm_server([hang()]) as server:
        (error,) = ask(server.url, MemoryStore(), timeout_s=0.2, deadline_s=0.5, max_retries=9)
    assert (error.reason, error.requests <= 4) == ("timeout", True)


def test_keys_are_in_nothing_that_is_stored(tmp_path: Any) -> None:
    path = tmp_path / "calls.jsonl"
    echoes = [refuse(500, f"bad key {KEY}"), say(f"Your key is {KEY}, is it?", reasoning=KEY), refuse(401, KEY)]
    with FileStore(path) as store, llm_server(echoes) as server:
        found = ask(server.url, store, count=1) + ask(server.url, store, count=2)
    assert server.requests[0]["_headers"]["authorization"] == f"Bearer {KEY}"
    assert KEY not in path.read_text()
    assert KEY not in str(found)
    assert "Your key is [key]" in path.read_text()


def test_a_short_key_is_a_word_that_replies_may_hold() -> None:
    with llm_server([say("The box is EMPTY.")]) as server:
        (reply,) = ask(server.url, MemoryStore(), api_key="EMPTY")
    assert reply.message.content == "The box is EMPTY."


def vectors(*listed: Any, **fields: Any) -> Scripted:
    data = [{"object": "embedding", "index": n, "embedding": one} for n, one in enumerate(listed)]
    return raw(200, json.dumps({"data": data, "usage": {"prompt_tokens": 3, "total_tokens": 3}} | fields))


def embedded(url: str, texts: list[str], **changes: Any) -> Any:
    async def run() -> Any:
        async with connect_to_endpoint(endpoint(url, **changes)) as connection:
            return await connection.embed("e", texts)

    return asyncio.run(run())


def lengths(request: dict[str, Any]) -> Scripted:
    listed = [{"index": n, "embedding": [len(text), 1]} for n, text in enumerate(request["input"])]
    return vectors(data=listed[::-1])


def test_texts_are_embedded_in_batches_and_in_their_order() -> None:
    texts = ["x" * (1 + number) for number in range(40)]
    with llm_server(lambda request: refuse(500, "oops") if request["_number"] == 0 else lengths(request)) as server:
        found = embedded(server.url, texts)
    assert [vector[0] for vector in found.vectors] == list(range(1, 41))
    assert [len(request["input"]) for request in server.requests].count(8) in (1, 2)
    assert {request["_path"] for request in server.requests} == {"/v1/embeddings"}
    assert (found.usage.requests, found.usage.lost, found.usage.prompt_tokens) == (4, 1, 9)
    assert embedded("http://127.0.0.1:9/v1", []).vectors == ()


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (html(), "no list of embeddings"),
        (vectors([1, 2]), "not 2 vectors"),
        (vectors([1, 2], [1]), "do not fit"),
        (vectors([1, 2], []), "no list of numbers"),
        (vectors([1, 2], [1, "2"]), "no list of numbers"),
        (vectors([1, 2], [1, True]), "no list of numbers"),
        (vectors([1, 2], [1, float("nan")]), "NaN, which is not a number"),
        (vectors([1, 2], [1, 1e300]), "too large"),
        (vectors(data=[{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [2]}]), "do not fit"),
        (vectors(data=[3, 4]), "no list of numbers"),
        (refuse(404, "no such model"), "no such model"),
    ],
)
def test_vectors_that_are_none_are_no_data(reply: Scripted, words: str) -> None:
    with llm_server([reply]) as server, pytest.raises(LLMError, match=words):
        embedded(server.url, ["a", "b"], max_retries=0)


def test_batches_of_different_lengths_do_not_fit_each_other() -> None:
    def script(request: dict[str, Any]) -> Scripted:
        count = len(request["input"])
        return vectors(*[[1.0] * count] * count)

    with llm_server(script) as server, pytest.raises(LLMError, match="different lengths"):
        embedded(server.url, ["a"] * 20)


@pytest.mark.parametrize("text", ["", "x" * 40_000])
def test_a_text_that_cannot_be_embedded_is_named(text: str) -> None:
    with pytest.raises(InputError, match="Text 1 has"):
        embedded("http://127.0.0.1:9/v1", ["a", text])


def test_a_vectoriser_of_themes_cuts_and_scales() -> None:
    pytest.importorskip("numpy")
    with llm_server(lengths) as server:
        rows = EndpointVectors(endpoint(server.url), "e")(["", "x" * 50_000])
    assert [len(text) for text in server.requests[0]["input"]] == [1, 6_000]
    assert [round(float((row * row).sum()), 3) for row in rows] == [1.0, 1.0]


def test_a_body_holds_any_value_that_python_spells_as_json() -> None:
    values = ["é\u2028\x00", "\ud800", 10**30, 1e22, -0.0, True, None, (1, 2), {"a": {"b": []}}]
    for value in values:
        assert json.loads(encode_body({"value": value})) == json.loads(json.dumps({"value": value}))
