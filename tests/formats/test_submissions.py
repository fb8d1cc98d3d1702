"""Submitted answers in recorded runs: read by the form of their task, from every format that a run comes in."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.contracts import AnswerField, Message, Tool, ToolCall
from synthesis.formats.answer_form import build_answer_tool
from synthesis.formats.atif import StateChange, trajectory_to_atif
from synthesis.formats.envscaler_export import run_to_envscaler
from synthesis.formats.envscaler_runs import parse_runs
from synthesis.formats.files import Entry
from synthesis.formats.records import RunRecord, RunStep
from synthesis.formats.sft import Conversation
from synthesis.formats.submissions import read_submitted_run
from tests.formats.test_atif_reader import read

FORM = (AnswerField(name="table", type="number"),)
OPENED = RunStep(kind="call", turn=1, tool="open", arguments={"box": 1}, recorded="opened")
SUBMITTED = RunStep(kind="call", turn=2, tool="submit_answer", arguments={"table": 10}, recorded="accepted")


def run(*steps: RunStep, **fields: Any) -> RunRecord:
    given: dict[str, Any] = {"environment_key": "shelf", "task_key": "open", "recorded_reward": 1.0}
    return RunRecord(steps=(RunStep(kind="user", content="Open it."), *steps), **(given | fields))


def said(words: str) -> RunStep:
    return RunStep(kind="message", turn=2, content=words)


@pytest.mark.parametrize(
    ("last", "answer", "executed", "problem"),
    [
        (SUBMITTED, '{"table": 10}', False, ""),
        (SUBMITTED.model_copy(update={"arguments": {"table": "10"}}), "", True, "table: expected a number"),
        (SUBMITTED.model_copy(update={"problem": "It is no JSON."}), "", True, "It is no JSON."),
        (said('```json\n{"table": 10}\n```'), '{"table": 10}', False, ""),
        (said("Table 10."), "", True, ""),
        (said('At {"table": 10}.'), "", True, ""),
    ],
)
def test_the_answer_of_a_run_is_what_it_submitted(last: RunStep, answer: str, executed: bool, problem: str) -> None:
    found = read_submitted_run(run(OPENED, last, answer="Table 10."), FORM)
    assert found.answer == answer
    assert found.steps[:-1] == run(OPENED).steps
    assert found.steps[-1].executed is executed
    assert problem in found.steps[-1].problem


def test_without_a_form_a_tool_of_that_name_is_a_tool() -> None:
    recorded = run(OPENED, SUBMITTED, answer="Done.")
    assert read_submitted_run(recorded, ()) is recorded


def test_envscalers_shape_holds_the_answer_in_the_conversation_alone() -> None:
    for steps in ((OPENED, SUBMITTED), (SUBMITTED.model_copy(update={"turn": 1}),)):
        made = read_submitted_run(run(*steps), FORM)
        raw = run_to_envscaler(made)
        assert [step["action"]["name"] for step in raw["trajectory"][1:]] == ["open"] * (len(steps) - 1)
        ((_, again),) = parse_runs([Entry("[0]", raw)])
        assert isinstance(again, RunRecord)
        assert read_submitted_run(again, FORM).model_copy(update={"raw": {}}) == made


def test_an_atif_trajectory_ends_with_the_answer() -> None:
    messages = (
        Message(role="system", content="You look after boxes."),
        Message(role="user", content="Open Ada's."),
        Message(role="assistant", tool_calls=(ToolCall(id="a", name="open", arguments={"box": 1}),)),
        Message(role="tool", tool_call_id="a", content="opened"),
        Message(role="assistant", tool_calls=(ToolCall(id="b", name="submit_answer", arguments={"table": 10}),)),
    )
    talk = Conversation(messages=messages, tools=(Tool(name="open"), build_answer_tool(FORM)))
    changes = [StateChange(tool="open", patch=()), StateChange(tool="submit_answer", patch=())]
    written = trajectory_to_atif(talk, "trajectory:7", changes=changes)
    assert written["agent"]["tool_definitions"][-1]["function"]["parameters"]["required"] == ["table"]
    told = read(written)
    assert (told.steps[-1].tool, told.answer) == ("submit_answer", '{"table": 10}')
