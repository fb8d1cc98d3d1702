"""The chat server over transformers: calls read as training reads them, temperatures, refusals that name why."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

import httpx
from trl.chat_template_utils import qwen3_training_chat_template

from synthesis.contracts import Message, ToolCall
from synthesis.llm import Endpoint
from synthesis.llm.client import connect_to_endpoint
from tests.training.small import saved, written
from training import chat_server, templates
from training.chat_server import ChatModel, ChatServer, RefusedChat, make_handler
from training.policy import Generation

pytestmark = pytest.mark.slow  # loads torch
TOOL = {"name": "find_day", "description": "Finds a day.", "parameters": {"type": "object", "properties": {}}}
ASKED: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": [{"type": "text", "text": "Which day?"}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "find_day", "arguments": '{"week": 3}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
    ],
    "tools": [{"type": "function", "function": TOOL}],
}  # fmt: skip
CALLS = Message(role="assistant", tool_calls=(ToolCall(name="find_day", arguments={"week": 4}),))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ChatModel:
    return ChatModel(saved(tmp_path_factory.mktemp("model")), context=400, at_once=4)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """What the model writes is a call; (sequences, temperature) of each batch."""
    seen: list[tuple[int, float]] = []

    def draw(_: Any, sequences: Any, most: Any, seeds: Any, *, temperature: float, **more: Any) -> list[Generation]:
        seen.append((len(sequences), temperature))
        ids = tuple(written(CALLS))
        return [Generation(ids=ids, logprobs=(0.0,) * len(ids), cut=False) for _ in sequences]

    monkeypatch.setattr(chat_server, "continue_sequences", draw)
    return seen


def test_a_call_is_read_as_training_reads_it(model: ChatModel, drawn: list[tuple[int, float]]) -> None:
    told = model.complete(ASKED | {"temperature": 0})
    [choice] = told["choices"]
    [call] = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert (call["function"]["name"], call["function"]["arguments"]) == ("find_day", '{"week": 4}')
    assert told["usage"]["completion_tokens"] == len(written(CALLS))
    assert told["usage"]["prompt_tokens"] > 20
    assert drawn == [(1, 0.0)]


def test_requests_that_wait_together_are_drawn_together_each_at_its_temperature(
    model: ChatModel, drawn: list[tuple[int, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_server, "GATHER_S", 2.0)
    manners = [0.0, 1.0, 1.0, 1.0]
    threads = [threading.Thread(target=model.complete, args=(ASKED | {"temperature": t},)) for t in manners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(drawn) == [(1, 0.0), (3, 1.0)]


@pytest.mark.parametrize(
    ("more", "param", "words"),
    [
        ({"stream": True}, "stream", "alone"),
        ({"top_k": 4}, "top_k", "not supported"),
        ({"tool_choice": "required"}, "tool_choice", "alone"),
        ({"response_format": {"type": "json_object"}}, "response_format", "plain text"),
        ({"temperature": "hot"}, "temperature", "number"),
        ({"messages": []}, "messages", "list"),
        ({"messages": [{"role": "user", "content": "day " * 400}]}, "messages", "maximum context length is 400"),
    ],
)
def test_what_is_not_honoured_is_refused(model: ChatModel, more: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(RefusedChat, match=words) as refused:
        model.complete(ASKED | more)
    assert refused.value.param == param


def test_variables_of_the_template_switch_thinking_and_earlier_reasoning_is_seen(
    model: ChatModel, drawn: list[tuple[int, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ES Tables 3, 9, and AF 3.4: by Qwen3's template as TRL trains it."""
    seen: list[str] = []

    def render(*given: Any, **named: Any) -> str:
        seen.append(templates.render_conversation(*given, **named))
        return seen[-1]

    monkeypatch.setattr(chat_server, "render_conversation", render)
    monkeypatch.setattr(model.tokenizer, "chat_template", qwen3_training_chat_template)
    monkeypatch.setattr(model, "window", 10_000)
    messages = [dict(one) for one in ASKED["messages"]]
    messages[2]["reasoning_content"] = "Week 3?"
    for thinking in (True, False):
        model.complete(ASKED | {"messages": messages, "chat_template_kwargs": {"enable_thinking": thinking}})
    on, off = seen
    assert off == f"{on}<think>\n\n</think>\n\n"
    assert "<think>\nWeek 3?\n</think>" in on
    for given, words in (
        ({"enable_thought": True}, "reads no 'enable_thought' .known: enable_thinking"),
        ({"chat_template": "x"}, "reads no 'chat_template'"),
        ({"tools": []}, "reads no 'tools'"),
        ({"enable_thinking": []}, "no plain value"),
    ):
        with pytest.raises(RefusedChat, match=words):
            model.complete(ASKED | {"chat_template_kwargs": given})


async def _chat(url: str, key: str) -> Any:
    endpoint = Endpoint(name="own", base_url=f"{url}/v1", api_key=key)  # type: ignore[arg-type]
    async with connect_to_endpoint(endpoint) as connection:
        return await connection.chat("m").complete([Message(role="user", content="Hello")], max_tokens=3, temperature=1)


def test_the_client_of_this_house_speaks_with_it_over_http(model: ChatModel, tmp_path: Path) -> None:
    import asyncio

    with ChatServer(("127.0.0.1", 0), make_handler(model, "a-key")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert httpx.get(f"{url}/health").status_code == 200
        assert httpx.post(f"{url}/v1/chat/completions", json=ASKED).status_code == 401
        reply = asyncio.run(_chat(url, "a-key"))
        assert 1 <= reply.usage.completion_tokens <= 3
        assert reply.usage.prompt_tokens > 0
        bad = httpx.post(f"{url}/v1/chat/completions", content=b"[", headers={"Authorization": "Bearer a-key"})
        assert (bad.status_code, bad.json()["error"]["code"]) == (400, "malformed_body")
        server.shutdown()


def test_connections_wait_while_the_server_accepts_none(model: ChatModel) -> None:
    with ChatServer(("127.0.0.1", 0), make_handler(model, "")) as server, ExitStack() as held:
        for _ in range(64):
            held.enter_context(socket.create_connection(("127.0.0.1", server.server_port), timeout=5))


def test_a_folder_without_a_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert chat_server.main([str(tmp_path), "--port", "1"]) == 1
    assert "holds no model" in capsys.readouterr().err
