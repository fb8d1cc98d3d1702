"""Sample conversations: a template can be trained if it is prefix-preserving on them."""

from __future__ import annotations

from typing import Any

_TOOL = {"name": "find_day", "description": "Finds a day.", "parameters": {"type": "object", "properties": {}}}
SAMPLE_TOOLS: tuple[dict[str, Any], ...] = ({"type": "function", "function": _TOOL},)


def _build_call(identity: str, **arguments: Any) -> dict[str, Any]:
    call = {"id": identity, "type": "function", "function": {"name": "find_day", "arguments": arguments}}
    return {"role": "assistant", "content": "", "reasoning_content": "I look it up.", "tool_calls": [call]}


def _build_result(identity: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "name": "find_day", "content": text}


def _build_words(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "reasoning_content": "That is all."}


_OPENING = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Which day?"}]
SAMPLES: tuple[list[dict[str, Any]], ...] = (
    [*_OPENING, _build_call("call_1_1", week=3), _build_result("call_1_1", "Error: none"), _build_call("call_2_1"),
     _build_result("call_2_1", "{'day': 5}"), _build_words("Day 5.")],
    [*_OPENING, _build_words("In which week?"), {"role": "user", "content": "The third."},
     _build_call("call_2_1", week=3), _build_result("call_2_1", "5"), _build_words("Day 5."),
     {"role": "user", "content": "Thanks."}, _build_words("Gladly.")],
)  # fmt: skip
"""A task with an error and two calls, and a conversation in which the user speaks again after a call."""
PLAIN: list[dict[str, Any]] = [
    {key: value for key, value in message.items() if key != "reasoning_content"} for message in SAMPLES[1]
]
"""A conversation without any reasoning."""
