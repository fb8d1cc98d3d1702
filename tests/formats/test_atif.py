"""Conversations as trajectories of ATIF 1.8: the specification's rules, and state changes by call."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.contracts import Message, Tool, ToolCall
from synthesis.errors import FormatError
from synthesis.formats.atif import StateChange, trajectory_to_atif
from synthesis.formats.sft import Conversation


def asked(*calls: ToolCall, words: str = "") -> Message:
    return Message(role="assistant", content=words, reasoning="I look first.", tool_calls=calls)


TALK = Conversation(
    messages=(
        Message(role="system", content="You look after boxes."),
        Message(role="user", content="Open Ada's."),
        asked(
            ToolCall(id="a", name="find", arguments={"owner": "Ada"}),
            ToolCall(id="b", name="open", arguments={"box": 1}),
        ),
        Message(role="tool", tool_call_id="b", content="opened"),
        Message(role="tool", tool_call_id="a", content="box 1"),
        Message(role="assistant", content="Done."),
    ),
    tools=(Tool(name="find", kind="query"), Tool(name="open", kind="change")),
)
OPENED = {"op": "replace", "path": "/boxes/1/open", "value": True}


def test_steps_hold_their_calls_and_what_came_of_them() -> None:
    told = trajectory_to_atif(TALK, "trajectory:7", model="a model", about={"environment": "shelf"})
    assert (told["schema_version"], told["trajectory_id"]) == ("ATIF-v1.8", "trajectory:7")
    assert told["agent"]["model_name"] == "a model"
    assert [tool["function"]["name"] for tool in told["agent"]["tool_definitions"]] == ["find", "open"]
    assert (
        [step["step_id"] for step in told["steps"]]
        == [1, 2, 3, 4]
        == [*range(1, told["final_metrics"]["total_steps"] + 1)]
    )
    assert [step["source"] for step in told["steps"]] == ["system", "user", "agent", "agent"]
    turn = told["steps"][2]
    assert turn["reasoning_content"] == "I look first."
    assert turn["tool_calls"][1] == {"tool_call_id": "b", "function_name": "open", "arguments": {"box": 1}}
    assert turn["observation"]["results"] == [
        {"source_call_id": "b", "content": "opened"},
        {"source_call_id": "a", "content": "box 1"},
    ]
    assert told["extra"] == {"environment": "shelf", "state_changes": "not known"}


def test_what_changed_stands_at_the_step_whose_call_changed_it() -> None:
    changes = [StateChange(tool="find", patch=()), StateChange(tool="open", patch=(OPENED,), count=1)]
    told = trajectory_to_atif(TALK, "t", changes=changes)
    assert told["steps"][2]["extra"] == {"state_changes": [{"tool_call_id": "b", "patch": [OPENED]}]}
    assert told["extra"]["state_changes"] == "by step"
    long = [changes[0], StateChange(tool="open", patch=None, count=900)]
    assert trajectory_to_atif(TALK, "t", changes=long)["steps"][2]["extra"] == {
        "state_changes": [{"tool_call_id": "b", "omitted": 900}]
    }


@pytest.mark.parametrize(
    "changes",
    [
        [StateChange(tool="open", patch=()), StateChange(tool="find", patch=())],
        [StateChange(tool="find", patch=())],
        [StateChange(tool="find", patch=())] + [StateChange(tool="open", patch=())] * 2,
    ],
)
def test_changes_of_other_calls_are_refused(changes: list[StateChange]) -> None:
    with pytest.raises(FormatError, match="calls"):
        trajectory_to_atif(TALK, "t", changes=changes)


def test_calls_without_ids_of_their_own_get_some() -> None:
    """Observations have to name a call of their own step."""
    twice = (ToolCall(name="find"), ToolCall(name="open"))
    messages: tuple[Any, ...] = (asked(*twice), *[Message(role="tool", content=said) for said in ("one", "two")])
    step = trajectory_to_atif(Conversation(messages=messages), "t")["steps"][0]
    assert [call["tool_call_id"] for call in step["tool_calls"]] == ["call_1_1", "call_1_2"]
    assert [(found["source_call_id"], found["content"]) for found in step["observation"]["results"]] == [
        ("call_1_1", "one"),
        ("call_1_2", "two"),
    ]


def test_a_result_without_a_call_is_refused() -> None:
    with pytest.raises(FormatError, match="answers no call"):
        trajectory_to_atif(Conversation(messages=(Message(role="tool", content="lost"),)), "t")
