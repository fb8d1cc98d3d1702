"""Each result belongs to the call before it, by turn and order, whatever ids a server gave; in every writer."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.contracts import Message, Tool, ToolCall
from synthesis.errors import FormatError
from synthesis.formats.atif import trajectory_to_atif
from synthesis.formats.sft import Conversation, Shape, build_sft_records, read_conversation
from training.dataset import TrajectoryRow

TOOLS = tuple(Tool(name=name, description="d", parameters={"type": "object"}) for name in ("find", "book", "pay"))


def talk(*turns: tuple[list[tuple[str, str]], list[tuple[str, str]]]) -> Conversation:
    """A conversation of turns, each with its calls (id, tool) and its results (id, content)."""
    messages = [Message(role="system", content="s"), Message(role="user", content="u")]
    for calls, results in turns:
        made = tuple(ToolCall(id=identity, name=tool) for identity, tool in calls)
        messages.append(Message(role="assistant", tool_calls=made))
        messages += [Message(role="tool", content=text, tool_call_id=identity) for identity, text in results]
    return Conversation(messages=(*messages, Message(role="assistant", content="Done.")), tools=TOOLS)


ONE_ID = talk(([("call_0", "find")], [("call_0", "of find")]), ([("call_0", "book")], [("call_0", "of book")]))
IN_A_TURN = talk(([("a", "find"), ("a", "book")], [("a", "of find"), ("a", "of book")]))
NO_ID = talk(([("", "find"), ("", "book")], [("", "of find"), ("", "of book")]))
SWAPPED = talk(([("a", "find"), ("b", "book")], [("b", "of book"), ("a", "of find")]))
CASES = [ONE_ID, IN_A_TURN, NO_ID, SWAPPED]
EXPECTED = [("find", "of find"), ("book", "of book")]


def record(conversation: Conversation, **shape: Any) -> dict[str, Any]:
    return next(build_sft_records(conversation, Shape(**shape)))


@pytest.mark.parametrize("conversation", CASES)
def test_every_writer_gives_each_call_its_own_result(conversation: Conversation) -> None:
    written = record(conversation)
    assert [(one["name"], one["content"]) for one in written["messages"] if one["role"] == "tool"] == EXPECTED
    nameless = [{k: v for k, v in one.items() if k != "name"} for one in written["messages"]]
    frozen = TrajectoryRow.model_validate({"messages": nameless, "tools": written["tools"]}).trl()
    assert [(one["name"], one["content"]) for one in frozen["messages"] if one["role"] == "tool"] == EXPECTED
    again = read_conversation(written["messages"], written["tools"])
    assert record(again)["messages"][2:] == written["messages"][2:] or conversation is NO_ID
    steps = trajectory_to_atif(conversation, "t")["steps"]
    told = [(call["function_name"], answer["content"]) for step in steps if "tool_calls" in step
            for call in step["tool_calls"] for answer in step["observation"]["results"]
            if answer["source_call_id"] == call["tool_call_id"]]  # fmt: skip
    assert told == EXPECTED
    spoken = [side["value"] for side in record(conversation, format="sharegpt")["conversations"]]
    texts = "".join(spoken)
    assert texts.index("of find") < texts.index("of book")


def test_results_that_only_their_order_tells_apart_are_all_there() -> None:
    lacking = talk(([("a", "find"), ("b", "book")], [("b", "of book")]))
    assert record(lacking)["messages"][3]["name"] == "book"
    for form in ("sharegpt", "alpaca"):
        with pytest.raises(FormatError, match="1 results of 2 calls"):
            record(lacking, format=form)


def test_a_result_under_another_tools_name_is_refused() -> None:
    written = record(ONE_ID)
    written["messages"][3]["name"] = "book"
    with pytest.raises(ValueError, match="message 4: its name is another than its call's, which is 'find'"):
        TrajectoryRow.model_validate(written)
