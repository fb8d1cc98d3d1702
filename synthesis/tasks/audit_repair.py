"""Audits of drafted tasks (ours): a red one goes back to the author once, with what the audit found, and no further."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import SOLVED_AT
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, MalformedReply, ProgramError, Rejected, StateError
from synthesis.formats.records import CheckRecord, EnvironmentRecord
from synthesis.prompts import fenced, prompt
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.tasks.answer_judge import audit_judge
from synthesis.tasks.check_view import all_helpers
from synthesis.tasks.checklist import MOST
from synthesis.tasks.checks import judge, settle
from synthesis.tasks.minimal_reference import earned, minimal_reference
from synthesis.tasks.reference_search import solved
from synthesis.tasks.repair_form import read_repair
from synthesis.tasks.solver_runs import judged_again
from synthesis.tasks.task_context import Unfit, World, world_of
from synthesis.tasks.task_frame import allowances, framed, unframed
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import NOTES, Fault, TaskAudit
from synthesis.verifiers.call_sequences import AT_ONCE
from synthesis.verifiers.frame_words import value_words

TOLD = 20
"""So many faults are told to the author, and kept with a rejection."""
VALUES_TOLD = 4
FAULT_CHARS = 1_600
"""A fault names what was changed and what it was before, each in `SIDE_CHARS` at most."""


async def audit(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft
) -> tuple[TaskDraft, TaskAudit]:
    """The task, repaired once where its audit was red, and its audit: green, or incomplete without a reference. Of a
    repaired task all runs are with it, as it judges them now; else they stay where they were made.

    Raises Rejected (`red_audit`, `no_goal_check`, `cannot_be_audited`) and what `Kit.ask` and `solve` raise.
    """
    world = await world_of(kit, record, scenario)
    report = await _audited(kit, world, task)
    if report.state != "red":
        return task.model_copy(update={"runs": ()}), report
    mended = await _solved_again(kit, world, await _repaired(kit, world, task, report))
    after = await _audited(kit, world, mended)
    if after.state == "red":
        raise _red("The audit is still red after one repair", after)
    runs = {run.ordinal: run for run in (*task.runs, *mended.runs)}
    return mended.model_copy(update={"runs": await judged_again(kit, world, mended, runs.values())}), after


async def _audited(kit: Kit, world: World, task: TaskDraft) -> TaskAudit:
    try:
        subject = world.subject(task, task.reference)
        return await kit.run(audit_task, kit.sandbox, subject, kit.check_stop, AT_ONCE, audit_judge(kit, task))
    except (InputError, ProgramError, StateError) as error:
        raise Rejected("cannot_be_audited", f"The task cannot be audited: {error}") from error


async def _repaired(kit: Kit, world: World, task: TaskDraft, report: TaskAudit) -> TaskDraft:
    """The task with the checklist and checks that the author makes of the audit's faults."""
    words = prompt("tasks", "repair").render(
        about=prompt_text.about(world.record),
        tools=prompt_text.tools(world.record),
        state=world.shown,
        task=fenced("task", task.instruction),
        frame=fenced("frame", _frame(task)),
        checks=fenced("checks", "\n\n".join(f"# {condition.label}\n{condition.source}" for condition in task.checks)),
        reference=fenced("reference", _solution(task)),
        faults=fenced("faults", "\n".join(f"- {fault.message[:FAULT_CHARS]}" for fault in _serious(report))),
        whose=_whose(report),
        guards=prompt("tasks", f"guards_{task.rule}").render(),
        most=str(MOST),
        helpers=all_helpers(bool(task.answer_form)),
    )
    told: dict[int, set[str]] = {}
    notes: list[str] = []

    async def check(source: str) -> None:
        reply = read_repair(source)
        notes.clear()
        allowances(reply.free or (), world.start)
        for index, condition in enumerate(reply.checks):
            try:
                note = await judge(kit, world, told.setdefault(index, set()))(condition.source)
            except InputError as error:
                raise Unfit("red_audit", f"check {index + 1} ({condition.label}): {error}") from error
            notes.extend([f"Check {index + 1} ({condition.label}) {note}"] if note else [])

    try:
        reply = read_repair(await kit.ask_code("author", "repair_task", words, check))
    except MalformedReply as error:
        if not isinstance(error.__cause__, Unfit):
            raise
        raise _red(f"The author could not repair it ({error.__cause__})", report) from error
    given = [CheckRecord(label=condition.label, source=condition.source) for condition in reply.checks]
    free = task.free if reply.free is None else allowances(reply.free, world.start)
    fresh = {
        "checklist": tuple(condition.label for condition in reply.checks),
        "free": free,
        "notes": tuple(notes),
    }
    return await settle(kit, world, task.model_copy(update=fresh), given)


async def _solved_again(kit: Kit, world: World, task: TaskDraft) -> TaskDraft:
    """The task with a reference for its new checks: the old one if it still earns all, else a run old or new."""
    if task.reference is not None:
        subject = unframed(world, task, None)
        _, reward = await kit.run(earned, kit.sandbox, subject, world.start, task.reference)
        if reward >= SOLVED_AT:
            shorter = await kit.run(minimal_reference, kit.sandbox, subject, world.start, task.reference)
            return await framed(kit, world, task.model_copy(update={"reference": shorter}))
    again = await solved(kit, world, task)
    return again if again.reference else await solved(kit, world, task, first=kit.settings.solver_runs)


def _red(what: str, report: TaskAudit) -> Rejected:
    serious = _serious(report)
    kinds = ", ".join(dict.fromkeys(fault.kind for fault in serious))
    evidence: list[dict[str, Any]] = [fault.model_dump() for fault in serious]
    return Rejected("red_audit", f"{what}: {kinds}. {serious[0].message[:FAULT_CHARS] if serious else ''}", evidence)


def _serious(report: TaskAudit) -> list[Fault]:
    return [fault for fault in report.faults if fault.kind not in NOTES][:TOLD]


def _whose(report: TaskAudit) -> str:
    """What may be wrong where an altered way earns everything: a condition, or the way that was altered."""
    passes = any(fault.kind == "mutant_passes" for fault in report.faults)
    return prompt("tasks", "repair_mutant_passes").render() if passes else ""


def _frame(task: TaskDraft) -> str:
    """What may change as it is now, line by line, with a mark where the author declared it."""
    if task.frame is None:
        return "there is none yet"
    declared = {item.path for item in task.free}
    lines = []
    for item in task.frame.allowances:
        notes = [f"at most {item.most}"] * bool(item.most) + ["in FREE"] * (item.path in declared)
        notes += [f"to {words}" for words in [" or ".join(value_words(item)[:VALUES_TOLD])] if words]
        lines.append(f"{item.path} ({', '.join(notes)})" if notes else item.path)
    return prompt_text.cut("\n".join(lines) or "nothing", prompt_text.ABOUT_CHARS)


def _solution(task: TaskDraft) -> str:
    if task.reference is None:
        return "none is known"
    calls = [f"{number}. {call.tool} {call.arguments}" for number, call in enumerate(task.reference.calls, 1)]
    return prompt_text.cut("\n".join([*calls, f"Answer: {task.reference.answer}"]), prompt_text.ABOUT_CHARS)
