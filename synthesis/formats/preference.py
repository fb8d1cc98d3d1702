"""Preference pairs of two conversations with the same beginning, in TRL's conversational format."""

from __future__ import annotations

from typing import Any

from synthesis.errors import FormatError
from synthesis.formats.sft import Conversation, Shape, build_sft_records


def build_preference_pair(chosen: Conversation, rejected: Conversation) -> dict[str, Any]:
    """Return `prompt` (the common beginning), `chosen` and `rejected` (the continuations), and the tools.

    Both continue with a turn of the agent. Raise FormatError if they begin differently or one has nothing left.
    """
    better, worse = _build_record(chosen), _build_record(rejected)
    chosen_messages, rejected_messages = better["messages"], worse["messages"]
    shared = 0
    while (
        shared < min(len(chosen_messages), len(rejected_messages))
        and chosen_messages[shared] == rejected_messages[shared]
    ):
        shared += 1
    while shared and (not _has_agent_turn(chosen_messages, shared) or not _has_agent_turn(rejected_messages, shared)):
        shared -= 1
    if shared < 2:
        raise FormatError("conversation", "the two do not begin with the same messages and then differ in a turn")
    return {
        "prompt": chosen_messages[:shared],
        "chosen": chosen_messages[shared:],
        "rejected": rejected_messages[shared:],
        "tools": better["tools"],
    }


def _build_record(conversation: Conversation) -> dict[str, Any]:
    for record in build_sft_records(conversation, Shape(format="trl")):
        return record
    raise FormatError("conversation", "the agent said nothing in it")


def _has_agent_turn(messages: list[dict[str, Any]], at: int) -> bool:
    return at < len(messages) and messages[at]["role"] == "assistant"
