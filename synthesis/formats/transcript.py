"""An agent's conversation as turns: text, reasoning and calls with their results, whatever dialect it is in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from synthesis.errors import FormatError
from synthesis.formats.files import json_type, loads, require_usable
from synthesis.formats.values import clean

THINK = re.compile(r"^\s*<think(?:ing)?>(.*?)</think(?:ing)?>\s*", re.DOTALL)
CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
RESPONSE = re.compile(r"^\s*<tool_response>\s*(.*?)\s*</tool_response>\s*$", re.DOTALL)
UNPARSED = "(arguments that are not a JSON object)"
CHAT = "chat_with_user"


@dataclass
class RecordedCall:
    tool: str
    arguments: dict[str, Any]
    id: str = ""
    result: str | None = None


@dataclass
class Turn:
    """One message of the user, or one of the assistant with the calls it made."""

    role: str
    content: str = ""
    reasoning: str = ""
    calls: list[RecordedCall] = field(default_factory=list)


def turns_of(messages: list[Any], place: str) -> list[Turn]:
    """The turns of a conversation; system messages are no turns, tool messages go to their calls."""
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        where = f"{place}[{index}]"
        if not isinstance(message, dict):
            raise FormatError(where, f"expected an object, found a {json_type(message)}")
        role = message.get("role") if isinstance(message.get("role"), str) else ""
        content = text_of(message.get("content"), f"{where}.content")
        response = RESPONSE.match(content) if role == "user" else None
        if role in {"tool", "function"} or (response and turns and turns[-1].calls):
            _attach(turns, str(message.get("tool_call_id") or ""), response[1] if response else content)
        elif role == "assistant":
            turns.append(_assistant(message, content, where))
        elif role == "user":
            turns.append(Turn("user", content))
        elif role not in {"system", "developer"}:
            raise FormatError(f"{where}.role", f"unknown role {clean(str(message.get('role')))[:40]!r}")
    return turns


def text_of(value: Any, place: str) -> str:
    """Message content: text, null, or a list of parts of which the text is taken."""
    if isinstance(value, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in value]
        return clean("\n".join(part for part in parts if isinstance(part, str)))
    if value is not None and not isinstance(value, str):
        raise FormatError(place, f"expected text, found a {json_type(value)}")
    return clean(value or "")


def _assistant(message: dict[str, Any], content: str, place: str) -> Turn:
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    thought = THINK.match(content)
    if thought:
        content = content[thought.end() :]
        reasoning = reasoning or thought[1].strip()
    if not isinstance(reasoning, str):
        raise FormatError(f"{place}.reasoning", f"expected text, found a {json_type(reasoning)}")
    listed = message.get("tool_calls")
    if listed is None and isinstance(message.get("function_call"), dict):
        listed = [{"function": message["function_call"]}]
    if not isinstance(listed, list | None):
        raise FormatError(f"{place}.tool_calls", f"expected a list, found a {json_type(listed)}")
    calls = [_call(item, f"{place}.tool_calls[{index}]") for index, item in enumerate(listed or [])]
    if not calls and "<tool_call>" in content:
        calls = [_call(text, f"{place}.content") for text in CALL.findall(content)]
        content = CALL.sub("", content).strip() if calls else content
    return Turn("assistant", content, clean(reasoning), calls)


def _call(item: Any, place: str) -> RecordedCall:
    if isinstance(item, str):
        item = _json(item) or {"name": UNPARSED, "arguments": item}
    inner = item.get("function", item) if isinstance(item, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        raise FormatError(place, "a tool call without a function name")
    identity = item.get("id")
    arguments = arguments_of(inner.get("arguments"))
    return RecordedCall(clean(inner["name"])[:200], arguments, identity if isinstance(identity, str) else "")


def arguments_of(value: Any) -> dict[str, Any]:
    """A call's arguments as an object. What is none stays visible, and the call fails as it did when recorded."""
    arguments = _json(value) if isinstance(value, str) and value.strip() else value
    if arguments is None or arguments == "":
        return {} if not isinstance(value, str) or not value.strip() else {UNPARSED: clean(value)}
    return arguments if isinstance(arguments, dict) else {UNPARSED: clean(json.dumps(arguments))}


def _json(text: str) -> Any:
    try:
        value = loads(text)
        require_usable(value, "")
    except (ValueError, RecursionError, FormatError):
        return None
    return value


def _attach(turns: list[Turn], identity: str, content: str) -> None:
    """Give a result to the call it names, or to the oldest one without a result."""
    waiting = [call for turn in turns[-1:] + turns[:-1] for call in turn.calls if call.result is None]
    named = [call for call in waiting if identity and call.id == identity]
    for call in (named or waiting)[:1]:
        call.result = content
