"""The bundled environments, written for this project: one folder each with program, scenarios, tasks, references,
frames and recorded runs. `python -m synthesis.starter.record` executes references and each `script.json`, and writes
`golden.json`, `frames.json` and `runs.json` anew.

The set is plain files: `script.json` is executed and what the runtime showed is written down, so a bundled run never
says what did not happen. Checks judge a task unless `scenarios.json` names another `verifier`; a golden state stands in
`golden.json`. Of a task `frames.json` has what its reference changes, and `free` in `scenarios.json` what a right way
may change besides, each with a reason. `load` gives records as any importer does; `manage.py demo` saves them. Every
task's audit is green.
"""

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
    answer_text,
    answer_tool,
    field_checks,
    form_record,
    read_expected,
    read_form,
    with_field_checks,
)
from synthesis.formats.envscaler_export import environment_to_envscaler, run_to_envscaler
from synthesis.formats.records import EnvironmentRecord, RunRecord, TaskRecord, ToolRecord
from synthesis.formats.signatures import signatures
from synthesis.formats.verifier_record import read_verifier, verifier_record
from synthesis.rollout.plan import documentation
from synthesis.rollout.styles import system_message
from synthesis.runtime.program import outline
from synthesis.runtime.signature import working_schema
from synthesis.verifiers.frame import widen

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
    record = EnvironmentRecord(
        **fields,
        rules=tuple(about["rules"]),
        state_schema=tuple(about["state_schema"]),
        source=source,
        tools=tools,
    )
    return record.model_copy(update={"raw": environment_to_envscaler(record)})


def tasks(folder: Path) -> list[TaskRecord]:
    about = read(folder, "environment.json")
    known, framed, golden = references(folder), frames(folder), goldens(folder)
    return [
        _task(about, scene, task | golden.get(task["key"], {}), known.get(task["key"]), framed.get(task["key"]))
        for scene in read(folder, "scenarios.json")
        for task in scene["tasks"]
    ]


def _task(
    about: dict[str, Any],
    scene: dict[str, Any],
    task: dict[str, Any],
    reference: dict[str, Any] | None,
    spanned: Frame | None,
) -> TaskRecord:
    free = [Allowance(source="author", **place) for place in task.get("free", ())]
    frame = widen(spanned, free) if spanned is not None else None
    form = read_form(task, task["key"])
    expected = read_expected(task, form, task["key"])
    verifier = _verifier(task, form, expected, frame)
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
        reference=_reference(reference) if reference else None,
        raw={
            "env_id": about["key"],
            "env_class_name": about["class_name"],
            "task_id": task["key"],
            "init_config": scene["initial_state"],
            "task": task["instruction"],
            **form_record(form, expected),
            **_spell_verifier(verifier),
            **({"frame": frame.model_dump(mode="json", exclude_defaults=True)} if frame is not None else {}),
        },
    )


def _verifier(
    task: dict[str, Any], form: tuple[AnswerField, ...], expected: dict[str, Any], frame: Frame | None
) -> Verifier:
    """What judges a task; the checks of its form alone as long as its golden state is not recorded."""
    if "checks" in task:
        own = [CheckRecord(label=check["label"], source=check["source"]) for check in task["checks"]]
        return ChecksVerifier(checks=with_field_checks(own, form, expected), rule=task["score_rule"], frame=frame)
    is_recorded = task["verifier"]["kind"] != "golden" or "state" in task["verifier"]
    other = read_verifier(task, task["key"], form, expected, frame) if is_recorded else None
    return other or ChecksVerifier(checks=field_checks(form, expected), rule="goals", frame=frame)


def _spell_verifier(verifier: Verifier) -> dict[str, Any]:
    if not isinstance(verifier, ChecksVerifier):
        return verifier_record(verifier)
    return {"checklist_with_func": [{"check_item": one.label, "check_func": one.source} for one in verifier.checks]}


def _reference(written: dict[str, Any]) -> Reference:
    """A reference; the answer to a form stands in it as an object."""
    answer = written.get("answer", "")
    return Reference.model_validate({**written, "answer": answer if isinstance(answer, str) else answer_text(answer)})


def references(folder: Path) -> dict[str, dict[str, Any]]:
    """By task key: the calls that reach reward 1, and the answer. Empty where none are written yet."""
    by_task: dict[str, dict[str, Any]] = (
        read(folder, "references.json") if (folder / "references.json").exists() else {}
    )
    return by_task


def frames(folder: Path) -> dict[str, Frame]:
    """By task key what the executed reference changes, as `record` wrote it down; empty where nothing is written."""
    path = folder / "frames.json"
    written: dict[str, list[dict[str, Any]]] = read(folder, path.name) if path.exists() else {}
    return {key: Frame.model_validate({"allowances": places}) for key, places in written.items()}


def goldens(folder: Path) -> dict[str, dict[str, Any]]:
    """By task key its `verifier` with the golden state that the executed reference leaves, as `record` wrote it."""
    path = folder / "golden.json"
    written: dict[str, dict[str, Any]] = read(folder, path.name) if path.exists() else {}
    return {key: {"verifier": verifier} for key, verifier in written.items()}


def other_ways(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """By task key other right ways that change other things than the reference: their `calls`, and the `reason`."""
    by_task: dict[str, list[dict[str, Any]]] = read(folder, "ways.json") if (folder / "ways.json").exists() else {}
    return by_task


def runs(folder: Path) -> list[RunRecord]:
    return [RunRecord.model_validate(run) for run in read(folder, "runs.json")]


def program_of(record: EnvironmentRecord) -> Program:
    """The program with the working schemas of its tools."""
    methods = {method.name: method for method in outline(record.source, record.class_name).methods}
    return Program(
        source=record.source,
        class_name=record.class_name,
        tools=tuple(
            Tool(
                name=tool.name,
                description=tool.description,
                kind=tool.kind,
                parameters=working_schema(methods[tool.name]),
            )
            for tool in record.tools
        ),
    )


def conversation(about: EnvironmentRecord, task: TaskRecord, run: RunRecord) -> dict[str, Any]:
    """A run in EnvScaler's shape, as a model here would have had it: with what agents are told first and the tools that
    they are offered. Without both nobody could learn from it."""
    tools, form = program_of(about).tools, task.answer_form
    about_it = documentation(about.introduction, about.rules)
    told, _ = system_message("tools", run.conversational, about_it, tools, form)
    tools += (answer_tool(form),) if form else ()
    listed = [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]
    raw = run_to_envscaler(run)
    messages = [{"role": "system", "content": told.content}, *raw["messages"]]
    return raw | {"messages": messages, "tools": [{"type": "function", "function": function} for function in listed]}


def bundled_keys() -> frozenset[str]:
    """Keys of the bundled environments."""
    return frozenset(read(folder, "environment.json")["key"] for folder in folders())


def load() -> tuple[list[EnvironmentRecord], list[TaskRecord], list[RunRecord]]:
    """Everything that is bundled, in a fixed order."""
    every = folders()
    known = {folder: environment(folder) for folder in every}
    listed = {task.key: task for folder in every for task in tasks(folder)}
    return (
        list(known.values()),
        list(listed.values()),
        [
            run.model_copy(update={"raw": conversation(about, listed[run.task_key], run)})
            for folder, about in known.items()
            for run in runs(folder)
        ],
    )
