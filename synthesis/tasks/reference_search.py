"""References (ours): the shortest of k runs of the teacher that earn the full reward, executed once more.

Acts that change nothing are dropped. Calls that its checks do not require stay in it, until the author has confirmed
that they were not asked for. All k runs are stored with the task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from synthesis.contracts import (
    SOLVED_AT,
    Attempt,
    CallResult,
    Reference,
    ReferenceCall,
    TrajectoryStep,
    is_refusal,
    is_unexecuted,
)
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InfrastructureError, InputError
from synthesis.formats.records import EnvironmentRecord
from synthesis.rollout import AttemptSetting, Plan, run_attempts
from synthesis.runtime import Sandbox
from synthesis.stages import Kit
from synthesis.tasks.minimal_reference import drop_idle_acts, score_reference
from synthesis.tasks.solver_runs import keep_runs
from synthesis.tasks.submitted_values import describe_disagreements
from synthesis.tasks.task_context import World, build_world
from synthesis.tasks.task_frame import add_frame, build_unframed_subject
from synthesis.tasks.teacher import build_rollout_task, expect_turns, make_end_judge, make_teacher_policy
from synthesis.verifiers.call_sequences import Subject

AT_ONCE = 4
STANDARD = AttemptSetting()
ANSWER_CHARS = 20_000
"""A run with a longer answer is no reference."""
UNSOLVED = "Nobody solved it"
"""How the note begins that a task without a reference carries."""


async def solve_task(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """Return the task with its reference and its frame, or with None and a note if none of the k runs solved it.

    Raise InputError for a task without checks, and LLMError and InfrastructureError if a run was lost: then the result
    is unknown, and no shorter run is missed by chance.
    """
    if not task.checks:
        raise InputError("The task has no checks that could say whether it is solved.")
    return await solve_in_world(kit, await build_world(kit, record, scenario), task)


async def solve_in_world(kit: Kit, world: World, task: TaskDraft, first: int = 0) -> TaskDraft:
    """Solve like `solve_task`, with the runs `first` to `first + k - 1`; equal runs are replayed from the store."""
    attempts = await run_solvers(kit, world, task, range(first, first + kit.settings.solver_runs))
    subject = build_unframed_subject(world, task, None)
    reference = await kit.run(find_shortest_reference, kit.sandbox, subject, world.start, attempts)
    notes = [note for note in task.notes if not is_unsolved_note(note)]
    if reference is None:
        notes.append(_build_unsolved_note(task, attempts))
    solved_task = task.model_copy(update={"reference": reference, "notes": tuple(notes)})
    solved_task = await add_frame(kit, world, solved_task, find_other_ways(attempts, reference))
    return solved_task.model_copy(update={"runs": keep_runs(kit, world, solved_task, attempts)})


def find_other_ways(
    attempts: Sequence[Attempt], reference: Reference | None, without: Collection[ReferenceCall] = ()
) -> list[Reference]:
    """Return the other attempts that earned the full reward, with their calls except those `without`."""
    solved_runs = [attempt for attempt in attempts if attempt.outcome == "solved"]
    call_sequences = [
        tuple(call for call in list_executed_calls(attempt) if call not in without) for attempt in solved_runs
    ]
    return [Reference(calls=calls) for calls in call_sequences if reference is None or calls != reference.calls]


async def run_solvers(
    kit: Kit,
    world: World,
    task: TaskDraft,
    samples: Sequence[int],
    stage: str = "solve",
    setting: AttemptSetting = STANDARD,
) -> list[Attempt]:
    """Return the attempts by their sample, including those that the program itself ended."""
    solver_task = build_rollout_task(kit, world, task.model_copy(update={"frame": None}))
    calls_ahead = 2 * expect_turns(task)  # the teacher's own attempt follows
    plans = [
        Plan(
            solver_task,
            make_teacher_policy(kit, stage, sample, calls_ahead),
            setting,
            ordinal=sample,
            judge=make_end_judge(kit, task, sample),
        )
        for sample in samples
    ]

    async def on_step(_plan: Plan, _step: TrajectoryStep) -> None:
        kit.check_stop()

    attempts = [attempt async for attempt in run_attempts(kit.sandbox, plans, at_once=AT_ONCE, on_step=on_step)]
    attempts.sort(key=lambda attempt: attempt.ordinal)
    for attempt in attempts:
        if attempt.outcome == "infra_error":
            raise InfrastructureError(f"Run {attempt.ordinal + 1} of the teacher was lost: {attempt.note}")
    return attempts


def find_shortest_reference(
    sandbox: Sandbox, subject: Subject, start: dict[str, Any], attempts: Sequence[Attempt]
) -> Reference | None:
    """Return the shortest call sequence of an attempt that earns the full reward again when it is executed.

    Refused calls, and acts without which its end is the same, are dropped.
    """
    candidates = [
        (len(calls), attempt.ordinal, calls, attempt, whole)
        for attempt in attempts
        if attempt.outcome == "solved" and len(attempt.answer) <= ANSWER_CHARS
        for calls, whole in _iter_sequences(attempt)
    ]
    for _, _, calls, attempt, is_whole in sorted(candidates, key=lambda candidate: candidate[:2]):
        reference = Reference(calls=calls, answer=attempt.answer)
        digest, reward = score_reference(sandbox, subject, start, reference)
        if reward >= SOLVED_AT and (not is_whole or digest == attempt.final_hash):
            return drop_idle_acts(sandbox, subject, start, reference)
    return None


def is_unsolved_note(note: str) -> bool:
    """Return whether a note on a task reports that it is unsolved and which checks failed."""
    return note.startswith(UNSOLVED)


def list_executed_calls(attempt: Attempt) -> tuple[ReferenceCall, ...]:
    """Return all calls of an attempt that reached the environment, including refused ones."""
    return tuple(call for call, _ in _list_executed(attempt))


def _iter_sequences(attempt: Attempt) -> Iterator[tuple[tuple[ReferenceCall, ...], bool]]:
    """Yield the accepted calls, then all executed ones; each with whether it must end as the attempt did."""
    executed = _list_executed(attempt)
    accepted = tuple(call for call, result in executed if not is_refusal(result.ok, result.result))
    yield accepted, len(accepted) == len(executed)
    if len(accepted) < len(executed):
        yield tuple(call for call, _ in executed), True


def _list_executed(attempt: Attempt) -> list[tuple[ReferenceCall, CallResult]]:
    return [
        (ReferenceCall(tool=step.tool, arguments=step.arguments), step.result)
        for step in attempt.steps
        if step.kind == "call" and step.by == "agent" and step.result and not is_unexecuted(step.result)
    ]


def _build_unsolved_note(task: TaskDraft, attempts: Sequence[Attempt]) -> str:
    rewards = [attempt.reward for attempt in attempts if attempt.reward]
    best = max((reward.reward for reward in rewards), default=0.0)
    never = [
        f"check {index + 1} ({check.label})"
        for index, check in enumerate(task.checks)
        if rewards and not any(reward.verdicts[index].passed for reward in rewards)
    ]
    words = [f"{UNSOLVED}: the best of {len(attempts)} runs earned {best:.3g}."]
    if never:
        words.append(f"Passed in none of them: {', '.join(never)}.")
    words += describe_disagreements(task, [attempt.answer for attempt in attempts])
    return " ".join(words)
