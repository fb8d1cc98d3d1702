"""Two conversations that begin alike as one preference pair, in TRL's conversational format."""

from __future__ import annotations

from typing import Any

from synthesis.errors import FormatError
from synthesis.formats.sft import Conversation, Shape, records_of


def preference_of(chosen: Conversation, rejected: Conversation) -> dict[str, Any]:
    """`prompt` (what both begin with, once), `chosen` and `rejected` (what each goes on with), and the tools.

    Both go on with a turn of the agent. Raises FormatError where they begin otherwise or one has nothing left.
    """
    better, worse = _record(chosen), _record(rejected)
    left, right = better["messages"], worse["messages"]
    shared = 0
    while shared < min(len(left), len(right)) and left[shared] == right[shared]:
        shared += 1
    while shared and (not _goes_on(left, shared) or not _goes_on(right, shared)):
        shared -= 1
    if shared < 2:
        raise FormatError("conversation", "the two do not begin with the same messages and then differ in a turn")
    return {"prompt": left[:shared], "chosen": left[shared:], "rejected": right[shared:], "tools": better["tools"]}


def _record(conversation: Conversation) -> dict[str, Any]:
    for record in records_of(conversation, Shape(format="trl")):
        return record
    raise FormatError("conversation", "the agent said nothing in it")


def _goes_on(messages: list[dict[str, Any]], at: int) -> bool:
    return at < len(messages) and messages[at]["role"] == "assistant"
