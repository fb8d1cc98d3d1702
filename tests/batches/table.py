"""A short pipeline for the machine's own tests: each stage asks, little, and makes drafts that can be stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from pydantic import BaseModel

from synthesis.contracts import Attempt, CheckRecord, Reference, ReferenceCall
from synthesis.drafts import AssembledProgram, AssessmentDraft, ScenarioDraft, TaskDraft, ThemeDraft, ToolCase, ToolRate
from synthesis.errors import Rejected
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.rollout import Plan, ReferencePolicy, RolloutTask, run_attempts
from synthesis.runtime import encode_state
from synthesis.stage_adapters import is_assessed, take_environment
from synthesis.stages import Barrier, BarrierGroups, ItemPart, ItemSpec, Kit, Level, Pipeline, Stage, StageSettings
from synthesis.verifiers.audit_report import AuditedTask, build_untried_audit
from tests.fixtures.llm import DROP, Request, Scripted, html, say
from tests.rollout.support import CHECKS, SOURCE, program

KINDS = {"find_box": "query", "open_box": "change"}
REFERENCE = Reference(calls=(ReferenceCall(tool="open_box", arguments={"box_id": "B-1"}),), answer="It is open.")


class Said(BaseModel):
    words: str


def theme(name: str, description: str = "") -> ThemeDraft:
    return ThemeDraft(key=name, name=name, description=description or f"All about {name}.")


def answer(request: Request) -> Scripted:
    """The same words for the same request; what a theme is called says what goes wrong with it."""
    text = request["messages"][0]["content"]
    if "drop-" in text:
        return DROP
    if "html-" in text:
        return html()
    if "malformed-" in text:
        return say("This is no JSON.")
    return say(json.dumps({"words": hashlib.sha256(text.encode()).hexdigest()[:12]}))


def slow(seconds: float, request: Request) -> Scripted:
    """The same, with time to interrupt it."""
    found = answer(request)
    return Scripted(found.body, found.status, found.headers, seconds, found.drop)


async def ask(kit: Kit, role: str, stage: str, sample: int = 0) -> str:
    return (await kit.ask(role, stage, f"{role}: {stage} {sample} of {kit.path}", Said, sample=sample)).words


async def discover(kit: Kit, spec: ItemSpec) -> ThemeDraft:
    if spec.theme is not None:
        return spec.theme
    words = await ask(kit, "author", "judge_task")
    if "weather" in spec.text:
        raise Rejected("not_stateful", "Nothing is kept there.", {"said": words})
    return ThemeDraft(key=spec.key, name=f"Theme {words}", description=words, origin="tasks", origin_text=spec.text)


async def alike(barrier: Barrier, themes: Sequence[ThemeDraft]) -> BarrierGroups:
    first: dict[str, list[int]] = {}
    for index, one in enumerate(themes):
        first.setdefault(one.description, []).append(index)
    return BarrierGroups(list(first.values()))


async def assemble(kit: Kit, spec: ItemSpec, found: ThemeDraft) -> AssembledProgram:
    words = await ask(kit, "author", "code_attributes")
    if "faulty" in found.name:
        raise ValueError("a fault of ours")
    if "poor" in found.name:
        raise Rejected("too_poor", f"{found.name} has too few tools.", {"tools": 1})
    record = EnvironmentRecord(
        key=found.key,
        name=found.name,
        category="Storage",
        class_name="Shelf",
        source=SOURCE,
        introduction=f"A shelf of boxes. {words}",
        tools=tuple(ToolRecord(name=name, kind=kind) for name, kind in KINDS.items()),  # type: ignore[arg-type]
        raw={"env_id": found.key},
    )
    return AssembledProgram(record=record)


async def assess(kit: Kit, spec: ItemSpec, made: AssembledProgram) -> AssessmentDraft:
    words = [await ask(kit, role, "call", sample) for sample in range(2) for role in ("tester", "checker")]
    case = ToolCase(
        tool="find_box",
        arguments={"owner": words[0]},
        case="positive",
        state={},
        ok=True,
        verdict="pass",
        reason=words[1],
    )
    rate = ToolRate(tool="find_box", passed=1, positive=1)
    return AssessmentDraft(cases=(case,), rates=(rate,), score=1, strict=1, planned=1, kept=True, threshold=0.85)


async def state(kit: Kit, spec: ItemSpec, made: AssembledProgram) -> ScenarioDraft:
    return ScenarioDraft(name=await ask(kit, "author", "initial_state"), state={"n": spec.ordinal})


async def instruction(kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft) -> TaskDraft:
    words = await ask(kit, "author", "instruction")
    checks = tuple(CheckRecord(label=f"check {number}", source=source) for number, source in enumerate(CHECKS))
    return TaskDraft(title=words, instruction=f"Open it. {words}", checks=checks, reference=REFERENCE)


async def audit(kit: Kit, spec: ItemSpec, task: TaskDraft) -> AuditedTask:
    return AuditedTask(task=task, audit=build_untried_audit("no_reference", await ask(kit, "judge", "audit")))


async def rollout(
    kit: Kit, spec: ItemSpec, made: AssembledProgram, scenario: ScenarioDraft, audited: AuditedTask
) -> Attempt:
    """The reference is played; the teacher is only asked for words."""
    words = await ask(kit, "teacher", "rollout", spec.ordinal)
    task = RolloutTask(
        key=words,
        program=program(),
        initial=encode_state(scenario.state),
        instruction=audited.task.instruction,
        verifier=audited.task.verifier,
    )
    plan = Plan(task, ReferencePolicy(REFERENCE), ordinal=spec.ordinal)
    (made,) = [one async for one in run_attempts(kit.sandbox, [plan])]
    return made


async def sift(kit: Kit, spec: ItemSpec, attempt: Attempt) -> Attempt:
    return attempt


def parts(level: Level, settings: StageSettings) -> list[ItemPart]:
    below: dict[str, Level] = {"theme": "scenario", "scenario": "task", "task": "trajectory"}
    counts = {"theme": settings.scenarios, "scenario": settings.tasks, "task": settings.teacher_runs}
    if level not in below:
        return []
    name = {"scenario": "scenario", "task": "task", "trajectory": "work"}[below[level]]
    return [ItemPart(below[level], f"{name}-{one}", ItemSpec(ordinal=one)) for one in range(counts[level])]


TABLE = Pipeline(
    (
        Stage("discover", "theme", (), (), ThemeDraft, discover),
        Stage("deduplicate", "theme", (), ("discover",), group=alike),
        Stage("assemble", "theme", ("author",), ("discover",), AssembledProgram, assemble, given=take_environment),
        Stage("assess", "theme", ("tester", "checker"), ("assemble",), AssessmentDraft, assess, skipped=is_assessed),
        Stage("state", "scenario", ("author",), ("assemble",), ScenarioDraft, state),
        Stage("instruction", "task", ("author",), ("assemble", "state"), TaskDraft, instruction),
        Stage("audit", "task", ("judge",), ("instruction",), AuditedTask, audit),
        Stage("rollout", "trajectory", ("teacher",), ("assemble", "state", "audit"), Attempt, rollout),
        Stage("filter", "trajectory", (), ("rollout",), Attempt, sift),
    ),
    parts,
)
