"""Messages and tools in the format of OpenAI's chat completions, and replies parsed: a server's data is untrusted."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from typing import Any

import pydantic_core

from synthesis.contracts import Message, Tool, ToolCall, Usage
from synthesis.errors import FormatError
from synthesis.formats.files import MAX_WEIGHT
from synthesis.formats.values import clean_text
from synthesis.json_reader import get_json_type, read_json, require_usable
from synthesis.llm.chat import Embeddings, Reply

MAX_CALLS = 128
MAX_COORDINATE = 1e15
"""So that a vector's length fits into 32 bits."""
_THINK = re.compile(r"\s*<(think|thinking|thought)>(.*?)(?:</\1>|\Z)\s*", re.DOTALL)
_UNOPENED = re.compile(r"\A(.*?)</(?:think|thinking)>\s*", re.DOTALL)
UNREADABLE = "unreadable_call"
"""Member of a reply's message that is ours: why its text was to be a call, and is none."""
UNNAMED_CALL = "the call names no function"
_UNNAMED = re.compile(r"[^A-Za-z0-9_-]")


def encode_body(body: dict[str, Any]) -> bytes:
    """Encode a request's body as JSON.

    By pydantic's serializer, which takes half the time of `json`; it refuses lone surrogates, which `json` escapes.
    """
    try:
        return pydantic_core.to_json(body, inf_nan_mode="constants")
    except pydantic_core.PydanticSerializationError:
        return json.dumps(body).encode()


def build_request_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages as a request holds them; reasoning as `reasoning_content`, if a message has any."""
    return [_build_request_message(message) for message in messages]


def _build_request_message(message: Message) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        return sent | {"tool_call_id": message.tool_call_id}
    if message.role == "assistant" and message.reasoning:
        sent["reasoning_content"] = message.reasoning
    if message.role == "assistant" and message.tool_calls:
        # A server renders these into its template: a name or arguments it cannot read would cost the next turn too.
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": _UNNAMED.sub("_", call.name)[:64] or "unnamed",
                    "arguments": json.dumps(call.arguments, ensure_ascii=False),
                },
            }
            for call in message.tool_calls
        ]
        sent["content"] = message.content or None
    return sent


def build_reply_message(message: Message) -> dict[str, Any]:
    """Return an assistant's message as a reply holds it.

    Calls without any name are no calls to a client: their text is returned as content, with the error as `UNREADABLE`,
    from which `read_message` restores the call.
    """
    body: dict[str, Any] = {"role": "assistant", "content": message.content or None}
    if message.reasoning:
        body["reasoning_content"] = message.reasoning
    if message.tool_calls and not any(call.name for call in message.tool_calls):
        unread = message.tool_calls[0]
        return body | {"content": message.content or unread.raw or None, UNREADABLE: unread.error or UNNAMED_CALL}
    if message.tool_calls:
        body["tool_calls"] = [
            {
                "id": call.id or f"call_{secrets.token_hex(6)}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.raw or json.dumps(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return body


def build_request_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def read_body(text: str) -> Any:
    """Parse the JSON of a response's body; callers clean the text that they use. Raise FormatError."""
    return read_json(text, "the body", most_memory=MAX_WEIGHT, broken_text=True)


def read_reply(text: str) -> Reply:
    """Return the reply in a response's body. Raise FormatError if there is none."""
    data = read_body(text)
    if not isinstance(data, dict):
        raise FormatError("", f"expected an object, found a {get_json_type(data)}")
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise FormatError("choices", "there is no choice in it")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise FormatError("choices[0].message", f"expected an object, found a {get_json_type(message)}")
    finish = choices[0].get("finish_reason")
    model = data.get("model")
    return Reply(
        message=read_message(message),
        finish_reason=clean_text(finish)[:40] if isinstance(finish, str) else "",
        usage=_read_usage(data.get("usage")),
        model=clean_text(model)[:200] if isinstance(model, str) else "",
    )


def read_models(text: str) -> list[str]:
    """Return the names in a list of models. Raise FormatError if it is none."""
    data = read_body(text)
    listed = data.get("data") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        raise FormatError("data", "there is no list in it")
    names = [model.get("id") for model in listed if isinstance(model, dict)]
    return [clean_text(name)[:200] for name in names if isinstance(name, str) and name]


def read_embeddings(text: str, count: int) -> Embeddings:
    """Return `count` finite vectors of one length, in the order of the texts. Raise FormatError."""
    data = read_body(text)
    listed = data.get("data") if isinstance(data, dict) else None
    if not isinstance(listed, list) or len(listed) != count:
        raise FormatError("data", f"there are not {count} vectors in it")
    vectors: dict[Any, tuple[float, ...]] = {}
    for place, entry in enumerate(listed):
        vector = entry.get("embedding") if isinstance(entry, dict) else None
        index = entry.get("index", place) if isinstance(entry, dict) else place
        # Numbers that are none, or too large to be kept, are marked by `loads` and are neither int nor float.
        if not isinstance(vector, list) or not vector or not all(type(value) in (int, float) for value in vector):
            raise FormatError(f"data[{place}].embedding", "this is no list of numbers")
        vectors[index if type(index) is int else None] = tuple(_require_bounded(value, place) for value in vector)
    if vectors.keys() != set(range(count)) or len({len(vector) for vector in vectors.values()}) > 1:
        raise FormatError("data", "indices or lengths of the vectors do not fit each other")
    return Embeddings(vectors=tuple(vectors[index] for index in range(count)), usage=_read_usage(data.get("usage")))


def _require_bounded(value: float, place: int) -> float:
    if abs(value) > MAX_COORDINATE:
        raise FormatError(f"data[{place}].embedding", "a number is too large")
    return float(value)


def read_message(data: dict[str, Any]) -> Message:
    """Return an assistant's message: its words, its reasoning (a field, or a `<think>` block) and its calls."""
    content, thought = split_reasoning(_read_text(data.get("content"), "content"))
    stated = _read_text(data.get("reasoning_content") or data.get("reasoning"), "reasoning_content")
    if isinstance(unread := data.get(UNREADABLE), str) and unread:
        raw = _read_text(data.get("content"), "content")[:20_000]
        return Message(role="assistant", tool_calls=(ToolCall(name="", raw=raw, error=clean_text(unread)[:300]),))
    listed = data.get("tool_calls")
    if not isinstance(listed, list | None):
        raise FormatError("choices[0].message.tool_calls", f"expected a list, found a {get_json_type(listed)}")
    if len(listed or ()) > MAX_CALLS:
        raise FormatError("choices[0].message.tool_calls", f"more than {MAX_CALLS} calls in one turn")
    return Message(
        role="assistant",
        content=content,
        reasoning="\n".join(part for part in (stated, thought) if part),
        tool_calls=tuple(_read_call(item) for item in listed or ()),
    )


def split_reasoning(text: str) -> tuple[str, str]:
    """Return (content, reasoning) of a text with a `<think>` block, also one cut short or opened by the template."""
    parts: list[str] = []
    at = 0
    while match := _THINK.match(text, at):
        parts.append(match[2].strip())
        at = match.end()
    text = text[at:]
    if not parts and "<think" not in text and (tail := _UNOPENED.match(text)):
        parts.append(tail[1].strip())
        text = text[tail.end() :]
    return text.strip() if parts else text, "\n".join(part for part in parts if part)


def _read_text(value: Any, place: str) -> str:
    if isinstance(value, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in value]
        value = "\n".join(part for part in parts if isinstance(part, str))
    if value is not None and not isinstance(value, str):
        raise FormatError(f"choices[0].message.{place}", f"expected text, found a {get_json_type(value)}")
    return clean_text(value or "")


def _read_call(item: Any) -> ToolCall:
    inner = item.get("function") if isinstance(item, dict) else None
    if not isinstance(inner, dict):
        return ToolCall(name="", raw=_shorten_raw(item), error=UNNAMED_CALL)
    name, identity = inner.get("name"), item.get("id")
    arguments, error = read_arguments(inner.get("arguments"))
    if not isinstance(name, str) or not name:
        name, error = "", UNNAMED_CALL
    return ToolCall(
        id=clean_text(identity)[:200] if isinstance(identity, str) else "",
        name=clean_text(name)[:200],
        arguments=arguments,
        raw=_shorten_raw(inner.get("arguments")),
        error=error,
    )


def read_arguments(value: Any) -> tuple[dict[str, Any], str]:
    """Return (arguments, error) of a call: JSON text, an object, or nothing. With an error the arguments are empty."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}, ""
    try:
        arguments = read_json(value, "arguments") if isinstance(value, str) else value
        require_usable(arguments, "arguments")
    except FormatError as error:
        return {}, clean_text(f"the {error}")[:300]
    if not isinstance(arguments, dict):
        return {}, f"the arguments must be a JSON object, not a {get_json_type(arguments)}"
    return arguments, ""


def _shorten_raw(value: Any) -> str:
    return clean_text(value if isinstance(value, str) else json.dumps(value))[:20_000]


def _read_usage(data: Any) -> Usage:
    if not isinstance(data, dict):
        return Usage()
    return Usage(
        prompt_tokens=_read_count(data, "prompt_tokens"),
        completion_tokens=_read_count(data, "completion_tokens"),
        reasoning_tokens=_read_count(data.get("completion_tokens_details"), "reasoning_tokens"),
        cached_tokens=_read_count(data.get("prompt_tokens_details"), "cached_tokens"),
    )


def _read_count(data: Any, name: str) -> int:
    value = data.get(name) if isinstance(data, dict) else None
    return value if type(value) is int and 0 <= value < 2**31 else 0
