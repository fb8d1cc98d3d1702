"""The OpenAI-compatible client: retries that count, limits that hold, and a key that goes nowhere else."""

from __future__ import annotations

import asyncio
import email.utils
import json
import time
from typing import Any

import pytest
from pydantic import ValidationError

from synthesis.contracts import Message, Tool, ToolCall
from synthesis.errors import FormatError, InputError, LLMError
from synthesis.llm import Endpoint, Reply
from synthesis.llm import client as client_module
from synthesis.llm.client import connect_to_endpoint
from synthesis.llm.failures import read_retry_after
from synthesis.llm.wire import UNREADABLE, build_reply_message, read_reply, split_reasoning
from tests.fixtures.llm import DROP, Script, calls, hang, html, llm_server, message, raw, refuse, say
from tests.rollout.support import endpoint

KEY = "sk-secret-0123456789"
HELLO = [Message(role="user", content="Hello")]


def ask(url: str, count: int = 1, tools: tuple[Tool, ...] = (), **changes: Any) -> list[Reply]:
    parameters = changes.pop("parameters", {})

    async def run() -> list[Reply]:
        async with connect_to_endpoint(endpoint(url, **changes)) as connection:
            model = connection.chat("m")
            return await asyncio.gather(*[model.complete(HELLO, tools, **parameters) for _ in range(count)])

    return asyncio.run(run())


def fails(script: Script, **changes: Any) -> tuple[LLMError, int]:
    with llm_server(script) as server, pytest.raises(LLMError) as caught:
        ask(server.url, **changes)
    assert KEY not in str(caught.value)
    return caught.value, len(server.requests)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_WAIT_S", 0.01)


def test_a_reply_is_read_whole() -> None:
    with llm_server([calls(("f", {"a": 1}), content="Well.", reasoning="Hm.")]) as server:
        (reply,) = ask(server.url, tools=(Tool(name="f"),), parameters={"temperature": 0})
    assert (reply.message.content, reply.message.reasoning, reply.finish_reason) == ("Well.", "Hm.", "tool_calls")
    assert (reply.message.tool_calls[0].id, reply.message.tool_calls[0].arguments) == ("id_0", {"a": 1})
    assert (reply.model, reply.usage.prompt_tokens, reply.usage.requests, reply.usage.lost) == ("scripted-1", 10, 1, 0)
    sent = server.requests[0]
    assert sent["tools"][0]["function"]["name"] == "f"
    assert sent["_headers"]["authorization"] == f"Bearer {KEY}"
    assert sent["temperature"] == 0


@pytest.mark.parametrize(
    "lost", [refuse(500, "oops"), refuse(429, "slow down", retry_after="0"), DROP, html(502), html(200), raw(200, "{")]
)
def test_what_passes_is_tried_again_and_counted(lost: Any) -> None:
    with llm_server([lost, lost, say("Hello.")]) as server:
        (reply,) = ask(server.url, max_retries=3)
    assert reply.message.content == "Hello."
    assert (reply.usage.requests, reply.usage.lost) == (3, 2)
    assert len(server.requests) == 3


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries_are_bounded_by_what_was_set(retries: int) -> None:
    error, sent = fails([refuse(503, "overloaded")], max_retries=retries)
    assert sent == retries + 1
    assert error.requests == retries + 1
    assert error.reason == "failed"
    assert "overloaded" in str(error)
    assert ("tried" in str(error)) == (retries > 0)


@pytest.mark.parametrize(
    ("reply", "reason", "words"),
    [
        (refuse(401, f"Incorrect API key provided: {KEY}."), "refused", "[key]"),
        (refuse(404, "no model m"), "refused", "no such model"),
        (refuse(400, "temperature must be below 2"), "refused", "below 2"),
        (refuse(400, "This model's maximum context length is 8192 tokens"), "context", "longer than"),
    ],
)
def test_a_refusal_is_final_and_says_why(reply: Any, reason: str, words: str) -> None:
    error, sent = fails([reply], max_retries=3)
    assert sent == 1
    assert error.reason == reason
    assert words in str(error)
    assert "scripted" in str(error), "the message names the endpoint"


def test_retry_after_is_honoured() -> None:
    with llm_server([refuse(429, "slow down", retry_after="1"), say("Hello.")]) as server:
        started = time.monotonic()
        ask(server.url, max_retries=1)
        assert time.monotonic() - started >= 1.0


def test_retry_after_past_the_deadline_is_not_waited_for() -> None:
    error, sent = fails([refuse(429, "slow down", retry_after="100")], max_retries=3, deadline_s=5)
    assert (error.reason, sent) == ("rate_limited", 1)


def test_retry_after_in_every_form() -> None:
    later = email.utils.format_datetime(email.utils.localtime().fromtimestamp(time.time() + 60).astimezone())
    assert read_retry_after({"retry-after": "3.5"}) == 3.5
    found = read_retry_after({"retry-after": later})
    assert found is not None
    assert 50 < found < 61
    assert [read_retry_after({"retry-after": text}) for text in ("", "soon", "nan")] == [None, None, None]


def test_a_silent_server_is_given_up_on() -> None:
    error, sent = fails([hang()], timeout_s=0.2, max_retries=1)
    assert (error.reason, sent) == ("timeout", 2)


def test_all_tries_together_keep_to_the_deadline() -> None:
    error, _ = fails([hang()], timeout_s=20, deadline_s=0.3, max_retries=9)
    assert error.reason == "timeout"
    assert "0.3 seconds" in str(error)


def test_nothing_listening_is_said_so() -> None:
    with llm_server([say("x")]) as server:
        url = server.url
    with pytest.raises(LLMError) as caught:
        ask(url)
    assert caught.value.reason == "unreachable"


def test_a_redirect_is_not_followed_and_takes_no_key_along() -> None:
    with llm_server([say("stolen")]) as other:
        error, _ = fails([raw(307, location=f"{other.url}/chat/completions")], max_retries=2)
        assert not other.requests
    assert "redirects" in str(error)


def test_only_the_endpoints_own_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-origin")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-another-origin")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-another-origin")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Secret: of-another-origin")
    with llm_server([say("Hello.")]) as server:
        ask(server.url, api_key="")
    headers = server.requests[0]["_headers"]
    assert "authorization" not in headers
    assert "another-origin" not in str(headers)


def test_an_endless_reply_is_not_read_to_its_end() -> None:
    error, sent = fails([say("x" * 100_000)], reply_bytes=10_000, max_retries=2)
    assert (error.reason, sent) == ("too_large", 1)


def test_a_compressed_reply_is_refused_before_it_grows() -> None:
    error, _ = fails([raw(200, "\x1f", content_encoding="gzip")])
    assert error.reason == "malformed"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<html>Sign in", "not valid JSON"),
        ("[]", "expected an object"),
        ("{}", "no choice"),
        ('{"choices": []}', "no choice"),
        ('{"choices": [{"message": 3}]}', "expected an object"),
        ('{"choices": [{"message": {"content": 3}}]}', "expected text"),
        ('{"choices": [{"message": {"tool_calls": {}}}]}', "expected a list"),
        ('{"choices": [{"message": {"content": "x"}}], "n": NaN}', "NaN"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_malformed_reply_is_no_data(body: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        read_reply(body)
    error, _ = fails([raw(200, body)])
    assert error.reason == "malformed"


def test_calls_in_any_form_are_kept_or_named_malformed() -> None:
    listed = [
        {"id": 7, "function": {"name": "f", "arguments": {"a": 1}}},
        {"function": {"name": "f"}},
        {"function": {"name": "", "arguments": "{}"}},
        {"function": {"name": "f", "arguments": '{"a": 1e999}'}},
        {"function": {"name": "f", "arguments": '{"a": 1, "a": 2}'}},
        "f()",
    ]
    body = {"choices": [{"message": {"content": None, "tool_calls": listed}}]}
    found = read_reply(json.dumps(body)).message.tool_calls
    assert [(one.name, one.arguments, bool(one.error)) for one in found] == [
        ("f", {"a": 1}, False),
        ("f", {}, False),
        ("", {}, True),
        ("f", {}, True),
        ("f", {}, True),
        ("", {}, True),
    ]


def test_calls_without_a_name_are_spelled_as_text_and_read_as_the_call_that_they_were() -> None:
    """No client is sent a call with an empty name, and an attempt that asks such a model is told of it all the same."""
    broken = Message(role="assistant", tool_calls=(ToolCall(name="", raw="</tool_call>", error="it cannot be read"),))
    told = build_reply_message(broken)
    assert told == {"role": "assistant", "content": "</tool_call>", UNREADABLE: "it cannot be read"}
    assert read_reply(json.dumps({"choices": [{"message": told}]})).message == broken
    named = Message(role="assistant", tool_calls=(ToolCall(id="c", name="f", arguments={"a": 1}),))
    assert build_reply_message(named)["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}


def test_text_that_no_database_can_hold_is_marked() -> None:
    body = {"choices": [{"message": {"content": "a\u0000b\ud800"}}]}
    assert read_reply(json.dumps(body)).message.content == "a\u2400b\ufffd"


@pytest.mark.parametrize(
    ("text", "content", "reasoning"),
    [
        ("<think>a</think>b", "b", "a"),
        ("<think>\n\n</think>\n\nb", "b", ""),
        ("<think>a</think><think>b</think>c", "c", "a\nb"),
        ("<think>cut short", "", "cut short"),
        ("opened by the template</think>\nb", "b", "opened by the template"),
        ("no tag", "no tag", ""),
        ("a <think>later</think>", "a <think>later</think>", ""),
    ],
)
def test_a_think_block_is_reasoning(text: str, content: str, reasoning: str) -> None:
    assert split_reasoning(text) == (content, reasoning)


def test_no_more_requests_at_once_than_the_endpoint_allows() -> None:
    with llm_server(lambda request: message("Hello.", seconds=0.05)) as server:
        ask(server.url, count=12, max_concurrency=3)
    assert len(server.requests) == 12
    assert server.most_open <= 3


def test_what_is_set_here_cannot_be_a_parameter() -> None:
    with llm_server([say("x")]) as server, pytest.raises(InputError, match="model"):
        ask(server.url, parameters={"model": "another"})
    assert not server.requests


@pytest.mark.parametrize("url", ["ftp://x/v1", "http://", "https://u:p@host/v1", "http://host/v1?key=1", "host"])
def test_an_address_that_is_none_or_hides_a_key_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        Endpoint(name="x", base_url=url)


def test_a_key_is_not_shown_with_its_endpoint() -> None:
    made = endpoint("http://127.0.0.1:1/v1")
    assert KEY not in repr(made)
    assert KEY not in made.model_dump_json()
