"""Consistency of a task (Agent-World 3.1.1): ReAct runs of the solver, of which enough must agree.

By the rule `verifier` a run counts if the task's own verifier gives it the full reward. By `each_other` the runs with
equal answers count (for a task without an answer: with equal ends), whatever the verdict of the verifier. The reference
is executed first: a task whose own reference fails implies nothing about models, and is distinguished from one that no
model passes.
"""

from __future__ import annotations

from collections.abc import Sequence

from synthesis.contracts import SOLVED_AT, Attempt, Consistency
from synthesis.drafts import ScenarioDraft, SolverRun, TaskDraft
from synthesis.errors import Rejected
from synthesis.formats.answer_form import read_answer_values
from synthesis.formats.records import EnvironmentRecord
from synthesis.rollout import AttemptSetting
from synthesis.stages import Kit
from synthesis.tasks.minimal_reference import score_reference
from synthesis.tasks.reference_search import run_solvers
from synthesis.tasks.solver_runs import keep_runs
from synthesis.tasks.submitted_values import is_same_answer
from synthesis.tasks.task_context import World, build_world
from synthesis.tasks.teacher import make_end_judge
from synthesis.variant_settings import ConsistencySettings
from synthesis.verifiers.rubric_audit import RubricSubject, judge_rubric_reference

REFERENCE_FAILS, UNPASSED, INCONSISTENT = "reference_fails", "no_model_passes", "inconsistent"


async def solve_consistently(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft, numbers: ConsistencySettings
) -> TaskDraft:
    """Return the task with the runs of its solvers and their agreement.

    Raise Rejected (`reference_fails`, `no_model_passes`, `inconsistent`), LLMError and InfrastructureError.
    """
    world = await build_world(kit, record, scenario)
    await _require_reference(kit, world, task)
    assert task.reference is not None
    limit = numbers.limit_turns(len(task.reference.calls))
    setting = AttemptSetting(prompt_style="react", max_turns=limit)
    attempts = await run_solvers(kit, world, task, range(numbers.consistency_runs), setting=setting)
    runs = keep_runs(kit, world, task, attempts)
    consistency = Consistency(
        runs=len(runs),
        solved=sum(run.outcome == "solved" for run in runs),
        agree=numbers.consistency_agree,
        turn_limit=limit,
        turns=tuple(max((step.turn for step in attempt.steps), default=0) for attempt in attempts),
        alike=len(find_alike_attempts(task, attempts)),
        rule=numbers.consistency_rule,
    )
    require_agreement(consistency, _build_evidence(consistency, runs, attempts))
    notes = _note_disagreement(consistency)
    return task.model_copy(update={"runs": runs, "consistency": consistency, "notes": (*task.notes, *notes)})


def require_agreement(found: Consistency, evidence: Sequence[dict[str, object]]) -> None:
    """Raise Rejected (`no_model_passes`, `inconsistent`) if fewer runs agree than required."""
    if not found.is_reached:
        none = not found.solved and found.rule == "verifier"
        raise Rejected(UNPASSED if none else INCONSISTENT, _describe_runs(found), list(evidence))


def find_alike_attempts(task: TaskDraft, attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the largest group of attempts whose answers equal each other, by the types of the answer form.

    For a task without a form compare the final states. An attempt without a reward equals none.
    """
    groups: list[list[Attempt]] = []
    for attempt in attempts:
        if attempt.reward is None:
            continue
        alike = next((group for group in groups if _is_alike(task, group[0], attempt)), None)
        if alike is None:
            groups.append([attempt])
        else:
            alike.append(attempt)
    return max(groups, key=len, default=[])


def _is_alike(task: TaskDraft, one: Attempt, other: Attempt) -> bool:
    if not task.answer_form:
        return one.final_hash == other.final_hash
    first, second = (read_answer_values(attempt.answer) for attempt in (one, other))
    return bool(first) and bool(second) and is_same_answer(task.answer_form, first, second)


async def _require_reference(kit: Kit, world: World, task: TaskDraft) -> None:
    if task.reference is None:
        raise Rejected(REFERENCE_FAILS, "The task has no reference.")
    subject = world.subject(task, task.reference)
    if isinstance(subject, RubricSubject):
        judged = await judge_rubric_reference(kit.run, kit.sandbox, subject, make_end_judge(kit, task))
        reward = judged.reward if judged is not None else 0.0
    else:
        _, reward = await kit.run(score_reference, kit.sandbox, subject, world.start, task.reference)
    if reward < SOLVED_AT:
        message = f"The calls of the reference, executed again, earn {reward:g} by the task's own verifier."
        raise Rejected(REFERENCE_FAILS, message)


def _describe_runs(found: Consistency) -> str:
    if found.rule == "each_other":
        counted = f"The answers of {found.alike or 0} of {found.runs} runs equal each other"
    else:
        counted = f"{found.solved} of {found.runs} runs passed"
    requirement = f"within {found.turn_limit} turns, and {found.agree} had to"
    return f"{counted} {requirement}. The reference passes, so the task can be done."


def _note_disagreement(found: Consistency) -> list[str]:
    """Return a note on a task whose runs agree on a result that its verifier refuses."""
    if found.rule == "verifier" or found.solved >= found.agree:
        return []
    return [f"{found.alike} runs agree with each other, but its verifier lets {found.solved} of {found.runs} pass."]


def _build_evidence(
    found: Consistency, runs: Sequence[SolverRun], attempts: Sequence[Attempt]
) -> list[dict[str, object]]:
    return [
        {
            "run": attempt.ordinal + 1,
            "outcome": run.outcome,
            "turns": turns,
            "answer": attempt.answer[:500],
            "why": _explain_failure(attempt),
        }
        for run, attempt, turns in zip(runs, attempts, found.turns, strict=True)
    ]


def _explain_failure(attempt: Attempt) -> str:
    """Return the first verdict that does not hold at the end of a run, or its note."""
    broken = [verdict for verdict in attempt.reward.verdicts if not verdict.passed] if attempt.reward else []
    return (broken[0].error or broken[0].reason)[:300] if broken else attempt.note[:300]
