"""Calls of simulated users in EnvScaler's record of a run: where in the talk they were made comes back."""

from __future__ import annotations

from synthesis.formats.envscaler_export import run_to_envscaler
from synthesis.formats.envscaler_runs import read_run
from synthesis.formats.files import Entry
from synthesis.formats.records import RunRecord, RunStep


def looked(answer: str, turn: int) -> RunStep:
    return RunStep(kind="call", by="user", turn=turn, tool="look", arguments={"at": answer}, recorded=answer)


def test_calls_before_the_first_words_between_and_behind_the_last_come_back_in_their_places() -> None:
    """The last ones are of a user who was lost before it said something again."""
    steps = (
        looked("dark", 0),
        RunStep(kind="user", content="It is dark.", turn=0),
        RunStep(kind="call", tool="ask", arguments={"at": "dark"}, recorded="ok", turn=1),
        RunStep(kind="message", content="And now?", turn=2),
        looked("dim", 2).model_copy(update={"content": "Hm.", "reasoning": "I look."}),
        looked("bright", 2),
        RunStep(kind="user", content="Bright.", turn=2),
        RunStep(kind="message", content="Fine. And the door?", turn=3),
        looked("open", 3),
    )
    record = RunRecord(environment_key="house", task_key="light", conversational=True, steps=steps)
    spelled = run_to_envscaler(record)
    assert spelled["task_info"]["task"] == "It is dark."
    assert [message["role"] for message in spelled["messages"]] == [
        "user", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    read = read_run(Entry("run", spelled))
    assert read.steps == steps
    assert read.answer == "And now?\n\nFine. And the door?"
    assert run_to_envscaler(read) == spelled
