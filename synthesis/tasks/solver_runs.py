"""Solver runs of a drafted task (ours): all of them are kept beside it, judged as the finished task judges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synthesis.contracts import Attempt, Reward, State, Timing
from synthesis.drafts import SolverRun, TaskDraft
from synthesis.errors import StateError
from synthesis.rollout import outcome_of
from synthesis.runtime import apply_patch, state_hash
from synthesis.stages import Kit
from synthesis.tasks.task_context import World
from synthesis.verifiers.frame import outside_changes
from synthesis.verifiers.rewards import score_end

MOST_BYTES = 16 * 1024 * 1024
"""So much of all runs at a task is kept (ours); of those behind it the outcome alone."""


def kept_runs(kit: Kit, world: World, task: TaskDraft, attempts: Sequence[Attempt]) -> tuple[SolverRun, ...]:
    """The runs in their order, the first `kept_runs` of them whole. They were judged before there was a frame: what
    changed something outside of it is now not solved."""
    runs, room = [], MOST_BYTES
    for attempt in attempts:
        judged = _within_frame(world, task, attempt)
        run = SolverRun(ordinal=attempt.ordinal, outcome=judged.outcome)
        if attempt.ordinal >= kit.settings.kept_runs:
            runs.append(run.model_copy(update={"unkept": "over_the_most"}))
            continue
        plain = _timeless(judged)
        try:
            size = len(plain.model_dump_json())
        except ValueError:  # half a character
            runs.append(run.model_copy(update={"unkept": "cannot_be_stored"}))
            continue
        room -= size
        runs.append(run.model_copy(update={"attempt": plain} if room >= 0 else {"unkept": "too_large"}))
    return tuple(runs)


async def judged_again(kit: Kit, world: World, task: TaskDraft, runs: Iterable[SolverRun]) -> tuple[SolverRun, ...]:
    """The runs as a task whose checks or frame were changed since judges them; nothing is executed again.

    Raises InfrastructureError.
    """
    again = []
    for run in runs:
        final = _final(world, run.attempt) if run.attempt is not None else None
        if run.attempt is None or final is None:
            again.append(run)
            continue
        attempt = _rewarded(run.attempt, await _reward(kit, world, task, final, run.attempt.answer))
        again.append(run.model_copy(update={"attempt": attempt, "outcome": attempt.outcome}))
    return tuple(again)


async def _reward(kit: Kit, world: World, task: TaskDraft, final: State, answer: str) -> Reward:
    return await kit.run(score_end, kit.sandbox, task.verifier, world.start, final, answer)


def _within_frame(world: World, task: TaskDraft, attempt: Attempt) -> Attempt:
    final = _final(world, attempt) if task.frame is not None and attempt.reward is not None else None
    if final is None or attempt.reward is None:
        return attempt
    outside = tuple(outside_changes(task.frame, world.start, final))
    if not outside:
        return attempt
    return _rewarded(attempt, attempt.reward.model_copy(update={"reward": 0.0, "outside": outside}))


def _rewarded(attempt: Attempt, reward: Reward) -> Attempt:
    return attempt.model_copy(update={"reward": reward, "outcome": outcome_of(attempt.ending, reward)})


def _final(world: World, attempt: Attempt) -> State | None:
    """The state that an attempt ended in; None where it was not reached, or cannot be told from its steps."""
    if attempt.reward is None or not attempt.final_hash:
        return None
    state = world.start
    try:
        for step in attempt.steps:
            if step.result is not None and step.result.patch:
                state = apply_patch(state, step.result.patch)
    except StateError:
        return None
    return state if state_hash(state) == attempt.final_hash else None


def _timeless(attempt: Attempt) -> Attempt:
    """Without what differs from one execution to the next, and without what only training asks for."""
    steps = tuple(
        step.model_copy(update={"result": step.result.model_copy(update={"duration_us": 0})}) if step.result else step
        for step in attempt.steps
    )
    return attempt.model_copy(update={"steps": steps, "turns": (), "timing": Timing()})
