"""Consistency of a programmatic task (AW 3.1.1): ReAct runs of the solver, of which enough must pass.

The reference is executed first: a task whose own reference fails says nothing of models, and is told apart from one
that no model passes.
"""

from __future__ import annotations

from collections.abc import Sequence

from synthesis.contracts import SOLVED_AT, Attempt
from synthesis.drafts import Consistency, ScenarioDraft, SolverRun, TaskDraft
from synthesis.errors import Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.rollout import AttemptSetting
from synthesis.stages import Kit
from synthesis.tasks.minimal_reference import score_reference
from synthesis.tasks.reference_search import run_solvers
from synthesis.tasks.solver_runs import kept_runs
from synthesis.tasks.task_context import World, world_of

REFERENCE_FAILS, UNPASSED, INCONSISTENT = "reference_fails", "no_model_passes", "inconsistent"


async def solve_consistently(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    """The task with the runs of its solvers and how they agree.

    Raises Rejected (`reference_fails`, `no_model_passes`, `inconsistent`), LLMError and InfrastructureError.
    """
    world = await world_of(kit, record, scenario)
    await _require_reference(kit, world, task)
    assert task.reference is not None
    numbers = kit.settings.programmatic
    limit = numbers.limit_turns(len(task.reference.calls))
    setting = AttemptSetting(prompt_style="react", max_turns=limit)
    attempts = await run_solvers(kit, world, task, range(numbers.consistency_runs), setting=setting)
    runs = kept_runs(kit, world, task, attempts)
    found = Consistency(
        runs=len(runs),
        solved=sum(run.outcome == "solved" for run in runs),
        agree=numbers.consistency_agree,
        turn_limit=limit,
        turns=tuple(max((step.turn for step in attempt.steps), default=0) for attempt in attempts),
    )
    require_agreement(found, _evidence(found, runs, attempts))
    return task.model_copy(update={"runs": runs, "consistency": found})


def require_agreement(found: Consistency, evidence: Sequence[dict[str, object]]) -> None:
    """Raises Rejected (`no_model_passes`, `inconsistent`) if fewer runs passed than had to."""
    if found.solved < found.agree:
        raise Rejected(INCONSISTENT if found.solved else UNPASSED, _say_runs(found), list(evidence))


async def _require_reference(kit: Kit, world: World, task: TaskDraft) -> None:
    if task.reference is None:
        raise Rejected(REFERENCE_FAILS, "The task has no reference.")
    subject = world.subject(task, task.reference)
    _, reward = await kit.run(score_reference, kit.sandbox, subject, world.start, task.reference)
    if reward < SOLVED_AT:
        message = f"The calls of the solution, executed again, earn {reward:g} by the task's own verification script."
        raise Rejected(REFERENCE_FAILS, message)


def _say_runs(found: Consistency) -> str:
    return (
        f"{found.solved} of {found.runs} runs passed within {found.turn_limit} turns, and {found.agree} had to. The "
        "reference passes, so the task can be done."
    )


def _evidence(found: Consistency, runs: Sequence[SolverRun], attempts: Sequence[Attempt]) -> list[dict[str, object]]:
    return [
        {
            "run": attempt.ordinal + 1,
            "outcome": run.outcome,
            "turns": turns,
            "answer": attempt.answer[:500],
            "why": _say_failed(attempt),
        }
        for run, attempt, turns in zip(runs, attempts, found.turns, strict=True)
    ]


def _say_failed(attempt: Attempt) -> str:
    """The first assertion that does not hold at the end of a run, or how else it ended."""
    broken = [verdict for verdict in attempt.reward.verdicts if not verdict.passed] if attempt.reward else []
    return (broken[0].error or broken[0].reason)[:300] if broken else attempt.note[:300]
