"""References (ours): the shortest of k runs of the teacher that earn the full reward, executed once more to be sure,
and without the acts that it earns everything without. All k runs are kept beside the task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from synthesis.assessment.cases import turned_down
from synthesis.contracts import SOLVED_AT, Attempt, Reference, ReferenceCall, TrajectoryStep
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InfrastructureError, InputError
from synthesis.formats.records import EnvironmentRecord
from synthesis.rollout import ChatPolicy, Plan, run_attempts
from synthesis.runtime import Sandbox
from synthesis.stages import Kit
from synthesis.tasks.minimal_reference import earned, minimal_reference
from synthesis.tasks.solver_runs import kept_runs
from synthesis.tasks.task_context import World, world_of
from synthesis.tasks.task_frame import framed, unframed
from synthesis.tasks.teacher import rollout_task
from synthesis.verifiers.call_sequences import Subject

AT_ONCE = 4
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
    attempts = await _runs(kit, world, task, range(first, first + kit.settings.solver_runs))
    subject = unframed(world, task, None)
    reference = await kit.run(shortest, kit.sandbox, subject, world.start, attempts)
    notes = [note for note in task.notes if not note.startswith(UNSOLVED)]
    if reference is None:
        notes.append(_unsolved(task, attempts))
    found = task.model_copy(update={"reference": reference, "notes": tuple(notes)})
    found = await framed(kit, world, found, _others(attempts, reference))
    return found.model_copy(update={"runs": kept_runs(kit, world, found, attempts)})


def _others(attempts: Sequence[Attempt], reference: Reference | None) -> list[Reference]:
    """The other attempts that earned everything, with all the calls that they made."""
    solved_runs = [attempt for attempt in attempts if attempt.outcome == "solved"]
    made = [Reference(calls=list(_sequences(attempt))[-1]) for attempt in solved_runs]
    return [other for other in made if reference is None or other.calls != reference.calls]


async def _runs(kit: Kit, world: World, task: TaskDraft, samples: Sequence[int]) -> list[Attempt]:
    """The attempts by their sample, those that the program itself brought to an end included."""
    given = rollout_task(kit, world, task.model_copy(update={"frame": None}))
    plans = [
        Plan(
            given,
            ChatPolicy(kit.asker.chat(kit.site("teacher", "solve", sample)), brief_tools=True),
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
    acts that it does not need.

    Calls that were refused are left out where the end is the same without them.
    """
    candidates = [
        (len(calls), attempt.ordinal, calls, attempt)
        for attempt in attempts
        if attempt.outcome == "solved" and len(attempt.answer) <= ANSWER_CHARS
        for calls in _sequences(attempt)
    ]
    for _, _, calls, attempt in sorted(candidates, key=lambda candidate: candidate[:2]):
        reference = Reference(calls=calls, answer=attempt.answer)
        digest, reward = earned(sandbox, subject, start, reference)
        if digest == attempt.final_hash and reward >= SOLVED_AT:
            return minimal_reference(sandbox, subject, start, reference)
    return None


def _sequences(attempt: Attempt) -> Iterator[tuple[ReferenceCall, ...]]:
    """What was executed, first without what was refused, then with it."""
    made = [
        (ReferenceCall(tool=step.tool, arguments=step.arguments), step.result)
        for step in attempt.steps
        if step.kind == "call" and step.result and not (step.result.error and step.result.error.kind == "malformed")
    ]
    accepted = tuple(call for call, result in made if not turned_down(result.ok, result.result, result.patch))
    yield accepted
    if len(accepted) < len(made):
        yield tuple(call for call, _ in made)


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
    return " ".join(words)
