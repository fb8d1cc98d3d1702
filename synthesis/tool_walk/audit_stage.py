"""Audit of a task of a walk: after a red one the author of its rubric may repair it once, given the findings."""

from __future__ import annotations

from collections.abc import Iterable

from synthesis.contracts import Attempt, is_unexecuted
from synthesis.drafts import ScenarioDraft, SolverRun, TaskDraft
from synthesis.errors import InputError, ProgramError, Rejected, StateError
from synthesis.formats.criteria import format_criterion_line
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fence_text
from synthesis.stages import Kit
from synthesis.tasks.audit_repair import build_red_rejection, get_deciding_state
from synthesis.tasks.consistency import require_agreement
from synthesis.tasks.repair_prompt import FAULT_CHARS, list_serious_faults
from synthesis.tasks.solver_runs import find_final_state, reward_run
from synthesis.tasks.task_context import World, build_world
from synthesis.tasks.teacher import make_end_judge
from synthesis.tool_walk.rubric_stage import ask_rubric
from synthesis.verifiers.audit_report import TaskAudit
from synthesis.verifiers.rubric import RubricCase, score_rubric
from synthesis.verifiers.rubric_audit import RubricSubject, audit_rubric_in_loop
from synthesis.verifiers.rubric_evidence import gather_evidence, spell_call


async def audit_walk(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft
) -> tuple[TaskDraft, TaskAudit]:
    """Return the task, with its rubric rewritten once if its audit was red, and its audit. A repaired task includes the
    solver's runs, judged by its new rubric; otherwise they stay with the earlier stage.

    Raises Rejected (`red_audit` if the audit decides, `cannot_be_audited`, and of a repaired task `no_model_passes` and
    `inconsistent`) and as `Kit.ask`.
    """
    world = await build_world(kit, record, scenario)
    report = await _audit_rubric(kit, world, task)
    if not kit.settings.audit_rejects or get_deciding_state(kit.settings, report) != "red":
        return task.model_copy(update={"runs": ()}), report
    try:
        mended = await ask_rubric(kit, world, task, _describe_former(task, report))
    except Rejected as error:
        raise build_red_rejection(f"The author could not repair it ({error})", report) from error
    after = await _audit_rubric(kit, world, mended)
    if get_deciding_state(kit.settings, after) == "red":
        raise build_red_rejection("The audit is still red after one repair", after)
    return await _judge_again(kit, world, mended), after


async def _audit_rubric(kit: Kit, world: World, task: TaskDraft) -> TaskAudit:
    """Return the audit of a task. Raises Rejected("cannot_be_audited"), InfrastructureError and LLMError."""
    subject = world.subject(task, task.reference)
    assert isinstance(subject, RubricSubject)
    try:
        return await audit_rubric_in_loop(kit.run, kit.sandbox, subject, make_end_judge(kit, task), kit.check_stop)
    except (InputError, ProgramError, StateError) as error:
        raise Rejected("cannot_be_audited", f"The task cannot be audited: {error}") from error


async def _judge_again(kit: Kit, world: World, task: TaskDraft) -> TaskDraft:
    """Return the task with its runs judged by its current rubric; enough of them must still agree."""
    runs = tuple([await _judge_run(kit, world, task, run) for run in task.runs])
    if task.consistency is None:
        return task.model_copy(update={"runs": runs})
    found = task.consistency.model_copy(update={"solved": sum(run.outcome == "solved" for run in runs)})
    require_agreement(found, [{"run": run.ordinal + 1, "outcome": run.outcome} for run in runs])
    return task.model_copy(update={"runs": runs, "consistency": found})


async def _judge_run(kit: Kit, world: World, task: TaskDraft, run: SolverRun) -> SolverRun:
    """Return a run judged by the rubric, from its stored data; nothing is executed again."""
    final = find_final_state(world, run.attempt) if run.attempt is not None else None
    if run.attempt is None or final is None or task.rubric is None:
        return run
    subject = world.subject(task, task.reference)
    assert isinstance(subject, RubricSubject)
    calls = list(_spell_calls(run.attempt))
    evidence = gather_evidence(calls, world.start, final, run.attempt.answer, is_data=bool(task.answer_form))
    case = RubricCase(instruction=task.instruction, evidence=evidence, answer=run.attempt.answer)
    reward = await score_rubric(make_end_judge(kit, task, run.ordinal), subject.rubric, case)
    return reward_run(run, reward)


def _spell_calls(attempt: Attempt) -> Iterable[str]:
    """Yield the calls that reached the environment, as its judge was shown them."""
    for step in attempt.steps:
        if step.kind == "call" and step.result is not None and not is_unexecuted(step.result):
            yield spell_call(step.tool, step.arguments, step.result, step.by)


def _describe_former(task: TaskDraft, report: TaskAudit) -> str:
    """Return a text of a rubric and the faults that its audit found, for its author."""
    criteria = "\n".join(format_criterion_line(one) for one in task.verifier.criteria)
    faults = "\n".join(f"- {fault.message[:FAULT_CHARS]}" for fault in list_serious_faults(report))
    return f"{fence_text('rubric', criteria)}\n\nWhat is wrong with it:\n\n{fence_text('faults', faults)}"
