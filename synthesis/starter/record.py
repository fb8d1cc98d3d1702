"""Executes references and each `script.json`: `python -m synthesis.starter.record` writes `golden.json`, `frames.json`
and `runs.json`.

A script says what the agent thought, said, called and submitted and what its user said. What the agent saw and the
reward it got are recorded from the runtime, so a run never says anything that did not happen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from synthesis.contracts import Allowance, CallResult, Frame, GoldenVerifier, Program, ReferenceCall, Reward
from synthesis.errors import ProgramError
from synthesis.formats.answer_form import ACCEPTED, SUBMIT_ANSWER, answer_text, read_submission
from synthesis.formats.records import RunRecord, RunStep, TaskRecord
from synthesis.formats.verifier_record import verifier_record
from synthesis.rollout.observation import observation
from synthesis.runtime import Sandbox, default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.starter import environment, folders, other_ways, program_of, read, tasks
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.frame import widen, widenings
from synthesis.verifiers.golden.golden_states import make_golden
from synthesis.verifiers.reference_frame import reference_frame
from synthesis.verifiers.rewards import score_end


def execute(
    sandbox: Sandbox, program: Program, task: TaskRecord, calls: list[dict[str, Any]], answer: str
) -> tuple[list[CallResult], Reward]:
    """The results of a call sequence from the task's initial state, and the reward in the end."""
    with sandbox.reset(program, encode_state(task.initial_state), validation="source") as episode:
        initial = episode.state()
        results = [episode.call(call["tool"], call["arguments"]) for call in calls]
        final = episode.state()
    return results, score_end(sandbox, task.verifier, initial, final, answer)


def record(sandbox: Sandbox, program: Program, task: TaskRecord, script: dict[str, Any]) -> RunRecord:
    """One scripted run, executed."""
    lines = script["steps"]
    submitted = [line["submit"] for line in lines if "submit" in line]
    answer = answer_text(read_submission(task.answer_form, submitted[-1])) if submitted else ""
    calls = [{"tool": line["call"], "arguments": line["arguments"]} for line in lines if "call" in line]
    results, reward = execute(sandbox, program, task, calls, answer)
    seen = iter(results)
    steps = [RunStep(kind="user", content=task.instruction)]
    turn = 0
    for line in lines:
        turn += "user" not in line
        steps.append(_step(line, turn, seen))
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


def _step(line: dict[str, Any], turn: int, seen: Any) -> RunStep:
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
        recorded=ACCEPTED if submits else observation(next(seen)),
        executed=not submits,
    )


def record_folder(sandbox: Sandbox, folder: Path) -> list[RunRecord]:
    program = program_of(environment(folder))
    by_key = {task.key: task for task in tasks(folder)}
    return [record(sandbox, program, by_key[script["task"]], script) for script in read(folder, "script.json")]


def frames_of(sandbox: Sandbox, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """By task key the frame that the executed reference spans, widened by the other right ways that are written."""
    program, ways = program_of(environment(folder)), other_ways(folder)
    places: dict[str, list[dict[str, Any]]] = {}
    for task in tasks(folder):
        if task.reference is None or isinstance(task.verifier, GoldenVerifier):
            continue
        initial = encode_state(task.initial_state)
        subject = Subject(program=program, initial=initial, verifier=task.verifier, reference=task.reference)
        frame = reference_frame(sandbox, subject)
        for way in ways.get(task.key, ()):
            frame = widen(frame, _way_allowances(sandbox, subject, frame, way))
        places[task.key] = [item.model_dump(mode="json", exclude_defaults=True) for item in frame.allowances]
    return places


def goldens_of(sandbox: Sandbox, folder: Path) -> dict[str, dict[str, Any]]:
    """By task key the golden state that the executed reference leaves, of tasks that one judges."""
    program = program_of(environment(folder))
    asked = [task for scene in read(folder, "scenarios.json") for task in scene["tasks"] if "verifier" in task]
    equalities = {task["key"]: task["verifier"]["equality"] for task in asked if task["verifier"]["kind"] == "golden"}
    made: dict[str, dict[str, Any]] = {}
    for task in tasks(folder):
        if task.key in equalities:
            initial = encode_state(task.initial_state)
            subject = Subject(program=program, initial=initial, verifier=task.verifier, reference=task.reference)
            golden = make_golden(sandbox, subject, equality=equalities[task.key]).golden
            made[task.key] = verifier_record(golden)["verifier"]
    return made


def frames_text(places: dict[str, list[dict[str, Any]]]) -> str:
    """The frames of a folder as JSON, one place a line."""
    parts = []
    for key, rows in places.items():
        lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
        parts.append(f" {json.dumps(key)}: [\n{lines}\n ]" if rows else f" {json.dumps(key)}: []")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _way_allowances(sandbox: Sandbox, subject: Subject, frame: Frame, way: dict[str, Any]) -> tuple[Allowance, ...]:
    """What another right way changes besides. Raises ProgramError where it cannot be carried out."""
    calls = [ReferenceCall.model_validate(call) for call in way["calls"]]
    start, run = run_calls(sandbox, subject, ()), run_calls(sandbox, subject, calls)
    if start.state is None or run.state is None:
        raise ProgramError(f"Another way cannot be carried out: {start.lost or run.lost}")
    return widenings(frame, start.state, run.state, source="author", reason=way["reason"])


def main() -> None:
    sandbox = default_sandbox()
    for folder in folders():
        if made := goldens_of(sandbox, folder):
            text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
            (folder / "golden.json").write_text(text, encoding="utf-8")
        (folder / "frames.json").write_text(frames_text(frames_of(sandbox, folder)), encoding="utf-8")
        runs = [run.model_dump(mode="json", exclude_defaults=True) for run in record_folder(sandbox, folder)]
        text = json.dumps(runs, indent=1, ensure_ascii=False) + "\n"
        (folder / "runs.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
