"""Frozen datasets, their splits, and files from outside."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthesis.contracts import (
    CheckRecord,
    ChecksVerifier,
    Criterion,
    Frame,
    Message,
    Program,
    RubricVerifier,
    Tool,
    ToolCall,
)
from synthesis.errors import FormatError, InputError
from synthesis.formats.sft import Conversation, Shape
from synthesis.rollout import RolloutTask
from training.dataset import (
    RowOrigin,
    Split,
    TaskRow,
    TrajectoryRow,
    UploadLimits,
    assign_side,
    build_trajectory_rows,
    check_upload,
    drop_lines,
    freeze_dataset_folder,
    parse_line,
    read_manifest,
    read_rows,
    serialize_unit,
)

TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"at": [1, None]}}}
ROW: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "", "reasoning_content": "I look.", "tool_calls": [CALL]},
        {"role": "tool", "content": "a cup", "tool_call_id": "c1"},
        {"role": "assistant", "content": "A cup."},
    ],
    "tools": [TOOL],
}


VERIFIER = ChecksVerifier(checks=(CheckRecord(source="True"),))


def task(number: int, environment: str = "e0", scenario: str = "s0") -> TaskRow:
    program = Program(source="class A: pass", class_name="A", tools=(Tool(name="look"),))
    rollout = RolloutTask(key=f"t{number}", program=program, initial={}, instruction="Look.", verifier=VERIFIER)
    return TaskRow(id=f"t{number}", environment=environment, scenario=scenario, task=f"t{number}", rollout=rollout)


def tasks(environments: int = 20, each: int = 3) -> list[TaskRow]:
    return [
        task(e * each + n, environment=f"e{e}", scenario=f"s{n % 2}") for e in range(environments) for n in range(each)
    ]


def line(row: object) -> bytes:
    return json.dumps(row).encode() + b"\n"


def changed(**fields: Any) -> dict[str, Any]:
    return {**ROW, **fields}


def with_message(number: int, **fields: Any) -> dict[str, Any]:
    messages = [dict(message) for message in ROW["messages"]]
    messages[number] |= fields
    return changed(messages=messages)


def test_a_row_is_read_and_written_as_trl_wants_it() -> None:
    row = parse_line(line(ROW), "trajectories")
    assert isinstance(row, TrajectoryRow)
    written = row.trl()
    assert written["messages"] == with_message(3, name="look")["messages"], "a result has its tool's name"
    assert written["tools"] == ROW["tools"]
    again = parse_line(line(written), "trajectories")
    assert isinstance(again, TrajectoryRow)
    assert again.trl() == written


def test_openais_spelling_of_arguments_and_empty_content() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    row = parse_line(line(with_message(2, content=None, tool_calls=[call])), "trajectories")
    assert row.trl()["messages"][2]["tool_calls"][0]["function"] == {"name": "look", "arguments": {"at": 1}}
    call["function"] = {"name": "look", "arguments": {}}
    kept = parse_line(line(with_message(2, tool_calls=[call])), "trajectories").trl()["messages"][2]
    assert kept["tool_calls"] == [call]  # chat templates want arguments and type even where they say nothing


def test_openais_training_files_load() -> None:
    """https://platform.openai.com/docs/guides/supervised-fine-tuning: weights, refusals, the role of a developer."""
    first, *rest = ROW["messages"]
    turns = [{**first, "role": "developer"}, *rest, {"role": "user", "content": "Break it."}]
    refused = {"role": "assistant", "content": None, "refusal": "I cannot."}
    given: dict[str, Any] = {"messages": [*turns, refused], "tools": [TOOL], "parallel_tool_calls": False}
    given["messages"][2] = {**given["messages"][2], "weight": 0, "refusal": None}
    row = parse_line(line(given), "trajectories")
    assert isinstance(row, TrajectoryRow)
    told = row.trl()["messages"]
    assert (told[0]["role"], told[-1]["content"], told[2]["weight"]) == ("system", "I cannot.", 0)
    assert [message.is_learnt for message in row.messages] == [False, False, False, False, True, False, True]
    for bad, reason in (
        ({"messages": [*given["messages"][:4], {**turns[4], "weight": 0}]}, "nothing to learn"),
        ({"messages": [*turns[:2], {**turns[2], "tool_calls": [CALL, CALL]}]}, "parallel_tool_calls is false"),
    ):
        with pytest.raises(FormatError, match=reason):
            parse_line(line({**given, **bad}), "trajectories")


def test_a_task_row_goes_through_trls_form() -> None:
    row = task(3)
    written = row.trl()
    assert written["prompt"] == [{"role": "user", "content": "Look.", "name": "t3"}]
    assert isinstance(written["rollout"], str)
    assert parse_line(line(written), "tasks") == row


def test_rows_of_a_conversation_whole_and_turn_by_turn() -> None:
    call = ToolCall(id="c1", name="look", arguments={"at": 1})
    talk = Conversation(
        messages=(
            Message(role="system", content="You help."),
            Message(role="user", content="Look."),
            Message(role="assistant", reasoning="I look.", tool_calls=(call,)),
            Message(role="tool", content="a cup", tool_call_id="c1"),
            Message(role="assistant", content="A cup.", reasoning="Clear."),
        ),
        tools=(Tool(name="look"),),
    )
    origin = RowOrigin(id="t", environment="e", scenario="s", task="k", setting="conversation")
    (whole,) = build_trajectory_rows(talk, Shape(), origin)
    assert (whole.id, whole.environment, whole.setting, len(whole.messages)) == ("t", "e", "conversation", 5)
    first, second = build_trajectory_rows(talk, Shape(mask_history=True), origin)
    assert (first.id, second.id) == ("t:1", "t:2")
    assert first.completion[0].reasoning_content == "I look."
    assert second.prompt[2].reasoning_content == ""
    assert set(second.trl()) >= {"prompt", "completion", "tools", "environment"}


@pytest.mark.parametrize("unit", ["environment", "scenario", "task"])
def test_a_unit_is_on_one_side_only(unit: Any, tmp_path: Path) -> None:
    split = Split(unit=unit, test_share=0.4, seed=1)
    manifest = freeze_dataset_folder(
        tmp_path, tasks(), name="d", kind="tasks", split=split, selection={"category": "x"}
    )
    sides = {side: list(read_rows(tmp_path, side)) for side in ("train", "test")}
    units = {side: {serialize_unit(row, unit) for row in rows} for side, rows in sides.items()}
    assert not units["train"] & units["test"]
    assert len(sides["train"]) + len(sides["test"]) == 60
    assert (manifest.train.units, manifest.test.units) == (len(units["train"]), len(units["test"]))
    assert manifest == read_manifest(tmp_path)
    assert f"split by {unit}" in manifest.sentence


@given(order=st.permutations(range(60)), seed=st.integers(0, 9))
@settings(max_examples=20, deadline=None)
def test_a_rows_side_asks_no_other_row(order: list[int], seed: int) -> None:
    split, rows = Split(test_share=0.3, seed=seed), tasks()
    sides = {row.id: assign_side(row, split) for row in rows}
    assert {rows[n].id: assign_side(rows[n], split) for n in order[:17]}.items() <= sides.items()


def test_about_the_share_is_held_out_and_the_seed_matters() -> None:
    rows = [task(n, environment=f"e{n}") for n in range(2_000)]
    held = [{row.id for row in rows if assign_side(row, Split(test_share=0.2, seed=s)) == "test"} for s in (0, 1)]
    assert all(330 < len(some) < 470 for some in held)
    assert held[0] != held[1]
    assert len({serialize_unit(row, "scenario") for row in tasks()}) == 40  # s0 of e0 is not s0 of e1


def test_the_same_rows_give_the_same_hash_and_others_another(tmp_path: Path) -> None:
    def hash_of(name: str, rows: list[TaskRow], **more: Any) -> str:
        return freeze_dataset_folder(tmp_path / name, rows, name=name, kind="tasks", split=Split(**more)).sha256

    first = hash_of("a", tasks(), test_share=0.4)
    assert hash_of("b", tasks(), test_share=0.4) == first
    assert hash_of("c", tasks()[1:], test_share=0.4) != first
    assert hash_of("d", tasks(), test_share=0.4, seed=1) != first


def test_what_cannot_be_frozen(tmp_path: Path) -> None:
    few = [task(n, environment="e0") for n in range(3)]
    for number, (rows, split, reason) in enumerate(
        [
            ([], Split(), "the selection is empty"),
            (few, Split(), r"the split leaves nothing (held out|to learn from): 1 units of kind environment"),
            ([*few, few[0]], Split(test_share=0), "the id 't0' was there before"),
            ([task(0, environment="")], Split(), "has no `environment`"),
        ]
    ):
        with pytest.raises(InputError, match=reason):
            freeze_dataset_folder(tmp_path / str(number), rows, name="d", kind="tasks", split=split)
        with pytest.raises(InputError, match="holds no frozen dataset"):
            read_manifest(tmp_path / str(number))
    done = freeze_dataset_folder(tmp_path / "one", few, name="d", kind="tasks", split=Split(test_share=0))
    assert done.sentence == "3 tasks, nothing held out"
    with pytest.raises(InputError, match="datasets are never changed"):
        freeze_dataset_folder(tmp_path / "one", few, name="d", kind="tasks", split=Split(test_share=0))
    file = tmp_path / "one" / "train.jsonl"
    file.write_bytes(file.read_bytes().replace(b"Look.", b"Move."))
    with pytest.raises(FormatError, match="is not what was frozen"):
        list(read_rows(tmp_path / "one", "train"))
    (tmp_path / "one" / "manifest.json").write_text("{}")
    with pytest.raises(FormatError, match="is damaged"):
        read_manifest(tmp_path / "one")


BAD: list[tuple[object, str, str]] = [
    (b"{", "", "not valid JSON"),
    (b'{"messages": NaN}', "messages", "NaN, which is not a number"),
    (b"[" * 100_000, "", "nested too deeply"),
    (b"[]", "", "must be one JSON object"),
    (b'{"x": "\xff"}', "", "not UTF-8"),
    (b'{"x": "\\ud800"}', "x", "surrogate"),
    ({}, "", "either `messages`, or `prompt`"),
    (changed(mesages=[]), "mesages", "is no field of this format"),
    (changed(messages=ROW["messages"][:4]), "", "message 4: the last message must be the assistant's"),
    (changed(tools=[]), "", "message 3: calls 'look', which is not among `tools`"),
    (changed(tools=[TOOL, TOOL]), "", "the same name"),
    (changed(messages=[*ROW["messages"], ROW["messages"][0]]), "", "message 6: a system message can only be the first"),
    (changed(messages=[ROW["messages"][3], ROW["messages"][4]]), "", "message 1: a tool's message without a call"),
    (with_message(3, tool_call_id="c9"), "", "message 4: tool_call_id names no open call"),
    (with_message(1, role="developer"), "", "message 2: a system message can only be the first"),
    (with_message(1, role="critic"), "messages.1.role", "Input should be"),
    (with_message(1, weight=0), "messages.1", "role user has no weight"),
    (with_message(4, weight=0.5), "messages.4.weight", "Input should be"),
    (with_message(4, refusal="No."), "messages.4", "instead of content"),
    (
        changed(messages=[*ROW["messages"][:3], ROW["messages"][1], ROW["messages"][4]]),
        "",
        "message 4: the call of 'look' before it has no result",
    ),
    (with_message(1, content=[{"type": "text"}]), "messages.1.content", "lists of parts"),
    (with_message(1, content=3), "messages.1.content", "valid string"),
    (with_message(4, content=""), "messages.4", "holds nothing"),
    (with_message(1, reasoning_content="x"), "messages.1", "role user has no"),
    (
        with_message(2, tool_calls=[{"function": {"name": "look", "arguments": "{"}}]),
        "messages.2.tool_calls",
        "JSON text",
    ),
    (with_message(2, tool_calls=[{"function": {"name": "look", "arguments": "[1]"}}]), "messages.2", "dictionary"),
    (changed(id="a\x00b"), "id", "control characters"),
    ({"prompt": ROW["messages"][:2]}, "", "completion: missing"),
]


@pytest.mark.parametrize(("bad", "place", "reason"), BAD)
def test_bad_lines_are_told_with_line_place_and_reason(bad: Any, place: str, reason: str) -> None:
    content = line(ROW) + (bad + b"\n" if isinstance(bad, bytes) else line(bad)) + line(ROW)
    report = check_upload(io.BytesIO(content), "trajectories")
    assert not report.ok
    assert (report.lines, report.rows, report.problem_count) == (3, 2, 1)
    (problem,) = report.problems
    assert problem.line == 2
    assert problem.place.startswith(place)
    assert reason in problem.message
    assert len(problem.message) < 400


def test_tasks_without_a_verifier_or_under_another_name_are_refused() -> None:
    written = task(1).trl()
    rollout = json.loads(written["rollout"])
    for values, reason in [
        ({**written, "rollout": {**rollout, "verifier": {"kind": "checks"}}}, "earns no reward"),
        ({**written, "id": "other"}, "must be there and be rollout.key too"),
        ({**written, "rollout": "x"}, "JSON text"),
    ]:
        with pytest.raises(FormatError, match=reason):
            parse_line(line({key: value for key, value in values.items() if key != "prompt"}), "tasks")


def test_limits_end_the_check_and_are_told() -> None:
    good = line(ROW)
    for limits, reason, lines in [
        (UploadLimits(file_bytes=len(good) + 1), "is larger than", 2),
        (UploadLimits(lines=2), "more than 2 lines", 3),
    ]:
        report = check_upload(io.BytesIO(good * 5), "trajectories", limits)
        assert not report.complete
        assert report.lines == lines
        assert reason in report.problems[-1].message
    assert check_upload(io.BytesIO(good), "trajectories", UploadLimits(line_bytes=len(good) - 1)).ok
    long = check_upload(io.BytesIO(good * 3), "trajectories", UploadLimits(line_bytes=len(good) - 2))
    assert (long.complete, long.problem_count, long.bytes) == (True, 3, 3 * len(good))
    assert "is longer than" in long.problems[0].message
    many = check_upload(io.BytesIO(b"{}\n" * 50), "trajectories", UploadLimits(problems=3))
    assert (many.problem_count, len(many.problems)) == (50, 3)


def test_lines_with_problems_are_left_out_where_that_is_chosen_and_the_rest_is_unchanged() -> None:
    good, long = line(ROW), line(with_message(1, content="x" * (3 << 20)))
    content = b"{}\n" + good + long + b"[]\n" + good + b"\xff" + good[:-1]
    limits = UploadLimits(line_bytes=len(good) + 100)
    report = check_upload(io.BytesIO(content), "trajectories", limits, leave_out=True)
    assert (report.ok, report.rows, report.left_out) == (True, 2, (1, 3, 4, 6))
    assert [problem.line for problem in report.problems] == [1, 3, 4, 6]
    assert b"".join(drop_lines(io.BytesIO(content), report.left_out)) == good * 2
    assert not check_upload(io.BytesIO(b"{}\n" * 3), "trajectories", leave_out=True).ok  # nothing is left of it


def test_only_so_many_lines_may_be_left_out() -> None:
    good, limits = line(ROW), UploadLimits(left_out=2)
    assert check_upload(io.BytesIO(b"{}\n" * 2 + good), "trajectories", limits, leave_out=True).ok
    many = check_upload(io.BytesIO((b"{}\n" + good) * 3), "trajectories", limits, leave_out=True)
    assert (many.ok, many.complete, many.problems[-1].line) == (False, False, 5)
    assert "no more may be left out" in many.problems[-1].message


def test_empty_files_empty_lines_and_repeated_ids() -> None:
    assert check_upload(io.BytesIO(b""), "tasks").problems[0].message.startswith("The file is empty")
    assert check_upload(io.BytesIO(line(ROW) + b"\n"), "trajectories").problems[0].message == "is empty; delete it"
    twice = check_upload(io.BytesIO(line(changed(id="a")) * 2), "trajectories")
    assert twice.problems[0].message.startswith("is the id of line 1 too")
    assert check_upload(io.BytesIO(line(ROW) + line(ROW)[:-1]), "trajectories").ok  # no newline at the end is fine


def test_tasks_frozen_by_earlier_versions_are_read() -> None:
    frame = {"allowances": [{"path": "/a"}]}
    base = {
        "key": "t1",
        "program": {"source": "class A: pass", "class_name": "A", "tools": []},
        "initial": {},
        "instruction": "Look.",
    }
    flat = {
        "checks": ["True"],
        "marks": ["goal"],
        "rule": "goals",
        "frame": frame,
        "criteria": [],
        "expected_answer": {},
    }
    read = RolloutTask.model_validate(base | flat)
    checks = (CheckRecord(source="True"),)
    assert read.verifier == ChecksVerifier(checks=checks, marks=("goal",), frame=Frame.model_validate(frame))
    rubric = RolloutTask.model_validate(base | {"checks": [], "criteria": ["It is open."], "expected_answer": {"n": 1}})
    assert rubric.verifier == RubricVerifier(criteria=(Criterion(text="It is open."),), expected_answer={"n": 1})
    assert RolloutTask.model_validate(read.model_dump(mode="json")) == read
