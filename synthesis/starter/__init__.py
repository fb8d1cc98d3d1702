"""Bundled environments, written for this project: one folder each with program, scenarios, tasks, references, frames
and recorded runs. `python -m synthesis.starter.record` executes references and each `script.json`, and rewrites
`golden.json`, `frames.json` and `runs.json`.

The set consists of plain files: `script.json` is executed and the observed results are stored, so a bundled run always
shows what really happened. Checks judge a task unless `scenarios.json` names another `verifier`; golden states are in
`golden.json`. `frames.json` has the changes of each task's reference, and `free` in `scenarios.json` the further
changes that a right way may make, each with a reason. `load_bundle` returns records as any importer does; `manage.py
demo` saves them. Every task's audit is green."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from synthesis.contracts import (
    Allowance,
    AnswerField,
    CheckRecord,
    ChecksVerifier,
    Frame,
    Program,
    Reference,
    Tool,
    Verifier,
)
from synthesis.formats.answer_form import (
    add_field_checks,
    build_answer_tool,
    build_field_checks,
    read_expected,
    read_form,
    serialize_answer,
    serialize_form,
)
from synthesis.formats.envscaler_export import environment_to_envscaler, run_to_envscaler
from synthesis.formats.records import EnvironmentRecord, RunRecord, TaskRecord, ToolRecord
from synthesis.formats.signatures import list_signatures
from synthesis.formats.verifier_record import read_verifier, serialize_verifier
from synthesis.rollout.plan import format_documentation
from synthesis.rollout.styles import build_system_message
from synthesis.runtime.program import outline_program
from synthesis.runtime.signature import derive_working_schema
from synthesis.verifiers.frame import widen_frame

HERE = Path(__file__).resolve().parent
SOURCE = "starter"


def list_folders() -> list[Path]:
    return sorted(path.parent for path in HERE.glob("*/environment.json"))


def read_json_file(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def read_environment(folder: Path) -> EnvironmentRecord:
    """Return the environment of one folder; a tool's description is its docstring."""
    about = read_json_file(folder, "environment.json")
    source = (folder / "program.py").read_text(encoding="utf-8")
    docs = {item.name: item.doc for item in list_signatures(source, about["class_name"])}
    tools = tuple(ToolRecord(**tool, description=docs[tool["name"]]) for tool in about["tools"])
    fields = {name: about[name] for name in ("key", "name", "category", "summary", "introduction", "class_name")}
    record = EnvironmentRecord(
        **fields,
        rules=tuple(about["rules"]),
        state_schema=tuple(about["state_schema"]),
        source=source,
        tools=tools,
    )
    return record.model_copy(update={"raw": environment_to_envscaler(record)})


def read_tasks(folder: Path) -> list[TaskRecord]:
    about = read_json_file(folder, "environment.json")
    known, framed, golden = read_references(folder), read_frames(folder), read_goldens(folder)
    return [
        _build_task(about, scene, task | golden.get(task["key"], {}), known.get(task["key"]), framed.get(task["key"]))
        for scene in read_json_file(folder, "scenarios.json")
        for task in scene["tasks"]
    ]


def _build_task(
    about: dict[str, Any],
    scene: dict[str, Any],
    task: dict[str, Any],
    reference: dict[str, Any] | None,
    spanned: Frame | None,
) -> TaskRecord:
    free = [Allowance(source="author", **place) for place in task.get("free", ())]
    frame = widen_frame(spanned, free) if spanned is not None else None
    form = read_form(task, task["key"])
    expected = read_expected(task, form, task["key"])
    verifier = _build_verifier(task, form, expected, frame)
    return TaskRecord(
        environment_key=about["key"],
        key=task["key"],
        title=task["title"],
        scenario_name=scene["name"],
        instruction=task["instruction"],
        answer_form=form,
        expected_answer=expected,
        initial_state=scene["initial_state"],
        verifier=verifier,
        reference=_parse_reference(reference) if reference else None,
        raw={
            "env_id": about["key"],
            "env_class_name": about["class_name"],
            "task_id": task["key"],
            "init_config": scene["initial_state"],
            "task": task["instruction"],
            **serialize_form(form, expected),
            **_serialize_verifier(verifier),
            **({"frame": frame.model_dump(mode="json", exclude_defaults=True)} if frame is not None else {}),
        },
    )


def _build_verifier(
    task: dict[str, Any], form: tuple[AnswerField, ...], expected: dict[str, Any], frame: Frame | None
) -> Verifier:
    """Return the verifier of a task; only the checks of its form as long as its golden state is not recorded."""
    if "checks" in task:
        own_checks = [CheckRecord(label=check["label"], source=check["source"]) for check in task["checks"]]
        return ChecksVerifier(checks=add_field_checks(own_checks, form, expected), rule=task["score_rule"], frame=frame)
    is_recorded = task["verifier"]["kind"] != "golden" or "state" in task["verifier"]
    other_verifier = read_verifier(task, task["key"], form, expected, frame) if is_recorded else None
    return other_verifier or ChecksVerifier(checks=build_field_checks(form, expected), rule="goals", frame=frame)


def _serialize_verifier(verifier: Verifier) -> dict[str, Any]:
    if not isinstance(verifier, ChecksVerifier):
        return serialize_verifier(verifier)
    return {"checklist_with_func": [{"check_item": one.label, "check_func": one.source} for one in verifier.checks]}


def _parse_reference(written: dict[str, Any]) -> Reference:
    """Return a reference; its answer to a form is stored as an object."""
    answer = written.get("answer", "")
    return Reference.model_validate(
        {**written, "answer": answer if isinstance(answer, str) else serialize_answer(answer)}
    )


def read_references(folder: Path) -> dict[str, dict[str, Any]]:
    """Return by task key the calls that reach reward 1, and the answer. Empty if none are written yet."""
    by_task: dict[str, dict[str, Any]] = (
        read_json_file(folder, "references.json") if (folder / "references.json").exists() else {}
    )
    return by_task


def read_frames(folder: Path) -> dict[str, Frame]:
    """Return by task key the changes of the executed reference, as `synthesis.starter.record` wrote them; empty if none
    are written.
    """
    path = folder / "frames.json"
    written: dict[str, list[dict[str, Any]]] = read_json_file(folder, path.name) if path.exists() else {}
    return {key: Frame.model_validate({"allowances": places}) for key, places in written.items()}


def read_goldens(folder: Path) -> dict[str, dict[str, Any]]:
    """Return by task key its `verifier` with the golden state that the executed reference leaves, as
    `synthesis.starter.record` wrote it.
    """
    path = folder / "golden.json"
    written: dict[str, dict[str, Any]] = read_json_file(folder, path.name) if path.exists() else {}
    return {key: {"verifier": verifier} for key, verifier in written.items()}


def read_other_ways(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return by task key other right ways that change other things than the reference: their `calls`, and the
    `reason`.
    """
    by_task: dict[str, list[dict[str, Any]]] = (
        read_json_file(folder, "ways.json") if (folder / "ways.json").exists() else {}
    )
    return by_task


def read_runs(folder: Path) -> list[RunRecord]:
    return [RunRecord.model_validate(run) for run in read_json_file(folder, "runs.json")]


def build_program(record: EnvironmentRecord) -> Program:
    """Return the program with the working schemas of its tools."""
    methods = {method.name: method for method in outline_program(record.source, record.class_name).methods}
    return Program(
        source=record.source,
        class_name=record.class_name,
        tools=tuple(
            Tool(
                name=tool.name,
                description=tool.description,
                kind=tool.kind,
                parameters=derive_working_schema(methods[tool.name]),
            )
            for tool in record.tools
        ),
    )


def build_conversation(about: EnvironmentRecord, task: TaskRecord, run: RunRecord) -> dict[str, Any]:
    """Return a run in EnvScaler's shape, as a model here would have had it: with the system message of agents and the
    tools that they are offered. Without both it could not be trained on.
    """
    tools, form = build_program(about).tools, task.answer_form
    about_it = format_documentation(about.introduction, about.rules)
    system_words, _ = build_system_message("tools", run.conversational, about_it, tools, form)
    tools += (build_answer_tool(form),) if form else ()
    tool_specs = [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]
    raw = run_to_envscaler(run)
    messages = [{"role": "system", "content": system_words.content}, *raw["messages"]]
    return raw | {
        "messages": messages,
        "tools": [{"type": "function", "function": function} for function in tool_specs],
    }


def list_bundled_keys() -> frozenset[str]:
    """Return the keys of the bundled environments."""
    return frozenset(read_json_file(folder, "environment.json")["key"] for folder in list_folders())


def load_bundle() -> tuple[list[EnvironmentRecord], list[TaskRecord], list[RunRecord]]:
    """Return all bundled records, in a fixed order."""
    all_folders = list_folders()
    environments = {folder: read_environment(folder) for folder in all_folders}
    tasks_by_key = {task.key: task for folder in all_folders for task in read_tasks(folder)}
    return (
        list(environments.values()),
        list(tasks_by_key.values()),
        [
            run.model_copy(update={"raw": build_conversation(about, tasks_by_key[run.task_key], run)})
            for folder, about in environments.items()
            for run in read_runs(folder)
        ],
    )
