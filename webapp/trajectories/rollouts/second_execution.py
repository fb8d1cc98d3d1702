"""A second execution of an attempt's calls, in an episode of its own, to check the reported state and reward.

Seed, clock and validation are this site's, never those that the attempt names: else the reporter of an attempt could
choose those with which it succeeds.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import transaction

from synthesis.contracts import (
    DEFAULT_NOW,
    DEFAULT_SEED,
    SOLVED_AT,
    UNCOUNTED,
    Attempt,
    Reward,
    Validation,
    is_injected,
    is_same_reward,
    is_unexecuted,
)
from synthesis.errors import SandboxUnavailable
from synthesis.formats.records import RunRecord
from synthesis.formats.values import clean_text
from synthesis.rollout import AttemptSetting
from synthesis.runtime import Sandbox
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import ReplayState, Trajectory
from webapp.trajectories.reproduction import Replay, ReplaySetting, replay_run
from webapp.trajectories.rollouts.attempt_writer import build_run_step
from webapp.trajectories.services import build_replay_setting
from webapp.trajectories.steps import add_score
from webapp.trajectories.totals import update_totals

SEED, NOW, VALIDATION = DEFAULT_SEED, DEFAULT_NOW, AttemptSetting().validation
"""As `task_of` and `AttemptSetting` make every attempt at a task of this site."""
NOTE_CHARS = 1_000


@dataclass(frozen=True)
class Grounds:
    """Seed, clock and validation of an execution; this site's, unless a fork has its parent's."""

    seed: int = SEED
    now: str = NOW
    validation: Validation = VALIDATION


SITE = Grounds()


def list_executed_places(attempt: Attempt) -> list[int]:
    """Return the places of the steps that a second execution has. A call with a reported injected error is included:
    its `injected` decides whether it is carried out."""
    return [
        place
        for place, step in enumerate(attempt.steps)
        if step.kind != "call" or is_injected(step.result) or not is_unexecuted(step.result)
    ]


def execute_again(sandbox: Sandbox, setting: ReplaySetting, attempt: Attempt, grounds: Grounds = SITE) -> Replay:
    """Execute an attempt's calls again. The recorded reward is not passed: with the same seed there is nothing to
    align."""
    record = RunRecord(
        environment_key="",
        task_key="",
        policy=attempt.policy,
        steps=tuple(build_run_step(attempt.steps[place], None) for place in list_executed_places(attempt)),
        answer=attempt.answer,
        seed=grounds.seed,
        now=grounds.now,
        validation=grounds.validation,
    )
    return replay_run(sandbox, setting, record)


def find_misattributed_call(attempt: Attempt, user_tools: Collection[str]) -> list[str]:
    """Return a sentence on a call attributed to an actor who cannot make it; only the simulated user may call
    `user_tools`."""
    for place, step in enumerate(attempt.steps):
        if step.kind == "call" and not is_unexecuted(step.result) and (step.tool in user_tools) != (step.by == "user"):
            owner = "the simulated user's" if step.by == "user" else "the agent's"
            return [f"The call of step {place} is reported as {owner}, who cannot call {clean_text(step.tool)[:200]}."]
    return []


def describe_differences(attempt: Attempt, done: Replay, teller: str, grounds: Grounds = SITE) -> list[str]:
    """Return sentences on the differences of a second execution from the report of `teller`."""
    words = _describe_declared(attempt, teller, grounds)
    if attempt.final_hash and attempt.final_hash != done.final_hash:
        words.append(f"The final state is not the one that {teller} reported.")
    claimed = attempt.reward.reward if attempt.reward else None
    new_reward = done.reward.reward if done.reward else None
    begin = teller[:1].upper() + teller[1:]
    if claimed is not None and new_reward is None:
        words.append(f"{begin} reported reward {claimed:.4f}; here nothing could be judged. {clean_text(done.note)}")
    elif claimed is not None and new_reward is not None and not is_same_reward(claimed, new_reward):
        words.append(f"{begin} reported reward {claimed:.4f}; executing the calls again gives {new_reward:.4f}.")
    return words


def _describe_declared(attempt: Attempt, teller: str, grounds: Grounds) -> list[str]:
    declared = {"seed": attempt.seed, "clock": attempt.now, "validation": attempt.validation}
    ours = {"seed": grounds.seed, "clock": grounds.now, "validation": grounds.validation}
    return [
        f"The {name} that {teller} names is {clean_text(str(declared[name]))[:100]}; that of this site is {ours[name]}."
        for name in ours
        if declared[name] != ours[name]
    ]


def is_sampled(rollout: int, ordinal: int, total: int) -> bool:
    """Return whether this attempt of a rollout is among those that are executed again. The secret key makes the choice
    unpredictable for a program."""
    luck = random.Random(f"{settings.SECRET_KEY}:{rollout}")
    return ordinal in luck.sample(range(total), min(settings.ROLLOUT_SAMPLE, total))


def verify_attempt(sandbox: Sandbox, row: Trajectory, revision: TaskRevision, attempt: Attempt) -> str:
    """Execute an attempt that was made here again; differences are noted on its trajectory, which then is `diverged`,
    and returned. The new result is appended as a score, and counts. If it cannot be executed again, only a note is
    stored."""
    if not attempt.final_hash or attempt.outcome in ("program_error", *UNCOUNTED):
        return ""
    grounds = Grounds(attempt.seed, attempt.now, attempt.validation) if row.parent_id is not None else SITE
    try:
        execution = execute_again(
            sandbox, replace(build_replay_setting(revision), kept=attempt.reward), attempt, grounds
        )
    except SandboxUnavailable as error:
        _store_note(row, f"Not executed again: {error}")
        return ""
    if execution.failure:
        _store_note(row, f"The calls could not be executed again: {clean_text(execution.failure)}")
        return ""
    words = " ".join(
        describe_differences(attempt, execution, "the rollout", grounds)
        + find_misattributed_call(attempt, attempt.user_tools)
    )
    if words:
        quarantine_trajectory(row, revision, words, attempt.reward.reward if attempt.reward else None, execution.reward)
    return words


def quarantine_trajectory(
    row: Trajectory, revision: TaskRevision, words: str, claimed: float | None, given: Reward | None
) -> None:
    """Note on a trajectory the differences from `claimed`; it becomes `diverged`, and its new reward counts."""
    _store_note(row, words, replay=ReplayState.DIVERGED, recorded_reward=claimed)
    if given is not None:
        _store_new_score(row, revision, given)


@transaction.atomic
def _store_new_score(row: Trajectory, revision: TaskRevision, reward: Reward) -> None:
    """Store a new score; the earlier score stays, and lists and totals use the newer one."""
    with update_totals(row, row.environment_id):
        row.refresh_from_db()
        row.reward, row.passed, row.total = reward.reward, reward.passed, reward.total
        solved = reward.reward >= SOLVED_AT and row.provenance.get("ending") != "cut"
        row.outcome = "solved" if solved else "failed" if row.outcome == "solved" else row.outcome
        row.save(update_fields=["reward", "passed", "total", "outcome"])
    add_score(row, revision, reward, "replay")


def _store_note(row: Trajectory, words: str, **fields: Any) -> None:
    Trajectory.objects.filter(pk=row.pk).update(replay_note=words[:NOTE_CHARS], **fields)
