"""Turns of policies that know their calls or answer, written in the style of the conversation."""

from __future__ import annotations

import json
from typing import Any

from synthesis.contracts import Message, PromptStyle, ReferenceCall, ToolCall
from synthesis.errors import FormatError
from synthesis.formats.answer_form import SUBMIT_ANSWER, serialize_answer
from synthesis.json_reader import read_json
from synthesis.rollout.policy import Conversation, PolicyError


def make_call(style: PromptStyle, call: ReferenceCall) -> Message:
    """Return the turn that makes one call."""
    made = ToolCall(name=call.tool, arguments=dict(call.arguments))
    return Message(role="assistant", content=_spell_call(style, call), tool_calls=(made,))


def give_answer(observation: Conversation, answer: str) -> Message:
    """Return the turn that gives an answer: words, or for a task with an answer form the object in its text.

    Raise PolicyError if the task has a form, and the text is not a JSON object.
    """
    if not observation.answer_form:
        return Message(role="assistant", content=_spell_words(observation.style, answer or "Done."))
    try:
        fields = read_json(answer or "{}")
    except FormatError:
        fields = None
    if not isinstance(fields, dict):
        raise PolicyError(
            "The task has an answer form, and the answer that is known is not a JSON object of its fields."
        )
    return submit_answer(observation.style, fields)


def submit_answer(style: PromptStyle, given: dict[str, Any]) -> Message:
    """Return the turn that submits an object as the answer."""
    if style == "tools":
        return Message(role="assistant", tool_calls=(ToolCall(name=SUBMIT_ANSWER, arguments=given),))
    return Message(role="assistant", content=_spell_words(style, serialize_answer(given)))


def _spell_call(style: PromptStyle, call: ReferenceCall) -> str:
    """Return the call in words, for styles in which the words contain the calls."""
    if style == "react":
        return f"Action: {call.tool}\nAction Input: {json.dumps(call.arguments, ensure_ascii=False)}"
    if style == "call":
        given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
        return f"[{call.tool}({given})]"
    return ""


def _spell_words(style: PromptStyle, words: str) -> str:
    return f"Answer: {words}" if style == "react" else words
