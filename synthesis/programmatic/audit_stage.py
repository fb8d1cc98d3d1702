"""The audit of a programmatic task: a red one goes back to the author of its verification script once, with what was
found, and no further."""

from __future__ import annotations

from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.programmatic.consistency import require_agreement
from synthesis.programmatic.verification_stage import program_script
from synthesis.prompts import fenced
from synthesis.stages import Kit
from synthesis.tasks.audit_repair import audit_once, deciding_state, red_audit
from synthesis.tasks.repair_prompt import FAULT_CHARS, serious_faults
from synthesis.tasks.solver_runs import judged_again
from synthesis.tasks.task_context import World, world_of
from synthesis.verifiers.audit_report import TaskAudit


async def audit_script(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft
) -> tuple[TaskDraft, TaskAudit]:
    """The task, its script repaired once if its audit was red, and its audit. Of a repaired task the solver's runs are
    with it, as its new script judges them; else they stay where they were made.

    Raises Rejected (`red_audit` if the audit decides, `cannot_be_audited`, and of a repaired task `no_model_passes` and
    `inconsistent`) and what `Kit.ask_code` raises.
    """
    world = await world_of(kit, record, scenario)
    report = await audit_once(kit, world, task)
    if not kit.settings.audit_rejects or deciding_state(kit.settings, report) != "red":
        return task.model_copy(update={"runs": ()}), report
    try:
        mended = await program_script(kit, world, task, _describe_former(task, report))
    except Rejected as error:
        raise red_audit(f"The author could not repair it ({error})", report) from error
    after = await audit_once(kit, world, mended)
    if deciding_state(kit.settings, after) == "red":
        raise red_audit("The audit is still red after one repair", after)
    return await _judge_again(kit, world, mended), after


async def _judge_again(kit: Kit, world: World, task: TaskDraft) -> TaskDraft:
    """The task with its runs as its script judges them now, of which enough must still pass."""
    runs = await judged_again(kit, world, task, task.runs)
    if task.consistency is None:
        return task.model_copy(update={"runs": runs})
    solved = sum(run.outcome == "solved" for run in runs)
    consistency = task.consistency.model_copy(update={"solved": solved})
    require_agreement(consistency, [{"run": run.ordinal + 1, "outcome": run.outcome} for run in runs])
    return task.model_copy(update={"runs": runs, "consistency": consistency})


def _describe_former(task: TaskDraft, report: TaskAudit) -> str:
    """A script and the faults that its audit found, as its author is told them."""
    source = task.script.source if task.script is not None else ""
    faults = "\n".join(f"- {fault.message[:FAULT_CHARS]}" for fault in serious_faults(report))
    return f"{fenced('script', source)}\n\nWhat is wrong with it:\n\n{fenced('faults', faults)}"
