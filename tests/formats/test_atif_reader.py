"""ATIF as others write it: read by meaning in every version, refused with the place of what has none."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from synthesis.errors import FormatError
from synthesis.formats import atif_reader
from synthesis.formats.atif import trajectory_to_atif
from synthesis.formats.atif_reader import has_atif_mark, read_atif_records, read_atif_run
from synthesis.formats.files import Entry
from synthesis.formats.records import ForeignRun
from tests.fixtures.atif_files import DELEGATED, EVERY, OLDEST, PICTURES, TERMINAL, changed
from tests.formats.test_atif import TALK


def read(record: dict[str, Any]) -> ForeignRun:
    return read_atif_run(Entry("line 1", record))


@pytest.mark.parametrize(("ids", "named"), [(("c1", "c1"), ("c1", "c1")), ((None, None), (None, None)),
                                            (("c1", "c2"), ("c2", "c1"))])  # fmt: skip
def test_a_result_goes_to_its_call_by_turn_and_order(ids: tuple[Any, Any], named: tuple[Any, Any]) -> None:
    calls = [{"tool_call_id": own, "function_name": f"f{at}", "arguments": {}} for at, own in enumerate(ids)]
    texts = ("0", "1") if ids == named else ("1", "0")
    results = [{"source_call_id": own, "content": text} for own, text in zip(named, texts, strict=True)]
    step = {"step_id": 1, "source": "agent", "message": "", "tool_calls": calls, "observation": {"results": results}}
    told = read({"schema_version": "ATIF-v1.8", "agent": {"name": "a", "version": "1"}, "steps": [step]})
    assert [(one.kind, one.tool, one.recorded) for one in told.steps] == [("call", "f0", "0"), ("call", "f1", "1")]


def test_a_shell_run_has_its_calls_results_reasoning_and_metrics() -> None:
    told = read(TERMINAL)
    assert [step.kind for step in told.steps] == ["system", "user", "call", "call", "message"]
    first, second = told.steps[2:4]
    assert (first.content, first.reasoning, second.content) == ("I count them.", "wc does that.", "")
    assert (first.arguments, first.recorded) == ({"keystrokes": "wc -l notes.txt\n"}, "41 notes.txt")
    assert second.recorded == "Monday: sow the beans"
    assert first.turn == second.turn == told.steps[4].turn - 1
    assert first.details["metrics"] == {
        "prompt_tokens": 520, "completion_tokens": 80, "cached_tokens": 200, "cost_usd": 0.00045
    }  # fmt: skip
    assert first.details["time"] == "2026-03-01T10:00:04Z"
    assert second.details["step_id"] == 3
    assert (told.title, told.policy, told.answer) == (
        "Count the lines of notes.txt.", "made/model-small", "There are 41 lines."
    )  # fmt: skip
    assert (told.about["format"], told.about["agent"], told.about["session_id"]) == (
        "ATIF 1.2",
        "terminus-2",
        "run-0017",
    )
    assert told.about["metrics"] == {"prompt_tokens": 1120, "completion_tokens": 124, "cost_usd": 0.00095}
    assert told.raw == TERMINAL
    assert not told.conversational
    assert "left_out" not in told.about


def test_what_answers_no_call_is_a_step_of_its_own_and_totals_are_added_up() -> None:
    told = read(OLDEST)
    assert [(step.kind, step.content) for step in told.steps[1:3]] == [
        ("message", "git branch --show-current"),
        ("system", "garden"),
    ]
    assert told.steps[2].details == {"step_id": 2, "observation": True}
    assert told.policy == "mini-swe-agent"
    summed = read(changed(TERMINAL, "final_metrics"))
    assert summed.about["metrics"]["completion_tokens"] == 124


def test_text_is_kept_and_what_was_left_out_is_said() -> None:
    told = read(PICTURES)
    assert told.steps[0].content == "What is on the shelf?"
    assert told.steps[0].details["left_out"] == ["image (image/png)"]
    assert told.steps[0].details["copied"]
    assert (told.steps[1].recorded, told.steps[1].details["left_out"]) == ("taken", ["image (image/png)"])
    assert told.about["left_out"] == ["image (image/png), 2 times"]
    assert (told.about["tools"], told.about["copied_steps"]) == (["screenshot"], 1)
    assert told.conversational
    assert told.about["continued_in"] == "trajectory.cont-1.json"
    delegated = read(DELEGATED)
    assert delegated.about["left_out"] == [
        "trajectory of a subagent (child-1)",
        "trajectory of a subagent (child-2.json)",
        "audio (audio/wav)",
        "embedded trajectory of a subagent",
    ]
    assert [step.recorded for step in delegated.steps] == [None, "pruned", None]
    assert delegated.answer == "It is pruned."


def test_our_own_export_comes_in_again_with_the_same_messages_and_calls() -> None:
    told = read(trajectory_to_atif(TALK, "trajectory:7", model="a model"))
    assert [(step.kind, step.content) for step in told.steps] == [
        ("system", "You look after boxes."), ("user", "Open Ada's."), ("call", ""), ("call", ""), ("message", "Done.")
    ]  # fmt: skip
    calls = TALK.messages[2].tool_calls
    assert [(step.tool, step.arguments, step.recorded) for step in told.steps[2:4]] == [
        (calls[0].name, calls[0].arguments, "box 1"),
        (calls[1].name, calls[1].arguments, "opened"),
    ]
    assert told.steps[2].reasoning == "I look first."
    assert (told.policy, told.about["tools"], told.about.get("agent_version")) == ("a model", ["find", "open"], None)


@pytest.mark.parametrize("minor", range(9))
def test_every_version_is_known(minor: int) -> None:
    assert read(changed(TERMINAL, "schema_version", to=f"ATIF-v1.{minor}")).about["format"] == f"ATIF 1.{minor}"


@pytest.mark.parametrize(
    ("record", "place", "reason"),
    [
        (changed(TERMINAL, "schema_version"), "schema_version", "missing"),
        (changed(TERMINAL, "schema_version", to="ATIF-v1.9"), "schema_version", "ATIF-v1.0 to ATIF-v1.8"),
        (changed(TERMINAL, "schema_version", to="ATIF-v2.0"), "schema_version", "not known here"),
        (changed(TERMINAL, "agent"), "agent", "missing"),
        (changed(TERMINAL, "agent", "name"), "agent.name", "missing"),
        (changed(TERMINAL, "steps", to=[]), "steps", "no step"),
        (changed(TERMINAL, "steps", 1, to="hello"), "steps[1]", "expected an object"),
        (changed(TERMINAL, "steps", 2), "steps[2].step_id", "expected 3, found 4: steps are out of order"),
        (changed(TERMINAL, "steps", 1, "source", to="tool"), "steps[1].source", "none of system, user, agent"),
        (changed(TERMINAL, "steps", 1, "message", to=7), "steps[1].message", "expected text or a list of parts"),
        (changed(TERMINAL, "steps", 2, "source", to="user"), "steps[2]", "an agent's alone"),
        (changed(TERMINAL, "steps", 2, "tool_calls", 0, "function_name"), "tool_calls[0].function_name", "missing"),
        (
            changed(TERMINAL, "steps", 2, "observation", "results", 0, "source_call_id", to="c9"),
            "observation.results[0].source_call_id",
            "no call of this step has the id 'c9'",
        ),
        (changed(TERMINAL, "steps", 2, "metrics", "cost_usd", to="much"), "metrics.cost_usd", "expected a number"),
        (changed(TERMINAL, "steps", 2, "metrics", "cost_usd", to=-1), "metrics.cost_usd", "below 0"),
        (changed(PICTURES, "steps", 0, "message", 0, "text", to=3), "steps[0].message[0].text", "expected text"),
    ],
)
def test_what_has_no_meaning_is_refused_with_its_place(record: dict[str, Any], place: str, reason: str) -> None:
    with pytest.raises(FormatError) as refused:
        read(record)
    assert refused.value.place.startswith("line 1.")
    assert refused.value.place.endswith(place)
    assert reason in refused.value.reason


def test_form_is_read_as_it_comes() -> None:
    told = changed(TERMINAL, "steps", 2, "tool_calls", 0, "arguments", to='{"keystrokes": "ls"}')
    assert read(told).steps[2].arguments == {"keystrokes": "ls"}
    unread = changed(TERMINAL, "steps", 2, "tool_calls", 0, "arguments", to="{not json")
    assert list(read(unread).steps[2].arguments.values()) == ["{not json"]
    assert read(changed(TERMINAL, "steps", 2, "step_id")).steps
    assert read(changed(TERMINAL, "steps", 2, "step_id", to="3")).steps
    assert read({**TERMINAL, "something_new": 1}).steps
    odd = read(changed(PICTURES, "steps", 0, "message", 1, to={"type": "video"}))
    assert odd.steps[0].details["left_out"] == ["video"]


def test_a_file_gives_its_good_records_and_says_what_the_others_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = changed(TERMINAL, "steps", 2)
    lines = "\n".join([json.dumps(TERMINAL), "{broken", json.dumps(bad), json.dumps({"task_info": {}})]).encode()
    assert has_atif_mark(lines)
    items = list(read_atif_records(io.BytesIO(lines), "runs.jsonl", 1 << 20))
    assert [item.get("at", "in") for item in items] == ["in", "line 2", "line 3.steps[2].step_id", "in"]
    assert items[3]["other"] == {"task_info": {}}, "a run in another format, which an export has beside it"
    assert items[0]["record"] == TERMINAL
    single = json.dumps(TERMINAL, indent=1).encode()
    assert [item["place"] for item in read_atif_records(io.BytesIO(single), "trajectory.json", 1 << 20)] == ["[0]"]
    monkeypatch.setattr(atif_reader, "MOST_BYTES", 1_000)
    (large,) = read_atif_records(io.BytesIO(single), "trajectory.json", 1 << 20)
    assert "are allowed" in large["reason"]


def test_only_files_of_such_trajectories_are_taken_for_them() -> None:
    assert all(has_atif_mark(json.dumps(record).encode()) for record in EVERY)
    quoted = {"task_info": {}, "messages": [{"role": "tool", "content": json.dumps(TERMINAL)}]}
    assert not has_atif_mark(json.dumps(quoted).encode())
