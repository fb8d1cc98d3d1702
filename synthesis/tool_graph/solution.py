"""Solver runs of a task that was written from a blueprint, and the audit of its golden state (ours).

The reference is the blueprint's own calls. Runs of the teacher, who sees only the words, show whether these say enough:
a task that no run solves depends on unsaid information, and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from synthesis.contracts import Attempt
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.stages import Kit
from synthesis.tasks.audit_repair import audit_once, build_red_rejection
from synthesis.tasks.reference_search import run_solvers
from synthesis.tasks.solver_runs import keep_runs
from synthesis.tasks.task_context import build_world
from synthesis.verifiers.audit_report import TaskAudit

NOT_DETERMINED = "not_determined"


async def solve_golden(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """Return the task with the runs of its solvers. Raises Rejected("not_determined"), LLMError and
    InfrastructureError.
    """
    world = await build_world(kit, record, scenario)
    attempts = await run_solvers(kit, world, task, range(kit.settings.solver_runs))
    if not any(attempt.outcome == "solved" for attempt in attempts):
        raise Rejected(NOT_DETERMINED, _describe_unsolved(attempts), [_build_evidence(attempt) for attempt in attempts])
    return task.model_copy(update={"runs": keep_runs(kit, world, task, attempts)})


async def audit_golden(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft
) -> tuple[TaskDraft, TaskAudit]:
    """Return the task and its audit. Raises Rejected (`red_audit` if the audit decides, `cannot_be_audited`) and
    InfrastructureError. There are no checks that an author could repair.
    """
    report = await audit_once(kit, await build_world(kit, record, scenario), task)
    if kit.settings.audit_rejects and report.state == "red":
        raise build_red_rejection("A golden state leaves nothing to repair", report)
    return task.model_copy(update={"runs": ()}), report


def _describe_unsolved(attempts: Sequence[Attempt]) -> str:
    words = f"None of {len(attempts)} runs reached the golden state: the words do not say what it takes."
    first = next((attempt.reward for attempt in attempts if attempt.reward and attempt.reward.verdicts), None)
    return f"{words} {first.verdicts[0].reason}".strip() if first else words


def _build_evidence(attempt: Attempt) -> dict[str, object]:
    reward = attempt.reward
    return {
        "run": attempt.ordinal + 1,
        "outcome": attempt.outcome,
        "why": reward.verdicts[0].reason if reward and reward.verdicts else attempt.note,
    }
