"""Replies that come in pieces: the limit is silence, runaway repetition is cut, what a server refuses is left out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from synthesis.contracts import Message
from synthesis.errors import LLMError
from synthesis.llm import Endpoint, Reply
from synthesis.llm.client import connect_to_endpoint
from synthesis.llm.refusals import LeftOut, find_refused_parameter, fit_body
from synthesis.llm.repetition import TAIL, cut_repetition, find_period
from tests.fixtures.llm import Request, Script, Scripted, events_of, llm_server, refuse, say, streamed

HELLO = [Message(role="user", content="Hello")]


def asked(script: Script, times: int = 1, endpoint: dict[str, Any] | None = None, **parameters: Any) -> Any:
    """(replies, the server, what was noted)."""
    noted: list[LeftOut] = []

    async def note(name: str, left_out: LeftOut) -> None:
        noted.append(left_out)

    async def run(url: str) -> list[Reply]:
        given = {"name": "far", "base_url": url, "max_retries": 0, "timeout_s": 0.6, **(endpoint or {})}
        async with connect_to_endpoint(Endpoint.model_validate(given), note) as connection:
            return [await connection.chat("m").complete(HELLO, **parameters) for _ in range(times)]

    with llm_server(script) as server:
        return asyncio.run(run(server.url)), server, noted


def test_a_stream_is_put_together_with_its_reasoning_calls_and_usage() -> None:
    first = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": '{"id"'}}
    rest = {"index": 0, "function": {"arguments": ': "A"}'}}
    (reply,), server, _ = asked(
        [
            streamed(
                {"role": "assistant", "reasoning_content": "First "},
                {"reasoning_content": "look."},
                {"content": "Na"},
                {"content": "ïve \u2028 text"},
                {"tool_calls": [first]},
                {"tool_calls": [rest]},
                finish="tool_calls",
            )
        ]
    )
    assert server.requests[0]["stream"] is True
    assert (reply.message.content, reply.message.reasoning) == ("Naïve \u2028 text", "First look.")
    assert [(call.id, call.name, call.arguments) for call in reply.message.tool_calls] == [("c1", "look", {"id": "A"})]
    assert (reply.finish_reason, reply.model) == ("tool_calls", "scripted-1")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (10, 6)


def test_a_long_reply_is_not_late_and_a_silent_one_is() -> None:
    pieces = [{"content": f"{number} "} for number in range(12)]
    (reply,), _, _ = asked([streamed(*pieces, between=0.1)])
    assert reply.message.content.split() == [str(number) for number in range(12)]
    begun = 'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
    with pytest.raises(LLMError, match="stopped sending during its reply"):
        asked([events_of(begun, *([": still here\n\n"] * 9), between=0.2)], endpoint={"deadline_s": 0.7})


@pytest.mark.parametrize(
    ("scripted", "reason", "words"),
    [
        (events_of('data: {"choices": [{"delta": {"content": "a"}}]}\n\n'), "unreachable", "closed the connection"),
        (events_of("data: {broken\n\n"), "malformed", "no chat completion"),
        (events_of("data: [1]\n\n"), "malformed", "no chat completion"),
        (events_of('data: {"error": {"message": "out of memory"}}\n\n'), "failed", "out of memory"),
        (events_of('data: {"choices": [{"delta": 7}]}\n\n'), "malformed", "no chat completion"),
        (events_of("data: " + "x" * 9_000), "too_large", "larger than"),
        (
            events_of(
                *[
                    'data: {"choices": [{"delta": {"content": "' + f"{number:04}" * 500 + '"}}]}\n\n'
                    for number in range(9)
                ]
            ),
            "too_large",
            "larger than",
        ),
    ],
)
def test_a_stream_that_goes_wrong_says_how(scripted: Scripted, reason: str, words: str) -> None:
    with pytest.raises(LLMError, match=words) as caught:
        asked([scripted], endpoint={"reply_bytes": 4_096})
    assert caught.value.reason == reason


def test_runaway_repetition_is_cut_and_said() -> None:
    whole = [{"content": "The state:"}, *({"content": " and so on, and so forth"} for _ in range(5_000))]
    (reply,), _, noted = asked([streamed(*whole)])
    assert reply.finish_reason == "repetition"
    assert len(reply.message.content) < 200
    assert reply.message.content.startswith("The state: and so on")
    assert noted == []
    (reply,), _, _ = asked([say("Well. " + "no " * 9_000)])
    assert (reply.finish_reason, len(reply.message.content) < 50) == ("repetition", True)


def test_what_is_long_and_does_not_repeat_itself_is_not_cut() -> None:
    rows = json.dumps([{"id": number, "name": f"row {number}", "open": True} for number in range(2_000)])
    assert cut_repetition(rows) == rows
    assert find_period("ab" * TAIL) == 2
    assert find_period("\n" * TAIL) == 1
    assert find_period("short " * 20) == 0


def picky(request: Request) -> Scripted:
    if "max_tokens" in request:
        words = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
        return refuse(400, words)
    if "seed" in request:
        return refuse(422, "body.seed: extra inputs are not permitted: 'seed'")
    return say(f"{request.get('max_completion_tokens')} {request.get('temperature')}")


def test_a_parameter_that_is_refused_is_left_out_from_then_on() -> None:
    replies, server, noted = asked(picky, times=2, max_tokens=7, seed=3, temperature=0.5)
    assert [reply.message.content for reply in replies] == ["7 0.5", "7 0.5"]
    assert len(server.requests) == 4
    assert [(one.name, one.instead) for one in noted] == [("max_tokens", "max_completion_tokens"), ("seed", "")]
    assert "max_completion_tokens" in noted[0].said
    assert (replies[0].usage.requests, replies[0].usage.lost) == (3, 2)
    known = {"m": {one.name: one.instead for one in noted}}
    _, server, noted = asked(picky, endpoint={"left_out": known}, max_tokens=7, seed=3)
    assert (len(server.requests), noted) == (1, [])


def test_a_server_that_streams_without_counting_tokens_is_asked_for_whole_replies() -> None:
    replies, server, noted = asked(
        lambda request: streamed({"content": "a"}, usage=False) if "stream" in request else say("b"), times=2
    )
    assert [reply.message.content for reply in replies] == ["a", "b"]
    assert [one.name for one in noted] == ["stream"]
    assert "stream_options" not in server.requests[1]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"error": {"message": "Unsupported value", "param": "temperature"}}', ("temperature", "")),
        ('{"error": {"message": "no", "param": "response_format.json_schema"}}', ("response_format", "")),
        ("`temperature` and `top_p` cannot both be given", ("top_p", "")),
        ('{"detail": [{"loc": ["body", "top_p"], "msg": "extra"}]}', ("top_p", "")),
        ("I had to stop here", None),
        ("The model does not exist.", None),
        ("model: no such 'model'", None),
    ],
)
def test_what_a_refusal_names(text: str, found: tuple[str, str] | None) -> None:
    body = {"model": "m", "messages": [], "temperature": 0, "top_p": 1, "stop": ["a"], "response_format": {}}
    assert find_refused_parameter(400, text, body) == found
    assert find_refused_parameter(500, text, body) is None


def test_two_names_that_are_both_refused_leave_nothing() -> None:
    left_out = {"max_tokens": "max_completion_tokens", "max_completion_tokens": ""}
    assert fit_body({"max_tokens": 5, "model": "m"}, left_out) == {"model": "m"}
