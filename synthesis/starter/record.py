"""Recorder of references and each `script.json`: `python -m synthesis.starter.record` writes `golden.json`,
`frames.json` and `runs.json`.

A script contains the agent's thoughts, messages, calls and submissions and its user's messages. The agent's
observations and its reward are recorded from the runtime, so a run never contains anything that did not happen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from synthesis.contracts import Allowance, CallResult, Frame, GoldenVerifier, Program, ReferenceCall, Reward
from synthesis.errors import ProgramError
from synthesis.formats.answer_form import ACCEPTED, SUBMIT_ANSWER, read_submission, serialize_answer
from synthesis.formats.records import RunRecord, RunStep, TaskRecord
from synthesis.formats.verifier_record import serialize_verifier
from synthesis.rollout.observation import format_observation
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.starter import build_program, list_folders, read_environment, read_json_file, read_other_ways, read_tasks
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.frame import find_widenings, widen_frame
from synthesis.verifiers.golden.golden_states import make_golden
from synthesis.verifiers.reference_frame import build_reference_frame
from synthesis.verifiers.rewards import score_end


def execute_calls(
    sandbox: Sandbox, program: Program, task: TaskRecord, calls: list[dict[str, Any]], answer: str
) -> tuple[list[CallResult], Reward]:
    """Return the results of a call sequence from the task's initial state, and the reward at the end."""
    with sandbox.reset(program, encode_state(task.initial_state), validation="source") as episode:
        initial = episode.state()
        results = [episode.call(call["tool"], call["arguments"]) for call in calls]
        final = episode.state()
    return results, score_end(sandbox, task.verifier, initial, final, answer)


def record_run(sandbox: Sandbox, program: Program, task: TaskRecord, script: dict[str, Any]) -> RunRecord:
    """Return one scripted run, executed."""
    lines = script["steps"]
    submitted = [line["submit"] for line in lines if "submit" in line]
    answer = serialize_answer(read_submission(task.answer_form, submitted[-1])) if submitted else ""
    calls = [{"tool": line["call"], "arguments": line["arguments"]} for line in lines if "call" in line]
    results, reward = execute_calls(sandbox, program, task, calls, answer)
    seen = iter(results)
    steps = [RunStep(kind="user", content=task.instruction)]
    turn = 0
    for line in lines:
        turn += "user" not in line
        steps.append(_build_step(line, turn, seen))
    return RunRecord(
        environment_key=task.environment_key,
        task_key=task.key,
        policy=script["policy"],
        conversational=script.get("conversational", False),
        steps=tuple(steps),
        answer=answer,
        recorded_reward=reward.reward,
        truncated=script.get("truncated", False),
        terminated=not script.get("truncated", False),
    )


def _build_step(line: dict[str, Any], turn: int, seen: Any) -> RunStep:
    if "user" in line:
        return RunStep(kind="user", turn=turn, content=line["user"])
    if "say" in line:
        return RunStep(kind="message", turn=turn, content=line["say"], reasoning=line.get("reasoning", ""))
    submits = "submit" in line
    return RunStep(
        kind="call",
        turn=turn,
        content=line.get("content", ""),
        reasoning=line.get("reasoning", ""),
        tool=SUBMIT_ANSWER if submits else line["call"],
        arguments=line["submit" if submits else "arguments"],
        recorded=ACCEPTED if submits else format_observation(next(seen)),
        executed=not submits,
    )


def record_folder_runs(sandbox: Sandbox, folder: Path) -> list[RunRecord]:
    program = build_program(read_environment(folder))
    by_key = {task.key: task for task in read_tasks(folder)}
    return [
        record_run(sandbox, program, by_key[script["task"]], script) for script in read_json_file(folder, "script.json")
    ]


def compute_frames(sandbox: Sandbox, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return by task key the frame that the executed reference spans, widened by the other right ways that are
    written.
    """
    program, ways = build_program(read_environment(folder)), read_other_ways(folder)
    places: dict[str, list[dict[str, Any]]] = {}
    for task in read_tasks(folder):
        if task.reference is None or isinstance(task.verifier, GoldenVerifier):
            continue
        initial = encode_state(task.initial_state)
        subject = Subject(program=program, initial=initial, verifier=task.verifier, reference=task.reference)
        frame = build_reference_frame(sandbox, subject)
        for way in ways.get(task.key, ()):
            frame = widen_frame(frame, _find_way_allowances(sandbox, subject, frame, way))
        places[task.key] = [item.model_dump(mode="json", exclude_defaults=True) for item in frame.allowances]
    return places


def compute_goldens(sandbox: Sandbox, folder: Path) -> dict[str, dict[str, Any]]:
    """Return by task key the golden state that the executed reference leaves, of tasks that are judged by one."""
    program = build_program(read_environment(folder))
    verified_tasks = [
        task for scene in read_json_file(folder, "scenarios.json") for task in scene["tasks"] if "verifier" in task
    ]
    equalities = {
        task["key"]: task["verifier"]["equality"] for task in verified_tasks if task["verifier"]["kind"] == "golden"
    }
    golden_records: dict[str, dict[str, Any]] = {}
    for task in read_tasks(folder):
        if task.key in equalities:
            initial = encode_state(task.initial_state)
            subject = Subject(program=program, initial=initial, verifier=task.verifier, reference=task.reference)
            golden = make_golden(sandbox, subject, equality=equalities[task.key]).golden
            golden_records[task.key] = serialize_verifier(golden)["verifier"]
    return golden_records


def format_frames(places: dict[str, list[dict[str, Any]]]) -> str:
    """Return the frames of a folder as JSON, one place per line."""
    parts = []
    for key, rows in places.items():
        lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
        parts.append(f" {json.dumps(key)}: [\n{lines}\n ]" if rows else f" {json.dumps(key)}: []")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _find_way_allowances(
    sandbox: Sandbox, subject: Subject, frame: Frame, way: dict[str, Any]
) -> tuple[Allowance, ...]:
    """Return the additional changes of another right way. Raises ProgramError if it cannot be executed."""
    calls = [ReferenceCall.model_validate(call) for call in way["calls"]]
    start, run = run_calls(sandbox, subject, ()), run_calls(sandbox, subject, calls)
    if start.state is None or run.state is None:
        raise ProgramError(f"Another way cannot be carried out: {start.lost or run.lost}")
    return find_widenings(frame, start.state, run.state, source="author", reason=way["reason"])


def main() -> None:
    sandbox = get_default_sandbox()
    for folder in list_folders():
        if golden_records := compute_goldens(sandbox, folder):
            text = json.dumps(golden_records, indent=1, ensure_ascii=False) + "\n"
            (folder / "golden.json").write_text(text, encoding="utf-8")
        (folder / "frames.json").write_text(format_frames(compute_frames(sandbox, folder)), encoding="utf-8")
        runs = [run.model_dump(mode="json", exclude_defaults=True) for run in record_folder_runs(sandbox, folder)]
        text = json.dumps(runs, indent=1, ensure_ascii=False) + "\n"
        (folder / "runs.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
