"""Audits of drafted tasks (ours): a red or unsolved task goes back to the author once, with the faults found."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import SOLVED_AT, AnswerField, CheckRecord, Reference, ReferenceCall
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, MalformedReply, ProgramError, Rejected, StateError
from synthesis.formats.answer_form import drop_field_checks
from synthesis.formats.records import EnvironmentRecord
from synthesis.stages import Kit, StageSettings
from synthesis.tasks.author_form import list_open_fields, require_form
from synthesis.tasks.check_source import list_read_fields
from synthesis.tasks.checks import make_check_judge, settle_checks
from synthesis.tasks.known_ways import KnownWays, describe_call, examine_known_ways, list_solved_attempts
from synthesis.tasks.minimal_reference import score_reference
from synthesis.tasks.reference_search import find_other_ways, solve_in_world
from synthesis.tasks.repair_form import RepairReply, read_repair
from synthesis.tasks.repair_prompt import FAULT_CHARS, build_repair_prompt, list_serious_faults
from synthesis.tasks.solver_runs import rejudge_runs
from synthesis.tasks.task_context import Unfit, World, build_world
from synthesis.tasks.task_frame import add_frame, build_allowances, build_unframed_subject
from synthesis.tasks.teacher import expect_turns
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import AuditState, TaskAudit, decide_audit_state
from synthesis.verifiers.call_sequences import AT_ONCE

CLOSED_BY_FRAMES = ("unguarded_change", "reachable_wrong_end")
"""Faults of a task that its frame would close: changes that were not requested earn the full reward."""


@dataclass(frozen=True)
class Repair:
    """Task as its author repaired it, and the calls that were not asked for according to the author."""

    task: TaskDraft
    not_asked: tuple[ReferenceCall, ...] = ()


@dataclass
class RepairReader:
    """Reader of the author's replies, try by try: `notes` are on the checks of the last one."""

    kit: Kit
    world: World
    task: TaskDraft
    ways: KnownWays
    told: dict[int, set[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    async def check(self, source: str) -> None:
        """Raise InputError, including Unfit, with the message to the author."""
        reply = read_repair(source)
        self.notes.clear()
        build_allowances(reply.free or (), self.world.start)
        wrong = [number for number in reply.not_asked if not 1 <= number <= len(self.ways.calls)]
        if wrong:
            raise Unfit("red_audit", f"NOT_ASKED: there is no call {wrong[0]}")
        form, expected = self.form_after(reply)
        require_form(form, expected, "the repair")
        names = [item.name for item in form]
        for index, condition in enumerate(reply.checks):
            examine = make_check_judge(self.kit, self.world, self.told.setdefault(index, set()), names)
            try:
                note = await examine(condition.source)
            except InputError as error:
                raise Unfit("red_audit", f"check {index + 1} ({condition.label}): {error}") from error
            self.notes += [f"Check {index + 1} ({condition.label}) {note}"] if note else []
        read = {name for condition in reply.checks for name in list_read_fields(condition.source)}
        for item in list_open_fields(form, expected):
            if item.name not in read:
                message = f"no function reads the field `{item.name}` of the answer, which has no expected value"
                raise Unfit("red_audit", message)

    def form_after(self, reply: RepairReply) -> tuple[tuple[AnswerField, ...], dict[str, Any]]:
        """Return the answer form and the expected values after a repair."""
        form = self.task.answer_form if reply.answer_form is None else reply.answer_form
        return form, self.task.expected_answer if reply.expected_answer is None else reply.expected_answer


async def audit_and_repair_task(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft
) -> tuple[TaskDraft, TaskAudit]:
    """Return the task, repaired once if its audit was red or it was unsolved, and its audit: green, or undecided.

    A repaired task has all runs, as it judges them now; otherwise the runs stay with the earlier draft. If the audit
    decides nothing (`audit_rejects`), return the task as it was written, and its audit whatever its state.

    Raise Rejected ("red_audit", "no_goal_check", "cannot_be_audited") and the errors of `Kit.ask` and `solve_task`.
    """
    world = await build_world(kit, record, scenario)
    report, known_ways = await _audit_with_ways(kit, world, task)
    state = get_deciding_state(kit.settings, report)
    unsolved = state == "unproven" and bool(task.runs)
    if not kit.settings.audit_rejects or (state != "red" and not unsolved):
        return task.model_copy(update={"runs": ()}), report
    try:
        repair = await _ask_for_repair(kit, world, task, report, known_ways)
    except Unfit as error:
        if state == "red":
            raise build_red_rejection(f"The author could not repair it ({error})", report) from error
        return task.model_copy(update={"runs": ()}), report
    if state != "red" and _is_unchanged(task, repair.task):
        return task.model_copy(update={"runs": ()}), report
    mended = await _solve_repaired(kit, world, repair)
    runs = {run.ordinal: run for run in (*task.runs, *mended.runs)}
    mended = mended.model_copy(update={"runs": tuple(runs.values())})
    after, _ = await _audit_with_ways(kit, world, mended, repair.not_asked)
    if get_deciding_state(kit.settings, after) == "red":
        raise build_red_rejection("The audit is still red after one repair", after)
    return mended.model_copy(update={"runs": await rejudge_runs(kit, world, mended, mended.runs)}), after


def get_deciding_state(settings: StageSettings, report: TaskAudit) -> AuditState:
    """Return the audit's state that decides about the task.

    If the task has no frame by choice, faults that a frame would close are ignored: they are known to be open.
    """
    if settings.frames:
        return report.state
    return decide_audit_state([fault for fault in report.faults if fault.kind not in CLOSED_BY_FRAMES])


async def _audit_with_ways(
    kit: Kit, world: World, task: TaskDraft, not_asked: Collection[ReferenceCall] = ()
) -> tuple[TaskAudit, KnownWays]:
    """Return the audit with the faults of the known ways, which come first."""
    try:
        subject = world.subject(task, task.reference)
        report = await kit.run_audit(expect_turns(task), audit_task, kit.sandbox, subject, kit.check_stop, AT_ONCE)
        known_ways = await examine_known_ways(kit, world, task, not_asked)
    except (InputError, ProgramError, StateError) as error:
        raise Rejected("cannot_be_audited", f"The task cannot be audited: {error}") from error
    faults = (*known_ways.faults, *report.faults)
    return report.model_copy(update={"faults": faults, "state": decide_audit_state(faults)}), known_ways


async def _ask_for_repair(kit: Kit, world: World, task: TaskDraft, report: TaskAudit, ways: KnownWays) -> Repair:
    """Return the task with its author's repair of the faults. Raise Unfit if the replies stayed unfit."""
    reader = RepairReader(kit, world, task, ways)
    try:
        reply = read_repair(
            await kit.ask_code("author", "repair_task", build_repair_prompt(world, task, report), reader.check)
        )
    except MalformedReply as error:
        if isinstance(error.__cause__, Unfit):
            raise error.__cause__ from error
        raise
    repaired_checks = [CheckRecord(label=condition.label, source=condition.source) for condition in reply.checks]
    form, expected = reader.form_after(reply)
    not_asked = tuple(ways.calls[number - 1] for number in sorted(set(reply.not_asked)))
    notes = [f"The author says that this was not asked for: {describe_call(call)}." for call in not_asked]
    fresh = {
        "answer_form": form,
        "expected_answer": expected,
        "checklist": tuple(condition.label for condition in reply.checks),
        "free": task.free if reply.free is None else build_allowances(reply.free, world.start),
        "notes": (*reader.notes, *notes),
    }
    return Repair(await settle_checks(kit, world, task.model_copy(update=fresh), repaired_checks), not_asked)


def _is_unchanged(before: TaskDraft, after: TaskDraft) -> bool:
    """Return whether a repair changed nothing by which the task is judged."""
    own_checks = [drop_field_checks(task.checks, task.answer_form, task.expected_answer) for task in (before, after)]
    sources = [[check.source.strip() for check in checks] for checks in own_checks]
    compared_fields = ("answer_form", "expected_answer", "free")
    return sources[0] == sources[1] and all(getattr(before, name) == getattr(after, name) for name in compared_fields)


async def _solve_repaired(kit: Kit, world: World, repair: Repair) -> TaskDraft:
    """Return the task with a reference for its new checks, without calls that were not asked for.

    Keep the old reference if it still earns the full reward, else use an old or new run.
    """
    task = repair.task
    if task.reference is not None:
        with_old_reference = await _try_reference(kit, world, task, task.reference, repair.not_asked)
        if with_old_reference is not None:
            return with_old_reference
    again = await solve_in_world(kit, world, task)
    if again.reference is None:
        again = await solve_in_world(kit, world, task, first=kit.settings.solver_runs)
    if again.reference is None or not repair.not_asked:
        return again
    plain = again.model_copy(update={"notes": task.notes})
    return await _try_reference(kit, world, plain, again.reference, repair.not_asked) or again


async def _try_reference(
    kit: Kit, world: World, task: TaskDraft, reference: Reference, not_asked: Collection[ReferenceCall]
) -> TaskDraft | None:
    """Return the task with the reference and its frame; None if it does not earn the full reward.

    Calls that were not asked for are dropped if the reference works without them.
    """
    subject = build_unframed_subject(world, task, None)
    asked_calls = tuple(call for call in reference.calls if call not in not_asked)
    for candidate in (reference.model_copy(update={"calls": asked_calls}), reference):
        if (await kit.run(score_reference, kit.sandbox, subject, world.start, candidate))[1] >= SOLVED_AT:
            others = find_other_ways(await list_solved_attempts(kit, world, task), candidate, not_asked)
            return await add_frame(kit, world, task.model_copy(update={"reference": candidate}), others)
    return None


async def audit_once(kit: Kit, world: World, task: TaskDraft) -> TaskAudit:
    """Return the audit of a task with its reference. Raise Rejected("cannot_be_audited") and InfrastructureError."""
    try:
        subject = world.subject(task, task.reference)
        return await kit.run_audit(expect_turns(task), audit_task, kit.sandbox, subject, kit.check_stop, AT_ONCE)
    except (InputError, ProgramError, StateError) as error:
        raise Rejected("cannot_be_audited", f"The task cannot be audited: {error}") from error


def build_red_rejection(what: str, report: TaskAudit) -> Rejected:
    """Return the rejection of a task whose audit is red, with its serious faults."""
    serious = list_serious_faults(report)
    kinds = ", ".join(dict.fromkeys(fault.kind for fault in serious))
    evidence: list[dict[str, Any]] = [fault.model_dump() for fault in serious]
    return Rejected("red_audit", f"{what}: {kinds}. {serious[0].message[:FAULT_CHARS] if serious else ''}", evidence)
