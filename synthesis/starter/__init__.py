"""The bundled environments, written for this project: one folder each with program, scenarios, tasks, references
and recorded runs. `python -m synthesis.starter.record` executes each `script.json` and writes `runs.json` anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from synthesis.formats.records import CheckRecord, EnvironmentRecord, RunRecord, TaskRecord, ToolRecord
from synthesis.formats.signatures import signatures

HERE = Path(__file__).resolve().parent
SOURCE = "starter"


def folders() -> list[Path]:
    return sorted(path.parent for path in HERE.glob("*/environment.json"))


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def environment(folder: Path) -> EnvironmentRecord:
    """The environment of one folder; a tool's description is its docstring."""
    about = read(folder, "environment.json")
    source = (folder / "program.py").read_text(encoding="utf-8")
    docs = {item.name: item.doc for item in signatures(source, about["class_name"])}
    tools = tuple(ToolRecord(**tool, description=docs[tool["name"]]) for tool in about["tools"])
    fields = {name: about[name] for name in ("key", "name", "category", "summary", "introduction", "class_name")}
    return EnvironmentRecord(
        **fields,
        rules=tuple(about["rules"]),
        state_schema=tuple(about["state_schema"]),
        source=source,
        tools=tools,
        raw=_environment_raw(about, source, docs),
    )


def _environment_raw(about: dict[str, Any], source: str, docs: dict[str, str]) -> dict[str, Any]:
    """The record in EnvScaler's shape, so that an export of the starter set can be imported anywhere."""
    operations = [
        {
            "operation_name": tool["name"],
            "operation_description": docs[tool["name"]].partition("\n")[0],
            "operation_type": "state_change" if tool["kind"] == "change" else "query",
        }
        for tool in about["tools"]
    ]
    return {
        "env_id": about["key"],
        "environment_summary": about["summary"],
        "environment_introduction": about["introduction"],
        "category": about["category"],
        "state_space_definition": about["state_schema"],
        "constraints_rules": about["rules"],
        "operation_list": operations,
        "env_class_name": about["class_name"],
        "env_class_code": source,
    }


def tasks(folder: Path) -> list[TaskRecord]:
    about = read(folder, "environment.json")
    return [_task(about, scene, task) for scene in read(folder, "scenarios.json") for task in scene["tasks"]]


def _task(about: dict[str, Any], scene: dict[str, Any], task: dict[str, Any]) -> TaskRecord:
    listed = [{"check_item": check["label"], "check_func": check["source"]} for check in task["checks"]]
    return TaskRecord(
        environment_key=about["key"],
        key=task["key"],
        title=task["title"],
        scenario_name=scene["name"],
        instruction=task["instruction"],
        initial_state=scene["initial_state"],
        checks=tuple(CheckRecord(label=check["label"], source=check["source"]) for check in task["checks"]),
        score_rule=task["score_rule"],
        raw={
            "env_id": about["key"],
            "env_class_name": about["class_name"],
            "task_id": task["key"],
            "init_config": scene["initial_state"],
            "task": task["instruction"],
            "checklist_with_func": listed,
        },
    )


def references(folder: Path) -> dict[str, dict[str, Any]]:
    """By task key: the calls that reach reward 1, and the answer."""
    found: dict[str, dict[str, Any]] = read(folder, "references.json")
    return found


def runs(folder: Path) -> list[RunRecord]:
    return [RunRecord.model_validate(run) for run in read(folder, "runs.json")]


def run_raw(run: RunRecord) -> dict[str, Any]:
    """The run in EnvScaler's shape, for exports."""
    messages: list[dict[str, Any]] = []
    actions: list[dict[str, Any]] = [{"step": 0, "observation": run.steps[0].content}]
    for number, step in enumerate(run.steps):
        if step.kind == "user":
            messages.append({"role": "user", "content": step.content})
            continue
        said: dict[str, Any] = {"role": "assistant", "content": step.content, "reasoning_content": step.reasoning}
        messages.append(said)
        if step.kind == "call":
            function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
            said["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
            messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": step.recorded})
            observation = {"type": "tool", "content": step.recorded}
            action = {"name": step.tool, "arguments": step.arguments}
            actions.append({"step": len(actions), "action": action, "observation": observation})
    users = [{"role": "user", "content": step.content} for step in run.steps if step.kind == "user"]
    return {
        "task_info": {"env_id": run.environment_key, "task_id": run.task_key, "task": run.steps[0].content},
        "model": run.policy,
        "messages": messages,
        "user_messages": users if run.conversational else None,
        "trajectory": actions,
        "total_reward": run.recorded_reward,
        "terminated": run.terminated,
        "truncated": run.truncated,
    }


def load() -> tuple[list[EnvironmentRecord], list[TaskRecord], list[RunRecord]]:
    """Everything that is bundled, in a fixed order."""
    every = folders()
    return (
        [environment(folder) for folder in every],
        [task for folder in every for task in tasks(folder)],
        [run.model_copy(update={"raw": run_raw(run)}) for folder in every for run in runs(folder)],
    )
