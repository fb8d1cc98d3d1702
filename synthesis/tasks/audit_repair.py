"""Audits of drafted tasks (ours): one that is red, or that nobody solved, goes back to the author once, with what was
found, and no further."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import SOLVED_AT, AnswerField, CheckRecord, Reference, ReferenceCall
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, MalformedReply, ProgramError, Rejected, StateError
from synthesis.formats.answer_form import without_field_checks
from synthesis.formats.records import EnvironmentRecord
from synthesis.stages import Kit, StageSettings
from synthesis.tasks.author_form import open_fields, require_form
from synthesis.tasks.check_source import fields_read
from synthesis.tasks.checks import judge, settle
from synthesis.tasks.known_ways import KnownWays, describe_call, examine_ways, solved_attempts
from synthesis.tasks.minimal_reference import score_reference
from synthesis.tasks.reference_search import find_other_ways, solved
from synthesis.tasks.repair_form import RepairReply, read_repair
from synthesis.tasks.repair_prompt import FAULT_CHARS, repair_words, serious_faults
from synthesis.tasks.solver_runs import judged_again
from synthesis.tasks.task_context import Unfit, World, world_of
from synthesis.tasks.task_frame import allowances, framed, unframed
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import AuditState, TaskAudit, state_of
from synthesis.verifiers.call_sequences import AT_ONCE

CLOSED_BY_FRAMES = ("unguarded_change", "reachable_wrong_end")
"""Faults of a task that its frame would close: changes that nobody asked for earn the full reward."""


@dataclass(frozen=True)
class Repair:
    """A task as its author repaired it, and the calls that the author says were not asked for."""

    task: TaskDraft
    not_asked: tuple[ReferenceCall, ...] = ()


@dataclass
class RepairReader:
    """Reads the author's replies, try by try: `notes` are on the checks of the last one."""

    kit: Kit
    world: World
    task: TaskDraft
    ways: KnownWays
    told: dict[int, set[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    async def check(self, source: str) -> None:
        """Raises InputError, Unfit among them, with what the author is told."""
        reply = read_repair(source)
        self.notes.clear()
        allowances(reply.free or (), self.world.start)
        wrong = [number for number in reply.not_asked if not 1 <= number <= len(self.ways.calls)]
        if wrong:
            raise Unfit("red_audit", f"NOT_ASKED: there is no call {wrong[0]}")
        form, expected = self.form_after(reply)
        require_form(form, expected, "the repair")
        names = [item.name for item in form]
        for index, condition in enumerate(reply.checks):
            look = judge(self.kit, self.world, self.told.setdefault(index, set()), names)
            try:
                note = await look(condition.source)
            except InputError as error:
                raise Unfit("red_audit", f"check {index + 1} ({condition.label}): {error}") from error
            self.notes += [f"Check {index + 1} ({condition.label}) {note}"] if note else []
        read = {name for condition in reply.checks for name in fields_read(condition.source)}
        for item in open_fields(form, expected):
            if item.name not in read:
                message = f"no function reads the field `{item.name}` of the answer, which has no expected value"
                raise Unfit("red_audit", message)

    def form_after(self, reply: RepairReply) -> tuple[tuple[AnswerField, ...], dict[str, Any]]:
        """The answer form and the expected values as they are after a repair."""
        form = self.task.answer_form if reply.answer_form is None else reply.answer_form
        return form, self.task.expected_answer if reply.expected_answer is None else reply.expected_answer


async def audit(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft
) -> tuple[TaskDraft, TaskAudit]:
    """The task, repaired once if its audit was red or nobody solved it, and its audit: green, or not decided. Of a
    repaired task all runs are with it, as it judges them now; else they stay where they were made. If the audit decides
    nothing (`audit_rejects`), the task as it was written, and its audit whatever it found.

    Raises Rejected (`red_audit`, `no_goal_check`, `cannot_be_audited`) and what `Kit.ask` and `solve` raise.
    """
    world = await world_of(kit, record, scenario)
    report, ways = await _audited(kit, world, task)
    state = deciding_state(kit.settings, report)
    unsolved = state == "unproven" and bool(task.runs)
    if not kit.settings.audit_rejects or (state != "red" and not unsolved):
        return task.model_copy(update={"runs": ()}), report
    try:
        repair = await _repaired(kit, world, task, report, ways)
    except Unfit as error:
        if state == "red":
            raise red_audit(f"The author could not repair it ({error})", report) from error
        return task.model_copy(update={"runs": ()}), report
    if state != "red" and _is_unchanged(task, repair.task):
        return task.model_copy(update={"runs": ()}), report
    mended = await _solved_again(kit, world, repair)
    runs = {run.ordinal: run for run in (*task.runs, *mended.runs)}
    mended = mended.model_copy(update={"runs": tuple(runs.values())})
    after, _ = await _audited(kit, world, mended, repair.not_asked)
    if deciding_state(kit.settings, after) == "red":
        raise red_audit("The audit is still red after one repair", after)
    return mended.model_copy(update={"runs": await judged_again(kit, world, mended, mended.runs)}), after


def deciding_state(settings: StageSettings, report: TaskAudit) -> AuditState:
    """The audit's state as it decides about the task: of a task without a frame by choice, what a frame would close is
    known to be open."""
    if settings.frames:
        return report.state
    return state_of([fault for fault in report.faults if fault.kind not in CLOSED_BY_FRAMES])


async def _audited(
    kit: Kit, world: World, task: TaskDraft, not_asked: Collection[ReferenceCall] = ()
) -> tuple[TaskAudit, KnownWays]:
    """The audit with what the known ways show, which is told first."""
    try:
        subject = world.subject(task, task.reference)
        report = await kit.run(audit_task, kit.sandbox, subject, kit.check_stop, AT_ONCE)
        ways = await examine_ways(kit, world, task, not_asked)
    except (InputError, ProgramError, StateError) as error:
        raise Rejected("cannot_be_audited", f"The task cannot be audited: {error}") from error
    faults = (*ways.faults, *report.faults)
    return report.model_copy(update={"faults": faults, "state": state_of(faults)}), ways


async def _repaired(kit: Kit, world: World, task: TaskDraft, report: TaskAudit, ways: KnownWays) -> Repair:
    """The task with what its author makes of the faults. Raises Unfit if the replies stayed unfit."""
    reader = RepairReader(kit, world, task, ways)
    try:
        reply = read_repair(
            await kit.ask_code("author", "repair_task", repair_words(world, task, report), reader.check)
        )
    except MalformedReply as error:
        if isinstance(error.__cause__, Unfit):
            raise error.__cause__ from error
        raise
    given = [CheckRecord(label=condition.label, source=condition.source) for condition in reply.checks]
    form, expected = reader.form_after(reply)
    not_asked = tuple(ways.calls[number - 1] for number in sorted(set(reply.not_asked)))
    notes = [f"The author says that this was not asked for: {describe_call(call)}." for call in not_asked]
    fresh = {
        "answer_form": form,
        "expected_answer": expected,
        "checklist": tuple(condition.label for condition in reply.checks),
        "free": task.free if reply.free is None else allowances(reply.free, world.start),
        "notes": (*reader.notes, *notes),
    }
    return Repair(await settle(kit, world, task.model_copy(update=fresh), given), not_asked)


def _is_unchanged(before: TaskDraft, after: TaskDraft) -> bool:
    """Whether a repair left all by which a task is judged as it was."""
    own = [without_field_checks(task.checks, task.answer_form, task.expected_answer) for task in (before, after)]
    sources = [[check.source.strip() for check in checks] for checks in own]
    kept = ("answer_form", "expected_answer", "free")
    return sources[0] == sources[1] and all(getattr(before, name) == getattr(after, name) for name in kept)


async def _solved_again(kit: Kit, world: World, repair: Repair) -> TaskDraft:
    """The task with a reference for its new checks: the old one if it still earns all, else a run old or new; without
    what was not asked for."""
    task = repair.task
    if task.reference is not None:
        known = await _with_reference(kit, world, task, task.reference, repair.not_asked)
        if known is not None:
            return known
    again = await solved(kit, world, task)
    if again.reference is None:
        again = await solved(kit, world, task, first=kit.settings.solver_runs)
    if again.reference is None or not repair.not_asked:
        return again
    plain = again.model_copy(update={"notes": task.notes})
    return await _with_reference(kit, world, plain, again.reference, repair.not_asked) or again


async def _with_reference(
    kit: Kit, world: World, task: TaskDraft, reference: Reference, not_asked: Collection[ReferenceCall]
) -> TaskDraft | None:
    """The task with the reference, if it can be without what was not asked for, and its frame; None if it does not earn
    all."""
    subject = unframed(world, task, None)
    asked = tuple(call for call in reference.calls if call not in not_asked)
    for tried in (reference.model_copy(update={"calls": asked}), reference):
        if (await kit.run(score_reference, kit.sandbox, subject, world.start, tried))[1] >= SOLVED_AT:
            others = find_other_ways(await solved_attempts(kit, world, task), tried, not_asked)
            return await framed(kit, world, task.model_copy(update={"reference": tried}), others)
    return None


async def audit_once(kit: Kit, world: World, task: TaskDraft) -> TaskAudit:
    """The audit of a task with its reference. Raises Rejected("cannot_be_audited") and InfrastructureError."""
    try:
        return await kit.run(audit_task, kit.sandbox, world.subject(task, task.reference), kit.check_stop, AT_ONCE)
    except (InputError, ProgramError, StateError) as error:
        raise Rejected("cannot_be_audited", f"The task cannot be audited: {error}") from error


def red_audit(what: str, report: TaskAudit) -> Rejected:
    """Why a task is left out whose audit is red, with its serious faults."""
    serious = serious_faults(report)
    kinds = ", ".join(dict.fromkeys(fault.kind for fault in serious))
    evidence: list[dict[str, Any]] = [fault.model_dump() for fault in serious]
    return Rejected("red_audit", f"{what}: {kinds}. {serious[0].message[:FAULT_CHARS] if serious else ''}", evidence)
