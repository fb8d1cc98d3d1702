"""Recorded runs in which an agent wrote a call that cannot be read: whole, with that step as it was written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synthesis.formats.envscaler_runs import read_run
from synthesis.formats.files import Entry
from synthesis.formats.records import RunStep
from synthesis.formats.transcript import UNPARSED, parse_turns
from tests.importing import samples

GOOD = '{"name": "set_status", "arguments": {"ticket_id": "T1", "status": "closed"}}'
TOO_MANY, TOO_FEW = GOOD + "}", GOOD[:-1]


def tagged(call: str, think: str = "<think>I close it.</think>") -> str:
    return f"{think}Closing.\n<tool_call>\n{call}\n</tool_call>"


def steps_of(text: str, action: Any = ..., **message: Any) -> list[RunStep]:
    record = samples.unread(samples.run([samples.LOOK, samples.CLOSE], 1.0), text, action, **message)
    told = read_run(Entry("[0]", record))
    assert not told.conversational
    assert told.raw == record
    assert [step.kind for step in told.steps] == ["user", "call", "call", "call", "message", "user"]
    assert [step.tool for step in told.steps[1:4:2]] == ["get_ticket", "set_status"]
    return list(told.steps)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (TOO_MANY, "Extra data at character 77"),
        (TOO_FEW, "at character 76"),
        ("{'name': 'x'}", "character 2"),
    ],
)
def test_a_call_with_a_brace_too_many_or_too_few_is_a_step_as_it_was_written(call: str, problem: str) -> None:
    step = steps_of(tagged(call))[2]
    assert (step.content, step.reasoning, step.recorded) == ("Closing.", "I close it.", samples.COMPLAINT)
    assert step.arguments == {UNPARSED: call}
    assert problem in step.problem
    assert step.tool == ("(no name)" if call.startswith("{'") else "set_status")


def test_one_that_never_closes_and_one_that_names_no_tool() -> None:
    open_ended = tagged(GOOD, "").replace("</tool_call>", "")
    step = steps_of(open_ended)[2]
    assert step.arguments == {UNPARSED: open_ended}
    assert step.content == ""
    nameless = steps_of(tagged('{"arguments": {"ticket_id": "T1"}}'))[2]
    assert (nameless.tool, nameless.problem) == ("(no name)", "It is no JSON object that names a tool.")


def test_arguments_of_a_native_call_that_cannot_be_read() -> None:
    """EnvScaler keeps nothing of the action then."""
    made = {"id": "c9", "type": "function", "function": {"name": "set_status", "arguments": '{"ticket_id": "T1"'}}
    step = steps_of("", None, tool_calls=[made])[2]
    assert (step.tool, step.arguments) == ("set_status", {UNPARSED: '{"ticket_id": "T1"'})
    assert step.problem
    assert step.recorded == samples.COMPLAINT


@pytest.mark.parametrize("action", [{}, {"name": None}, {"name": " ", "arguments": {}}, [], 7])
def test_an_action_without_a_name_is_no_reason_to_refuse_a_run(action: Any) -> None:
    assert steps_of(tagged(TOO_MANY), action)[2].problem


def test_a_run_of_messages_alone_keeps_the_step_too() -> None:
    record = samples.unread(samples.run([samples.LOOK, samples.CLOSE], 1.0), tagged(TOO_FEW))
    told = read_run(Entry("[0]", {**record, "trajectory": []}))
    (unread,) = [step for step in told.steps if step.problem]
    assert unread.recorded == samples.COMPLAINT
    assert not told.conversational
    alone = read_run(Entry("[0]", {**record, "messages": []}))
    assert [bool(step.problem) for step in alone.steps if step.kind == "call"] == [False, True, False]


def test_calls_listed_without_a_name_are_unreadable_not_refused() -> None:
    (turn,) = parse_turns([{"role": "assistant", "tool_calls": [{"id": "a"}, "{}", json.loads(GOOD)]}], "messages")
    assert [(call.tool, bool(call.problem)) for call in turn.calls] == [
        ("(no name)", True), ("(no name)", True), ("set_status", False)
    ]  # fmt: skip
