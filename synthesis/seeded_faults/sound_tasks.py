"""Sound tasks: bundled tasks whose verifiers are known to judge rightly, into which faults are put.

Those of the starter set, and those of the bundled themes, which a recipe of the scripted teacher solves on the spot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from synthesis import starter
from synthesis.contracts import (
    SOLVED_AT,
    Allowance,
    AnswerField,
    CheckRecord,
    ChecksVerifier,
    Frame,
    Program,
    Reference,
    ReferenceCall,
    ScoreRule,
    State,
)
from synthesis.formats.answer_form import (
    add_field_checks,
    build_field_checks,
    drop_field_checks,
    read_expected,
    read_form,
    serialize_answer,
)
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.formats.signatures import list_signatures
from synthesis.runtime import Sandbox, encode_state
from synthesis.scripted.library import list_theme_keys as theme_keys
from synthesis.scripted.library import load_theme
from synthesis.scripted.planted import THEMES
from synthesis.scripted.programs.recipes import RECIPES
from synthesis.tasks.known_ways import find_way_faults
from synthesis.tasks.minimal_reference import score_reference
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import Fault, TaskAudit, decide_audit_state
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.reference_frame import build_reference_frame


@dataclass(frozen=True)
class JudgedTask:
    """Task with its verifier.

    `checks` are those that are not made from the answer form, `free` the changes that a right way may make besides the
    reference, `runs` the known solver's runs besides the reference, `ways` other right ways written by people.
    """

    name: str
    origin: str
    program: Program
    initial: State
    checks: tuple[CheckRecord, ...]
    rule: ScoreRule
    reference: Reference
    frame: Frame | None
    form: tuple[AnswerField, ...] = ()
    expected: dict[str, Any] = field(default_factory=dict)
    free: tuple[Allowance, ...] = ()
    runs: tuple[Reference, ...] = ()
    ways: tuple[Reference, ...] = ()

    @property
    def every_check(self) -> tuple[CheckRecord, ...]:
        """The checks with those of the answer form."""
        return add_field_checks(self.checks, self.form, self.expected)

    @property
    def form_checks(self) -> tuple[CheckRecord, ...]:
        """The checks that are made from the answer form."""
        return build_field_checks(self.form, self.expected)


def build_subject(task: JudgedTask, *, framed: bool = True) -> Subject:
    """Return the task in the form that verifiers take."""
    return Subject(
        program=task.program,
        initial=task.initial,
        answer_form=task.form,
        verifier=ChecksVerifier(checks=task.every_check, rule=task.rule, frame=task.frame if framed else None),
        reference=task.reference,
    )


def audit_judged_task(sandbox: Sandbox, task: JudgedTask, at_once: int = 1) -> TaskAudit:
    """Return the audit of a task with the faults of its known runs and right ways, as a batch audits its tasks.

    Raise InputError, ProgramError and InfrastructureError.
    """
    subject, unframed = build_subject(task), build_subject(task, framed=False)
    report = audit_task(sandbox, subject, at_once=at_once)
    start = run_calls(sandbox, subject, ()).state
    assert start is not None
    solved = {
        number: run
        for number, run in enumerate(task.runs)
        if score_reference(sandbox, unframed, start, run)[1] >= SOLVED_AT
    }
    refused = [
        Fault(kind="run_refused", message=f"The known right way {number} does not earn everything.")
        for number, way in enumerate(task.ways, 1)
        if score_reference(sandbox, subject, start, way)[1] < SOLVED_AT
    ]
    faults = (*refused, *find_way_faults(sandbox, subject, unframed, start, solved).faults, *report.faults)
    return report.model_copy(update={"faults": faults, "state": decide_audit_state(faults)})


def iter_starter_tasks() -> Iterator[JudgedTask]:
    """Yield the tasks of the starter set that are judged by checks and have a reference."""
    for folder in starter.list_folders():
        program = starter.build_program(starter.read_environment(folder))
        written = {
            task["key"]: task for scene in starter.read_json_file(folder, "scenarios.json") for task in scene["tasks"]
        }
        other_ways = starter.read_other_ways(folder)
        for task in starter.read_tasks(folder):
            if task.reference is None or not isinstance(task.verifier, ChecksVerifier):
                continue
            free = tuple(Allowance(source="author", **place) for place in written[task.key].get("free", ()))
            others = tuple(_build_way(way, task.reference.answer) for way in other_ways.get(task.key, ()))
            yield JudgedTask(
                name=task.key,
                origin="starter",
                program=program,
                initial=encode_state(task.initial_state),
                checks=drop_field_checks(task.verifier.checks, task.answer_form, task.expected_answer),
                rule=task.verifier.rule,
                reference=task.reference,
                frame=task.verifier.frame,
                form=task.answer_form,
                expected=task.expected_answer,
                free=free,
                runs=(task.reference,),
                ways=others,
            )


def iter_demo_tasks(sandbox: Sandbox) -> Iterator[JudgedTask]:
    """Yield the tasks of the bundled themes that a recipe solves, with the frame of its changes."""
    for key in theme_keys():
        files = load_theme(key)
        program = starter.build_program(_build_theme_record(key))
        for place, about in files.tasks.items():
            scenario, _, number = place.partition("/")
            initial = encode_state(files.states[scenario]["state"])
            form = read_form(about, place)
            reference = _run_recipe(sandbox, key, program, initial, about["instruction"], form)
            checks = files.checks.get(f"Scenario{scenario.rpartition('-')[2]}Task{number.rpartition('-')[2]}", ())
            if reference is None or not checks:
                continue
            task = JudgedTask(
                name=f"{key}/{place}",
                origin="demo",
                program=program,
                initial=initial,
                checks=tuple(CheckRecord(label=check.item, source=check.source) for check in checks),
                rule="goals",
                reference=reference,
                frame=None,
                form=form,
                expected=read_expected(about, form, place),
                runs=(reference,),
            )
            yield replace(task, frame=build_reference_frame(sandbox, build_subject(task)))


def _build_way(written: dict[str, Any], answer: str) -> Reference:
    return Reference(calls=tuple(ReferenceCall.model_validate(call) for call in written["calls"]), answer=answer)


def _build_theme_record(key: str) -> EnvironmentRecord:
    files = load_theme(key)
    source = (Path(THEMES) / key / "program.py").read_text(encoding="utf-8")
    name = files.fragments.class_name
    docs = {item.name: item.doc for item in list_signatures(source, name)}
    kinds = {one["name"]: one["kind"] for one in files.plan["operations"]}
    tools = tuple(ToolRecord(name=tool, kind=kinds[tool], description=docs[tool]) for tool in files.fragments.methods)
    return EnvironmentRecord(key=key, name=files.theme["name"], class_name=name, source=source, tools=tools)


def _run_recipe(
    sandbox: Sandbox, key: str, program: Program, initial: State, words: str, form: tuple[AnswerField, ...]
) -> Reference | None:
    """Return the calls and the answer of the teacher's recipe for a request; None if there is none, or it fails."""
    steps = next((steps for recipe in RECIPES[key] if (steps := recipe(words)) is not None), None)
    if steps is None:
        return None
    calls: list[ReferenceCall] = []
    with sandbox.reset(program, initial) as episode:
        try:
            tool, arguments = next(steps)
            while True:
                calls.append(ReferenceCall(tool=tool, arguments=arguments))
                result = json.loads(json.dumps(episode.call(tool, dict(arguments)).result))
                tool, arguments = steps.send(result if isinstance(result, dict) else {"result": result})
        except StopIteration as end:
            names = {item.name for item in form}
            answer = {name: value for name, value in end.value[1].items() if name in names}
            return Reference(calls=tuple(calls), answer=serialize_answer(answer))
        except (KeyError, IndexError, TypeError, ValueError):
            return None
