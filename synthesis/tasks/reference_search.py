"""References (ours): the shortest of k runs of the teacher that earn the full reward, executed once more to be sure,
and without acts that change nothing. What its checks do not ask for stays in it, until the author has said that it was
not asked. All k runs are kept beside the task."""

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
from synthesis.tasks.minimal_reference import score_reference, without_idle_acts
from synthesis.tasks.solver_runs import kept_runs
from synthesis.tasks.submitted_values import describe_disagreements
from synthesis.tasks.task_context import World, world_of
from synthesis.tasks.task_frame import framed, unframed
from synthesis.tasks.teacher import rollout_task, teacher_policy
from synthesis.verifiers.call_sequences import Subject

AT_ONCE = 4
STANDARD = AttemptSetting()
ANSWER_CHARS = 20_000
"""A run with a longer answer is no reference."""
UNSOLVED = "Nobody solved it"
"""How the note begins that a task without a reference carries."""


async def solve(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """The task with its reference and its frame, or with None and a note where none of the k runs solved it.

    Raises InputError for a task without checks, and LLMError and InfrastructureError where a run was lost: then
    nothing is known, and no shorter run is missed by chance.
    """
    if not task.checks:
        raise InputError("The task has no checks that could say whether it is solved.")
    return await solved(kit, await world_of(kit, record, scenario), task)


async def solved(kit: Kit, world: World, task: TaskDraft, first: int = 0) -> TaskDraft:
    """As `solve`, with the runs `first` to `first + k - 1`; equal runs are replayed from the store."""
    attempts = await run_solvers(kit, world, task, range(first, first + kit.settings.solver_runs))
    subject = unframed(world, task, None)
    reference = await kit.run(shortest, kit.sandbox, subject, world.start, attempts)
    notes = [note for note in task.notes if not is_unsolved_note(note)]
    if reference is None:
        notes.append(_unsolved(task, attempts))
    found = task.model_copy(update={"reference": reference, "notes": tuple(notes)})
    found = await framed(kit, world, found, find_other_ways(attempts, reference))
    return found.model_copy(update={"runs": kept_runs(kit, world, found, attempts)})


def find_other_ways(
    attempts: Sequence[Attempt], reference: Reference | None, without: Collection[ReferenceCall] = ()
) -> list[Reference]:
    """The other attempts that earned everything, with the calls that they made, but for those `without`."""
    solved_runs = [attempt for attempt in attempts if attempt.outcome == "solved"]
    made = [tuple(call for call in executed_calls(attempt) if call not in without) for attempt in solved_runs]
    return [Reference(calls=calls) for calls in made if reference is None or calls != reference.calls]


async def run_solvers(
    kit: Kit,
    world: World,
    task: TaskDraft,
    samples: Sequence[int],
    stage: str = "solve",
    setting: AttemptSetting = STANDARD,
) -> list[Attempt]:
    """The attempts by their sample, those that the program itself brought to an end included."""
    given = rollout_task(kit, world, task.model_copy(update={"frame": None}))
    plans = [
        Plan(
            given,
            teacher_policy(kit, stage, sample),
            setting,
            ordinal=sample,
        )
        for sample in samples
    ]

    async def on_step(_plan: Plan, _step: TrajectoryStep) -> None:
        kit.check_stop()

    made = [attempt async for attempt in run_attempts(kit.sandbox, plans, at_once=AT_ONCE, on_step=on_step)]
    made.sort(key=lambda attempt: attempt.ordinal)
    for attempt in made:
        if attempt.outcome == "infra_error":
            raise InfrastructureError(f"Run {attempt.ordinal + 1} of the teacher was lost: {attempt.note}")
    return made


def shortest(
    sandbox: Sandbox, subject: Subject, start: dict[str, Any], attempts: Sequence[Attempt]
) -> Reference | None:
    """The shortest call sequence of an attempt that earned everything and does so again when it is executed, without
    calls that were refused, and acts without which its end is the same."""
    candidates = [
        (len(calls), attempt.ordinal, calls, attempt, whole)
        for attempt in attempts
        if attempt.outcome == "solved" and len(attempt.answer) <= ANSWER_CHARS
        for calls, whole in _sequences(attempt)
    ]
    for _, _, calls, attempt, whole in sorted(candidates, key=lambda candidate: candidate[:2]):
        reference = Reference(calls=calls, answer=attempt.answer)
        digest, reward = score_reference(sandbox, subject, start, reference)
        if reward >= SOLVED_AT and (not whole or digest == attempt.final_hash):
            return without_idle_acts(sandbox, subject, start, reference)
    return None


def is_unsolved_note(note: str) -> bool:
    """Whether a note on a task says that nobody solved it, and by what it failed."""
    return note.startswith(UNSOLVED)


def executed_calls(attempt: Attempt) -> tuple[ReferenceCall, ...]:
    """All calls of an attempt that reached the environment, the refused ones too."""
    return tuple(call for call, _ in _executed(attempt))


def _sequences(attempt: Attempt) -> Iterator[tuple[tuple[ReferenceCall, ...], bool]]:
    """What was executed without what was refused, then all of it; with whether it must end as the attempt did."""
    made = _executed(attempt)
    accepted = tuple(call for call, result in made if not is_refusal(result.ok, result.result))
    yield accepted, len(accepted) == len(made)
    if len(accepted) < len(made):
        yield tuple(call for call, _ in made), True


def _executed(attempt: Attempt) -> list[tuple[ReferenceCall, CallResult]]:
    return [
        (ReferenceCall(tool=step.tool, arguments=step.arguments), step.result)
        for step in attempt.steps
        if step.kind == "call" and step.by == "agent" and step.result and not is_unexecuted(step.result)
    ]


def _unsolved(task: TaskDraft, attempts: Sequence[Attempt]) -> str:
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
