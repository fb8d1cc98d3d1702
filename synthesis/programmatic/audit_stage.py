"""Audit of a programmatic task: after a red one the author of its verification script may repair it once, given the
findings.
"""

from __future__ import annotations

from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.programmatic.verification_stage import write_script
from synthesis.prompts import fence_text
from synthesis.stages import Kit
from synthesis.tasks.audit_repair import audit_once, build_red_rejection, get_deciding_state
from synthesis.tasks.consistency import require_agreement
from synthesis.tasks.repair_prompt import FAULT_CHARS, list_serious_faults
from synthesis.tasks.solver_runs import rejudge_runs
from synthesis.tasks.task_context import World, build_world
from synthesis.verifiers.audit_report import TaskAudit


async def audit_script(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft
) -> tuple[TaskDraft, TaskAudit]:
    """Return the task, with its script repaired once if its audit was red, and its audit. A repaired task includes the
    solver's runs, judged by its new script; otherwise they stay with the earlier stage.

    Raises Rejected (`red_audit` if the audit decides, `cannot_be_audited`, and of a repaired task `no_model_passes` and
    `inconsistent`) and as `Kit.ask_code`.
    """
    world = await build_world(kit, record, scenario)
    report = await audit_once(kit, world, task)
    if not kit.settings.audit_rejects or get_deciding_state(kit.settings, report) != "red":
        return task.model_copy(update={"runs": ()}), report
    try:
        mended = await write_script(kit, world, task, _describe_former(task, report))
    except Rejected as error:
        raise build_red_rejection(f"The author could not repair it ({error})", report) from error
    after = await audit_once(kit, world, mended)
    if get_deciding_state(kit.settings, after) == "red":
        raise build_red_rejection("The audit is still red after one repair", after)
    return await _judge_again(kit, world, mended), after


async def _judge_again(kit: Kit, world: World, task: TaskDraft) -> TaskDraft:
    """Return the task with its runs judged by its current script; enough of them must still pass."""
    runs = await rejudge_runs(kit, world, task, task.runs)
    if task.consistency is None:
        return task.model_copy(update={"runs": runs})
    solved = sum(run.outcome == "solved" for run in runs)
    consistency = task.consistency.model_copy(update={"solved": solved})
    require_agreement(consistency, [{"run": run.ordinal + 1, "outcome": run.outcome} for run in runs])
    return task.model_copy(update={"runs": runs, "consistency": consistency})


def _describe_former(task: TaskDraft, report: TaskAudit) -> str:
    """Return a text of a script and the faults that its audit found, for its author."""
    source = task.script.source if task.script is not None else ""
    faults = "\n".join(f"- {fault.message[:FAULT_CHARS]}" for fault in list_serious_faults(report))
    return f"{fence_text('script', source)}\n\nWhat is wrong with it:\n\n{fence_text('faults', faults)}"
