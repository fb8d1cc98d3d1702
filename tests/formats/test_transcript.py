"""Conversations as agents wrote them: calls in text, results in any order, and texts made to stall who reads them."""

from __future__ import annotations

import pytest

from synthesis.contracts import Message
from synthesis.formats.transcript import parse_turns
from synthesis.llm.wire import split_reasoning
from synthesis.rollout.random_calls import SeenValues


def said(text: str, role: str = "assistant") -> dict[str, str]:
    return {"role": role, "content": text}


def test_calls_in_text_are_taken_out_of_it() -> None:
    text = 'First. <tool_call>\n{"name": "a", "arguments": {"x": "</tool_call>"}}\n</tool_call> Then '
    text += '<tool_call>{"name": "b"}</tool_call>, and <tool_call>nothing</tool_call>.'
    (turn,) = parse_turns([said(text)], "messages")
    assert [(call.tool, call.arguments) for call in turn.calls] == [("a", {"x": "</tool_call>"}), ("b", {})]
    assert turn.content == "First.  Then , and <tool_call>nothing</tool_call>."


def test_a_result_goes_to_the_call_that_it_names_else_to_the_last_turns_first() -> None:
    def calls(*names: str) -> dict[str, object]:
        return {"role": "assistant", "tool_calls": [{"id": name, "function": {"name": name}} for name in names]}

    def result(text: str, name: str = "") -> dict[str, str]:
        return {"role": "tool", "content": text, "tool_call_id": name}

    messages = [calls("a", "b", "a"), calls("c", "d"), result("to d", "d"), result("to a", "a"), result("to c")]
    messages += [result("to b"), said("<tool_response> to the other a </tool_response>", "user"), result("to nobody")]
    turns = parse_turns(messages, "messages")
    assert [(call.tool, call.result) for turn in turns for call in turn.calls] == [
        ("a", "to a"), ("b", "to b"), ("a", "to the other a"), ("c", "to c"), ("d", "to d")
    ]  # fmt: skip


MANY = 200_000


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>{" * MANY,
        "<tool_call>{" + "}" * MANY,
        "<tool_call>{" + "} " * MANY + "</tool_call",
        "<tool_call>{" + "}" + " " * MANY + "</tool",
        "<tool_call>" + " " * MANY + "{",
        "</tool_call>" * MANY + "<tool_call>{",
        "<tool_response>" + " " * MANY + "x",
        "<think>" * MANY,
        "<think></think>" * MANY,
        "a" * MANY + "-",
        "a_" * MANY,
    ],
)
def test_a_text_is_read_in_one_pass(text: str) -> None:
    """Of five kilobytes the first of these took a minute and a half, of these it would take years."""
    assert parse_turns([said("<tool_call>"), said(text), said(text, "user")], "messages")
    assert isinstance(split_reasoning(text), tuple)
    SeenValues((Message(role="user", content=""), Message(role="tool", content=text)))


def test_many_calls_without_results_are_answered_in_one_pass() -> None:
    listed = [{"id": f"i{number}", "function": {"name": "a"}} for number in range(20_000)]
    messages = [{"role": "assistant", "tool_calls": listed}, said("Well.")]
    messages += [{"role": "tool", "content": "r", "tool_call_id": f"i{number}"} for number in reversed(range(20_000))]
    turns = parse_turns(messages, "messages")
    assert all(call.result == "r" for call in turns[0].calls)
