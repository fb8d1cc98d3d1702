from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from synthesis.contracts import Message, ToolCall
from synthesis.errors import FormatError
from synthesis.formats.sft import (
    Conversation,
    SftFormat,
    Shape,
    build_sft_records,
    format_record_line,
    read_conversation,
)
from tests.training_data.talks import BOX, talk

FORMATS: list[SftFormat] = ["trl", "sharegpt", "alpaca"]


def made(shape: Shape, conversation: Conversation | None = None) -> list[dict[str, Any]]:
    return list(build_sft_records(conversation or talk(), shape))


def test_trl_has_messages_and_tools_as_chat_templates_take_them() -> None:
    (record,) = made(Shape())
    assert set(record) == {"messages", "tools"}
    roles = [message["role"] for message in record["messages"]]
    assert roles == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    first = record["messages"][2]
    assert first["content"] == ""
    assert first["reasoning_content"] == "First I look."
    assert first["tool_calls"][1] == {
        "id": "b",
        "type": "function",
        "function": {"name": "open_box", "arguments": {"box_id": "B-9"}},
    }
    assert record["messages"][4] == {
        "role": "tool",
        "content": "Error: no such box",
        "tool_call_id": "b",
        "name": "open_box",
    }
    assert record["tools"][1] == {
        "type": "function",
        "function": {"name": "open_box", "description": "Open a box.", "parameters": BOX},
    }


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("mask", [False, True])
def test_reasoning_is_kept_or_stripped_everywhere(kind: SftFormat, mask: bool) -> None:
    kept, stripped = (made(Shape(format=kind, reasoning=keep, mask_history=mask)) for keep in (True, False))
    assert "Done." in json.dumps(kept)
    for words in ("First I look.", "I ask.", "She said yes.", "Done.", "<think>", "reasoning_content"):
        assert words not in json.dumps(stripped)


@pytest.mark.parametrize("kind", FORMATS)
def test_n_turns_give_n_records_of_which_the_last_turn_alone_thinks(kind: SftFormat) -> None:
    records = made(Shape(format=kind, mask_history=True))
    thoughts = ["First I look.", "I ask.", "She said yes.", "Done."]
    assert len(records) == len(thoughts)
    for record, own in zip(records, thoughts, strict=True):
        text = json.dumps(record)
        assert [thought for thought in thoughts if thought in text] == [own]


def test_trl_learns_the_completion_alone_with_mask_history() -> None:
    records = made(Shape(mask_history=True))
    assert [set(record) for record in records] == [{"prompt", "completion", "tools"}] * 4
    assert [len(record["prompt"]) for record in records] == [2, 5, 7, 9]
    assert all([one["role"] for one in record["completion"]] == ["assistant"] for record in records)
    whole = made(Shape(reasoning=False))[0]["messages"]
    assert [one | {} for one in records[3]["prompt"]] == whole[:9]


def test_sharegpt_alternates_and_joins_the_results_of_a_turn() -> None:
    (record,) = made(Shape(format="sharegpt"))
    sides = record["conversations"]
    tags = [side["from"] for side in sides]
    assert tags == ["human", "function_call", "observation", "gpt", "human", "function_call", "observation", "gpt"]
    thought, _, calls = sides[1]["value"].partition("</think>\n\n")
    assert thought == "<think>\nFirst I look.\n"
    assert json.loads(calls) == [
        {"name": "find_box", "arguments": {}},
        {"name": "open_box", "arguments": {"box_id": "B-9"}},
    ]
    assert sides[2]["value"] == "{'boxes': ['B-1']}\n</tool_response>\n<tool_response>\nError: no such box"
    spoken, _, tagged = sides[5]["value"].partition("<tool_call>")
    assert spoken.endswith("Opening it.\n")
    assert json.loads(tagged.removesuffix("</tool_call>")) == {"name": "open_box", "arguments": {"box_id": "B-1"}}
    assert record["system"].startswith("You serve a user.")
    assert [tool["name"] for tool in json.loads(record["tools"])] == ["find_box", "open_box"]


def test_every_record_is_one_line_of_ascii() -> None:
    for kind in FORMATS:
        line = format_record_line(made(Shape(format=kind))[0])
        assert line.isascii()
        assert line.splitlines() == [line[:-1]]


def test_in_a_text_style_calls_stand_in_the_words_and_no_tools_beside() -> None:
    said = Message(role="assistant", content="[open_box(box_id='B-1')]", tool_calls=(ToolCall(name="open_box"),))
    messages = (Message(role="system", content="The tools: …"), Message(role="user", content="Open it."), said)
    found = Conversation(messages=messages, tools=talk().tools, style="call")
    (trl,) = made(Shape(), found)
    assert trl["tools"] == []
    assert "tool_calls" not in trl["messages"][2]
    (sharegpt,) = made(Shape(format="sharegpt"), found)
    assert sharegpt["conversations"][1] == {"from": "gpt", "value": "[open_box(box_id='B-1')]"}


def test_nothing_is_made_of_a_conversation_in_which_the_agent_said_nothing() -> None:
    assert made(Shape(), Conversation(messages=(Message(role="user", content="Hello?"),))) == []


@pytest.mark.parametrize("kind", FORMATS)
def test_a_call_that_could_not_be_read_is_refused(kind: SftFormat) -> None:
    broken = Message(role="assistant", tool_calls=(ToolCall(name="open_box", error="no JSON object"),))
    with pytest.raises(FormatError):
        made(Shape(format=kind), Conversation(messages=(Message(role="user", content="Open it."), broken)))


@pytest.mark.parametrize("kind", ["sharegpt", "alpaca"])
def test_what_does_not_alternate_is_refused_where_it_must(kind: SftFormat) -> None:
    twice = (Message(role="user", content="One."), Message(role="user", content="Two."))
    messages = (*twice, Message(role="assistant", content="Three."))
    with pytest.raises(FormatError, match="take turns"):
        made(Shape(format=kind), Conversation(messages=messages))
    assert made(Shape(), Conversation(messages=messages))


def test_a_foreign_conversation_needs_its_system_message_and_its_tools() -> None:
    spoken = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    with pytest.raises(FormatError, match="system message"):
        read_conversation(spoken, [])
    system = {"role": "system", "content": "You help."}
    with pytest.raises(FormatError, match="tools"):
        read_conversation([system, *spoken], None)
    found = read_conversation([system, *spoken], [{"type": "function", "function": {"name": "a", "parameters": {}}}])
    assert [message.role for message in found.messages] == ["system", "user", "assistant"]
    with pytest.raises(FormatError):
        read_conversation("no list", [])


def test_released_mask_history_records_come_out_as_they_are(real_data: Path) -> None:
    """EnvScaler's ten released records, read back into conversations, are written again letter by letter."""
    file = real_data / "envscaler" / "sft_alpaca_mask_history_10.json"
    if not file.exists():
        pytest.skip("the released records are not there")
    for released in json.loads(file.read_text()):
        conversation = _from_released(released)
        record = made(Shape(format="alpaca", mask_history=True), conversation)[-1]
        assert record["instruction"] == released["instruction"]
        assert record["history"] == released["history"]
        assert record["output"] == released["output"]
        assert len(made(Shape(format="alpaca", mask_history=True), conversation)) == len(released["history"]) + 1


def _from_released(released: dict[str, Any]) -> Conversation:
    """The record's texts as messages in OpenAI's spelling, then as any recorded conversation is read."""
    system, _, rest = released["system"].partition("\n\n# Tools\n")
    tools = [json.loads(line) for line in rest.partition("<tools>\n")[2].partition("\n</tools>")[0].splitlines()]
    messages = [{"role": "system", "content": system}]
    for put, said in [*released["history"], [released["instruction"], released["output"]]]:
        messages += [{"role": "user", "content": put}, {"role": "assistant", "content": said}]
    return read_conversation(messages, tools)
