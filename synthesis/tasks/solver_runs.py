"""Solver runs of a drafted task (ours): all are stored with it, judged by the finished task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synthesis.contracts import Attempt, Reward, State, Timing
from synthesis.drafts import SolverRun, TaskDraft
from synthesis.errors import StateError
from synthesis.rollout import derive_outcome
from synthesis.runtime import apply_patch, hash_state
from synthesis.stages import Kit
from synthesis.tasks.task_context import World
from synthesis.verifiers.frame import find_outside_changes
from synthesis.verifiers.rewards import score_end

MOST_BYTES = 16 * 1024 * 1024
"""So much of all runs at a task is kept (ours); of those behind it the outcome alone."""


def keep_runs(kit: Kit, world: World, task: TaskDraft, attempts: Sequence[Attempt]) -> tuple[SolverRun, ...]:
    """Return the runs in their order, the first `settings.kept_runs` of them whole.

    They were judged before there was a frame: a run that changed anything outside of it now counts as not solved.
    """
    runs, room = [], MOST_BYTES
    for attempt in attempts:
        judged = _judge_frame(world, task, attempt)
        run = SolverRun(ordinal=attempt.ordinal, outcome=judged.outcome)
        if attempt.ordinal >= kit.settings.kept_runs:
            runs.append(run.model_copy(update={"unkept": "over_the_most"}))
            continue
        plain = _strip_timing(judged)
        try:
            size = len(plain.model_dump_json())
        except ValueError:  # a lone surrogate
            runs.append(run.model_copy(update={"unkept": "cannot_be_stored"}))
            continue
        room -= size
        runs.append(run.model_copy(update={"attempt": plain} if room >= 0 else {"unkept": "too_large"}))
    return tuple(runs)


async def rejudge_runs(kit: Kit, world: World, task: TaskDraft, runs: Iterable[SolverRun]) -> tuple[SolverRun, ...]:
    """Return the runs as judged by a task whose checks or frame changed since; nothing is executed again.

    Raise InfrastructureError.
    """
    again = []
    for run in runs:
        final = find_final_state(world, run.attempt) if run.attempt is not None else None
        if run.attempt is None or final is None:
            again.append(run)
            continue
        end = task.verifier, world.start, final, run.attempt.answer
        again.append(reward_run(run, await kit.run(score_end, kit.sandbox, *end)))
    return tuple(again)


def reward_run(run: SolverRun, reward: Reward) -> SolverRun:
    """Return a run with another reward, and the outcome that follows from it."""
    assert run.attempt is not None
    attempt = _set_reward(run.attempt, reward)
    return run.model_copy(update={"attempt": attempt, "outcome": attempt.outcome})


def _judge_frame(world: World, task: TaskDraft, attempt: Attempt) -> Attempt:
    final = find_final_state(world, attempt) if task.frame is not None and attempt.reward is not None else None
    if final is None or attempt.reward is None:
        return attempt
    outside = tuple(find_outside_changes(task.frame, world.start, final))
    if not outside:
        return attempt
    return _set_reward(attempt, attempt.reward.model_copy(update={"reward": 0.0, "outside": outside}))


def _set_reward(attempt: Attempt, reward: Reward) -> Attempt:
    return attempt.model_copy(update={"reward": reward, "outcome": derive_outcome(attempt.ending, reward)})


def find_final_state(world: World, attempt: Attempt) -> State | None:
    """Return the state that an attempt ended in; None if it was not reached, or cannot be derived from its steps."""
    if attempt.reward is None or not attempt.final_hash:
        return None
    state = world.start
    try:
        for step in attempt.steps:
            if step.result is not None and step.result.patch:
                state = apply_patch(state, step.result.patch)
    except StateError:
        return None
    return state if hash_state(state) == attempt.final_hash else None


def _strip_timing(attempt: Attempt) -> Attempt:
    """Return the attempt without values that differ between executions, and without data that only training needs."""
    steps = tuple(
        step.model_copy(update={"result": step.result.model_copy(update={"duration_us": 0})}) if step.result else step
        for step in attempt.steps
    )
    return attempt.model_copy(update={"steps": steps, "turns": (), "timing": Timing()})
