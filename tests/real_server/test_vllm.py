"""The same code as everywhere against a real server: what it says is of no use, how it is said must hold."""

from __future__ import annotations

import ast
import asyncio
import importlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field

from synthesis.contracts import Message, Tool, ToolCall
from synthesis.errors import LLMError, MalformedReply
from synthesis.llm import Endpoint
from synthesis.llm.asker import Asker
from synthesis.llm.client import connect_to_endpoint, open_models
from synthesis.llm.cost import CostMeter, Price
from synthesis.llm.embedding import EndpointVectors
from synthesis.llm.store import MemoryStore
from synthesis.llm.structured import build_response_format
from synthesis.rollout import AttemptSetting
from synthesis.runtime import Sandbox
from tests.llm_layer.support import stage_call
from tests.real_server.conftest import KEY, WINDOW, Server
from tests.rollout.support import chat_attempts

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
PING = Tool(
    name="ping",
    description="Says that calls arrive.",
    parameters={
        "type": "object",
        "properties": {"word": {"type": "string", "enum": ["hello", "bye"]}},
        "required": ["word"],
        "additionalProperties": False,
    },
)
QUOTE, BLANKS = 1, (197, 198, 201, 220)
"""Ids of the tiny model's tokens for a double quote, and for tab, line feed, carriage return and space."""
HELLO = [Message(role="user", content="Hello")]


class Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    word: Literal["alpha", "beta"]
    count: int = Field(ge=0, le=20)


def endpoint(server: Server, **changes: Any) -> Endpoint:
    fields: dict[str, Any] = {"name": "real", "base_url": server.url, "api_key": KEY, "max_retries": 0}
    return Endpoint(**(fields | changes))


def with_model(server: Server, work: Callable[[Any], Awaitable[T]], model: str = "tiny", **changes: Any) -> T:
    async def run() -> T:
        async with connect_to_endpoint(endpoint(server, **changes)) as connection:
            return await work(connection.chat(model))

    return asyncio.run(run())


def test_models_are_listed(server: Server) -> None:
    async def run() -> list[str]:
        async with connect_to_endpoint(endpoint(server)) as connection:
            return await connection.models()

    assert set(asyncio.run(run())) == set(server.names)


def test_tokens_are_counted_as_the_server_counts_them(server: Server) -> None:
    reply = with_model(server, lambda model: model.complete(HELLO, max_tokens=12, ignore_eos=True))
    assert (reply.finish_reason, reply.model) == ("length", "tiny")
    assert (reply.usage.completion_tokens, reply.usage.requests, reply.usage.lost) == (12, 1, 0)
    assert reply.usage.prompt_tokens > len("Hello"), "the model reads bytes, and a template around them"


def test_a_call_of_a_tool_arrives_and_its_result_goes_back(server: Server) -> None:
    """The server's grammar makes a call of whatever the model says; no quote and no blank makes its arguments empty."""
    quiet = {str(number): -100 for number in (QUOTE, *BLANKS)}

    async def work(model: Any) -> tuple[Any, Any]:
        forced = {"tool_choice": "required", "logit_bias": quiet, "max_tokens": 300, "temperature": 0}
        first = await model.complete(HELLO, [PING], **forced)
        results = [Message(role="tool", content="ok", tool_call_id=call.id) for call in first.message.tool_calls]
        return first, await model.complete([*HELLO, first.message, *results], [PING], max_tokens=8)

    first, second = with_model(server, work)
    assert [(call.name, call.arguments, call.error) for call in first.message.tool_calls] == [("ping", {}, "")]
    assert first.message.tool_calls[0].id
    assert first.finish_reason in ("tool_calls", "stop")
    assert second.usage.prompt_tokens > first.usage.prompt_tokens


def test_arguments_of_no_use_are_an_error_of_the_call_not_of_ours(server: Server) -> None:
    """Servers are sent what a model wrote before, whatever it was."""
    odd = ToolCall(id="1", name="no such tool!", raw="{bad", error="the arguments are not valid JSON")
    talk = [*HELLO, Message(role="assistant", tool_calls=(odd,)), Message(role="tool", content="?", tool_call_id="1")]
    assert with_model(server, lambda model: model.complete(talk, [PING], max_tokens=4)).usage.completion_tokens <= 4


def structured(server: Server, store: MemoryStore, **changes: Any) -> tuple[Wanted, CostMeter]:
    async def run() -> tuple[Wanted, CostMeter]:
        async with open_models({"author": (endpoint(server, **changes), "tiny")}) as models:
            meter = CostMeter({"real/tiny": Price(prompt=1, completion=1)}, cap=1.0)
            asker = Asker(models, store, meter)
            return await asker.structured(stage_call("Say a word.", max_tokens=64), Wanted), meter

    return asyncio.run(run())


def test_replies_are_held_to_a_schema_where_the_endpoint_is_known_for_it(server: Server) -> None:
    store = MemoryStore()
    found, meter = structured(server, store, structured="json_schema")
    assert found.word in ("alpha", "beta")
    assert len(store.begun) == len(store.replies) == 1
    assert meter.spent == pytest.approx(meter.total.cost)
    assert meter.spent > 0
    again, meter = structured(server, store, structured="json_schema")
    assert (again, meter.replayed, meter.spent) == (found, 1, 0)


def test_words_alone_do_not_hold_a_model_of_no_sense_and_each_try_counts(server: Server) -> None:
    store = MemoryStore()
    with pytest.raises(MalformedReply, match="no usable reply in 3 tries"):
        structured(server, store)
    assert len(store.begun) == len(store.replies) == 3
    assert all(reply.usage.completion_tokens for reply in store.replies.values())


@pytest.mark.parametrize(
    ("model", "parameters", "words", "reason", "said"),
    [
        ("gone", {}, "Hello", "refused", "no such model"),
        ("tiny", {"temperature": -1}, "Hello", "refused", "refused the request"),
        ("tiny", {"max_tokens": 4}, "x" * (WINDOW + 500), "context", "longer than the model"),
    ],
)
def test_refusals_of_a_real_server_are_told_apart(
    server: Server, model: str, parameters: dict[str, Any], words: str, reason: str, said: str
) -> None:
    message = [Message(role="user", content=words)]
    with pytest.raises(LLMError, match=said) as caught:
        with_model(server, lambda one: one.complete(message, **parameters), model, max_retries=2)
    assert (caught.value.reason, caught.value.requests) == (reason, 1)


def test_a_wrong_key_is_refused_and_shown_nowhere(server: Server) -> None:
    with pytest.raises(LLMError, match="refused the key") as caught:
        with_model(server, lambda model: model.complete(HELLO), api_key="sk-of-somebody-else")
    assert "sk-of-somebody-else" not in str(caught.value)


def test_a_reply_that_takes_too_long_is_given_up_and_the_server_goes_on(server: Server) -> None:
    with pytest.raises(LLMError) as caught:
        with_model(
            server,
            lambda model: model.complete(HELLO, max_tokens=1_900, ignore_eos=True),
            timeout_s=0.3,
            max_retries=1,
        )
    assert (caught.value.reason, caught.value.requests) == ("timeout", 2)
    assert with_model(server, lambda model: model.complete(HELLO, max_tokens=2)).message is not None


def test_many_at_once_keep_to_the_gate_and_all_come_back(server: Server) -> None:
    async def work(model: Any) -> list[Any]:
        return await asyncio.gather(*[model.complete(HELLO, max_tokens=8, seed=number) for number in range(16)])

    replies = with_model(server, work, max_concurrency=4)
    assert len(replies) == 16
    assert all(reply.usage.requests == 1 for reply in replies)


def test_an_attempt_and_a_conversation_come_to_an_end_that_is_the_agents(server: Server, sandbox: Sandbox) -> None:
    parameters = {"max_tokens": 32}
    alone = chat_attempts(
        sandbox, server.url, api_key=KEY, parameters=parameters, setting=AttemptSetting(max_turns=3), count=2
    )
    talk = chat_attempts(
        sandbox,
        server.url,
        api_key=KEY,
        parameters=parameters,
        setting=AttemptSetting(max_turns=3, conversational=True),
    )
    for attempt in alone:
        assert attempt.outcome in ("failed", "agent_error", "truncated")
        assert attempt.reward is not None
        assert attempt.reward.reward == 0
    assert talk[0].outcome in ("failed", "agent_error", "truncated", "infra_error")
    assert (talk[0].reward is None) == (talk[0].outcome == "infra_error"), "a user of no sense is never a reward of 0"


@pytest.mark.django_db
def test_the_page_s_trial_says_what_a_real_server_does(server: Server) -> None:
    from webapp.endpoints import services
    from webapp.endpoints.trial import look_for_models, try_endpoint

    row = services.save_endpoint(None, services.EndpointChanges("real", server.url, KEY, structured="json_schema"))
    services.save_models(None, row.pk, look_for_models(row))
    found = try_endpoint(row, "tiny")
    assert found.ok, found.message
    assert "tokens" in found.message


def test_texts_are_embedded(embedding_server: Server) -> None:
    async def run() -> Any:
        async with connect_to_endpoint(endpoint(embedding_server)) as connection:
            return await connection.embed("tiny", [f"text {number}" for number in range(20)] + ["text 3"])

    found = asyncio.run(run())
    assert (len(found.vectors), {len(vector) for vector in found.vectors}) == (21, {64})
    assert found.vectors[3] == pytest.approx(found.vectors[20], abs=0.05)
    assert (found.usage.requests, found.usage.prompt_tokens > 100) == (2, True)
    rows = EndpointVectors(endpoint(embedding_server), "tiny")(["a", "b"])
    assert float((rows[0] * rows[0]).sum()) == pytest.approx(1.0, abs=1e-3)


def asked_shapes() -> list[type[BaseModel]]:
    """The shape of every `kit.ask(role, stage, words, SHAPE, ...)` in `synthesis`."""
    found: dict[str, type[BaseModel]] = {}
    for path in sorted((ROOT / "synthesis").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            named = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "ask" and len(node.args) > 3
            if named and isinstance(node.args[3], ast.Name):
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                found[f"{module}.{node.args[3].id}"] = getattr(importlib.import_module(module), node.args[3].id)
    return list(found.values())


def test_every_shape_that_stages_ask_for_is_one_that_a_server_can_hold(server: Server) -> None:
    shapes = asked_shapes()
    assert len(shapes) > 8, "the stages ask in another way now: find their shapes anew"
    refused: list[str] = []

    async def work(model: Any) -> None:
        for shape in shapes:
            try:
                await model.complete(HELLO, max_tokens=8, response_format=build_response_format(shape))
            except LLMError as error:
                refused.append(f"{shape.__module__}.{shape.__name__}: {error}")

    with_model(server, work)
    assert not refused, "\n".join(refused)
