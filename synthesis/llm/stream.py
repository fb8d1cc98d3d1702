"""A reply that comes in pieces (server-sent events), joined to a completion: as untrusted as any other."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from synthesis.errors import FormatError, LLMError
from synthesis.json_reader import get_json_type, read_json
from synthesis.llm.repetition import REASON, RepetitionWatch
from synthesis.llm.wire import MAX_CALLS

EVENTS = "text/event-stream"
COVER = 64
"""Bytes of events that a byte of the reply may take: an event a token, each with names and ids around it."""
_TEXTS = ("content", "reasoning_content", "reasoning")


def is_stream(response: httpx.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith(EVENTS)


@dataclass
class _Growing:
    """The received part of the first choice."""

    texts: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in _TEXTS})
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    finish: str = ""
    usage: Any = None
    model: str = ""
    size: int = 0
    watches: dict[str, RepetitionWatch] = field(default_factory=dict)
    repeats: bool = False

    def grow(self, place: str, text: str) -> None:
        self.size += len(text.encode("utf-8", "replace"))
        self.repeats = self.repeats or self.watches.setdefault(place, RepetitionWatch()).add(text)


async def collect_completion(response: httpx.Response, limit: int, heard: Callable[[bool], None]) -> str:
    """Return the whole completion as JSON text. `heard` is called for each event with whether it brought any words.

    A reply that repeats itself without end is read no further. Raise LLMError, FormatError and errors of reading.
    """
    so_far = _Growing()
    ended = False
    async for line in _iterate_lines(response, limit):
        if not line.startswith("data:"):
            heard(False)
            continue
        event_text = line[5:].strip()
        if event_text == "[DONE]":
            ended = True
            break
        before = so_far.size
        _add_event(so_far, event_text)
        heard(so_far.size > before)
        if so_far.size > limit:
            raise LLMError("too_large", f"The endpoint's reply is larger than {limit} bytes.")
        if so_far.repeats:
            so_far.finish = REASON
            break
    if not ended and not so_far.finish:
        raise LLMError("unreachable", "The endpoint closed the connection during its reply.")
    return json.dumps(_build_completion(so_far))


async def _iterate_lines(response: httpx.Response, limit: int) -> AsyncIterator[str]:
    pending = bytearray()
    async for part in response.aiter_bytes():
        first, *rest = part.split(b"\n")
        pending += first
        if len(pending) > limit:
            raise LLMError("too_large", f"An event of the endpoint's reply is larger than {limit} bytes.")
        for begun in rest:
            yield pending.decode("utf-8", "replace").rstrip("\r")
            pending = bytearray(begun)
    if pending:
        yield pending.decode("utf-8", "replace")


def _add_event(so_far: _Growing, said: str) -> None:
    try:
        event = read_json(said, broken_text=True)
    except FormatError:
        raise FormatError("", "an event of its stream is not JSON") from None
    if not isinstance(event, dict):
        raise FormatError("", f"an event of its stream is a {get_json_type(event)}")
    if event.get("error"):
        inner = event["error"]
        words = inner.get("message") if isinstance(inner, dict) else inner
        raise LLMError("failed", f"The endpoint failed during its reply: {str(words)[:300]}")
    so_far.usage = event.get("usage") or so_far.usage
    model = event.get("model")
    so_far.model = model if isinstance(model, str) else so_far.model
    choices = event.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    if choice.get("index") not in (0, None):
        return
    finish = choice.get("finish_reason")
    so_far.finish = finish if isinstance(finish, str) and finish else so_far.finish
    piece = choice.get("delta") or choice.get("message") or {}
    if not isinstance(piece, dict):
        raise FormatError("choices[0].delta", f"expected an object, found a {get_json_type(piece)}")
    for name in _TEXTS:
        text = piece.get(name)
        if isinstance(text, str) and text:
            so_far.texts[name].append(text)
            so_far.grow(name, text)
    calls = piece.get("tool_calls")
    for place, call in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(call, dict):
            _add_call(so_far, call, place)


def _add_call(so_far: _Growing, piece: dict[str, Any], place: int) -> None:
    index = piece.get("index")
    place = index if type(index) is int else place
    if place not in so_far.calls and len(so_far.calls) >= MAX_CALLS:
        raise FormatError("choices[0].delta.tool_calls", f"more than {MAX_CALLS} calls in one turn")
    call = so_far.calls.setdefault(place, {"id": "", "name": "", "arguments": []})
    inner = piece.get("function")
    inner = inner if isinstance(inner, dict) else {}
    call["id"] = call["id"] or piece.get("id")
    name, arguments = inner.get("name"), inner.get("arguments")
    if isinstance(name, str) and name and name != call["name"]:
        call["name"] += name
        so_far.grow("names", name)
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments)
    if isinstance(arguments, str) and arguments:
        call["arguments"].append(arguments)
        so_far.grow(f"call {place}", arguments)


def _build_completion(so_far: _Growing) -> dict[str, Any]:
    message: dict[str, Any] = {name: "".join(parts) for name, parts in so_far.texts.items() if parts}
    if message.get("reasoning_content"):
        message.pop("reasoning", None)  # some servers say it under both names
    if so_far.calls:
        message["tool_calls"] = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": "".join(call["arguments"])}}
            for _, call in sorted(so_far.calls.items())
        ]
    choice = {"index": 0, "message": {"role": "assistant"} | message, "finish_reason": so_far.finish or "stop"}
    return {"choices": [choice], "usage": so_far.usage, "model": so_far.model}
