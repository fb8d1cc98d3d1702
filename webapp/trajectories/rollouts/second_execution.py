"""A second execution of an attempt's calls, in an episode of its own: whether state and reward come out as told.

Seed, clock and validation are this site's, never those that the attempt names: else who tells an attempt could choose
the ones in which it succeeds.
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
    is_unexecuted,
    same_reward,
)
from synthesis.errors import SandboxUnavailable
from synthesis.formats.records import RunRecord
from synthesis.formats.values import clean
from synthesis.rollout import AttemptSetting
from synthesis.runtime import Sandbox
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import ReplayState, Trajectory
from webapp.trajectories.reproduction import Replay, ReplaySetting, replay
from webapp.trajectories.rollouts.attempt_writer import run_step
from webapp.trajectories.services import setting_of
from webapp.trajectories.steps import add_score
from webapp.trajectories.totals import counted

SEED, NOW, VALIDATION = DEFAULT_SEED, DEFAULT_NOW, AttemptSetting().validation
"""As `task_of` and `AttemptSetting` make every attempt at a task of this site."""
NOTE_CHARS = 1_000


@dataclass(frozen=True)
class Grounds:
    """Seed, clock and validation of an execution; those of this site unless a fork has its parent's."""

    seed: int = SEED
    now: str = NOW
    validation: Validation = VALIDATION


SITE = Grounds()


def executed_places(attempt: Attempt) -> list[int]:
    """The places of the steps that a second execution has. A call that is told to have met an injected error is one:
    whether it is carried out, its `injected` says."""
    return [
        place
        for place, step in enumerate(attempt.steps)
        if step.kind != "call" or is_injected(step.result) or not is_unexecuted(step.result)
    ]


def execute_again(sandbox: Sandbox, setting: ReplaySetting, attempt: Attempt, grounds: Grounds = SITE) -> Replay:
    """Execute an attempt's calls again. No reward is handed on: with the same seed there is nothing to align."""
    record = RunRecord(
        environment_key="",
        task_key="",
        policy=attempt.policy,
        steps=tuple(run_step(attempt.steps[place], None) for place in executed_places(attempt)),
        answer=attempt.answer,
        seed=grounds.seed,
        now=grounds.now,
        validation=grounds.validation,
    )
    return replay(sandbox, setting, record)


def find_misattributed_call(attempt: Attempt, user_tools: Collection[str]) -> list[str]:
    """Say where a call is told of somebody who cannot make it; `user_tools` are the simulated user's alone."""
    for place, step in enumerate(attempt.steps):
        if step.kind == "call" and not is_unexecuted(step.result) and (step.tool in user_tools) != (step.by == "user"):
            whose = "the simulated user's" if step.by == "user" else "the agent's"
            return [f"The call of step {place} is told to be {whose}, who cannot call {clean(step.tool)[:200]}."]
    return []


def differences(attempt: Attempt, done: Replay, teller: str, grounds: Grounds = SITE) -> list[str]:
    """Where a second execution came to something else than `teller` told, in sentences."""
    words = _declared(attempt, teller, grounds)
    if attempt.final_hash and attempt.final_hash != done.final_hash:
        words.append(f"The final state is another one than {teller} told.")
    claimed = attempt.reward.reward if attempt.reward else None
    given = done.reward.reward if done.reward else None
    begin = teller[:1].upper() + teller[1:]
    if claimed is not None and given is None:
        words.append(f"{begin} told a reward of {claimed:.4f}; here nothing could be judged. {clean(done.note)}")
    elif claimed is not None and given is not None and not same_reward(claimed, given):
        words.append(f"{begin} told a reward of {claimed:.4f}; executing the calls again gives {given:.4f}.")
    return words


def _declared(attempt: Attempt, teller: str, grounds: Grounds) -> list[str]:
    told = {"seed": attempt.seed, "clock": attempt.now, "validation": attempt.validation}
    ours = {"seed": grounds.seed, "clock": grounds.now, "validation": grounds.validation}
    return [
        f"The {name} that {teller} names is {clean(str(told[name]))[:100]}; that of this site is {ours[name]}."
        for name in ours
        if told[name] != ours[name]
    ]


def is_sampled(rollout: int, ordinal: int, total: int) -> bool:
    """Whether this attempt of a rollout is among those that are executed again. No program can foretell which."""
    luck = random.Random(f"{settings.SECRET_KEY}:{rollout}")
    return ordinal in luck.sample(range(total), min(settings.ROLLOUT_SAMPLE, total))


def verify_attempt(sandbox: Sandbox, row: Trajectory, revision: TaskRevision, attempt: Attempt) -> str:
    """Execute an attempt that was made here again; what differs is said on its trajectory, which then is `diverged`,
    and returned. What it gives now is appended as a score, and counts. Where it cannot be executed again the trajectory
    says that alone."""
    if not attempt.final_hash or attempt.outcome in ("program_error", *UNCOUNTED):
        return ""
    grounds = Grounds(attempt.seed, attempt.now, attempt.validation) if row.parent_id is not None else SITE
    try:
        done = execute_again(sandbox, replace(setting_of(revision), kept=attempt.reward), attempt, grounds)
    except SandboxUnavailable as error:
        _note(row, f"Not executed again: {error}")
        return ""
    if done.failure:
        _note(row, f"The calls could not be executed again: {clean(done.failure)}")
        return ""
    words = " ".join(
        differences(attempt, done, "the rollout", grounds) + find_misattributed_call(attempt, attempt.user_tools)
    )
    if words:
        quarantine(row, revision, words, attempt.reward.reward if attempt.reward else None, done.reward)
    return words


def quarantine(
    row: Trajectory, revision: TaskRevision, words: str, claimed: float | None, given: Reward | None
) -> None:
    """Say on a trajectory what came out otherwise than `claimed`; it is `diverged`, and what it earns now counts."""
    _note(row, words, replay=ReplayState.DIVERGED, recorded_reward=claimed)
    if given is not None:
        _score_again(row, revision, given)


@transaction.atomic
def _score_again(row: Trajectory, revision: TaskRevision, reward: Reward) -> None:
    """The earlier score stays; lists and totals go by the newer one."""
    with counted(row, row.environment_id):
        row.refresh_from_db()
        row.reward, row.passed, row.total = reward.reward, reward.passed, reward.total
        solved = reward.reward >= SOLVED_AT and row.provenance.get("ending") != "cut"
        row.outcome = "solved" if solved else "failed" if row.outcome == "solved" else row.outcome
        row.save(update_fields=["reward", "passed", "total", "outcome"])
    add_score(row, revision, reward, "replay")


def _note(row: Trajectory, words: str, **fields: Any) -> None:
    Trajectory.objects.filter(pk=row.pk).update(replay_note=words[:NOTE_CHARS], **fields)
