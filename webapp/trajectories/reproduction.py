"""Executing a recorded run's calls again: results, patches, snapshots, and where it departs from the record."""

from __future__ import annotations

from dataclasses import dataclass, field

from asgiref.sync import async_to_sync

from synthesis.assessment.bounded_checks import bounded_checks
from synthesis.contracts import (
    SOLVED_AT,
    CallError,
    CallResult,
    Frame,
    Mark,
    Outcome,
    Program,
    Reward,
    ScoreRule,
    State,
    Verdict,
)
from synthesis.errors import InfrastructureError, InputError, ProgramError, SandboxUnavailable, StateError
from synthesis.formats.answer_form import ACCEPTED
from synthesis.formats.records import RunRecord, RunStep
from synthesis.llm import ChatModel
from synthesis.runtime import Episode, Sandbox
from synthesis.verifiers.checks import mark_of, reward_of
from synthesis.verifiers.doubts import as_judged, best_judged, decided, doubt_words
from synthesis.verifiers.frame import outside_changes
from synthesis.verifiers.rubric import rubric_case
from webapp.trajectories.comparison import same_observation, same_recorded_reward
from webapp.trajectories.id_alignment import Aligner
from webapp.trajectories.models import ReplayState
from webapp.trajectories.steps import ExecutedStep, keep_state


@dataclass(frozen=True)
class ReplaySetting:
    """What a run is executed and judged with."""

    program: Program
    initial: State
    checks: tuple[str, ...]
    rule: ScoreRule
    marks: tuple[Mark, ...]
    frame: Frame | None = None
    judged: tuple[Verdict, ...] = ()
    """What this site scored the same end with before: a judge's decisions are taken from it."""
    instruction: str = ""
    judge: ChatModel | None = None
    """Decides what checks cannot tell and nobody decided before: one that says again what a judge said."""
    keeps_states: bool = True
    """Whether states between the steps are stored. Without, nothing of the execution touches the database."""


@dataclass
class Replay:
    """An executed run. `failure` says why there is no reward; then `played` ends where the episode was lost, and
    `ended` says whether that was the program's doing."""

    played: list[ExecutedStep] = field(default_factory=list)
    final_hash: str = ""
    reward: Reward | None = None
    failure: str = ""
    ended: bool = False
    note: str = ""
    divergence: int | None = None
    judged_best: float | None = None
    """What it would earn if a judge, who is not asked here, said yes to each doubt that is a judge's to decide."""

    @property
    def first_divergence(self) -> int | None:
        if self.divergence is not None:
            return self.divergence
        return next((index for index, played in enumerate(self.played) if played.matches is False), None)


def replay(sandbox: Sandbox, setting: ReplaySetting, record: RunRecord) -> Replay:
    """Execute the run as recorded; where its reward differs, once more with generated ids aligned.

    The aligned execution is kept only if it gives the recorded reward. `SandboxUnavailable` passes through.
    """
    plain = _attempt(sandbox, setting, record, None)
    if plain.failure or plain.first_divergence is None or record.recorded_reward is None or plain.reward is None:
        return plain
    if same_recorded_reward(record.recorded_reward, plain.reward.reward):
        return plain
    aligner = Aligner(setting.initial)
    aligned = _attempt(sandbox, setting, record, aligner)
    if not aligner.pairs or aligned.reward is None:
        return plain
    if not same_recorded_reward(record.recorded_reward, aligned.reward.reward):
        return plain
    aligned.divergence = plain.first_divergence
    aligned.note = (
        f"Aligned: {len(aligner.pairs)} values that the recorded run generated were replaced by the ones generated "
        f"here in later arguments. As recorded, the calls give {plain.reward.reward:.4f}."
    )
    return aligned


def _attempt(sandbox: Sandbox, setting: ReplaySetting, record: RunRecord, aligner: Aligner | None) -> Replay:
    done = Replay()
    try:
        _execute(sandbox, setting, record, aligner, done)
    except SandboxUnavailable:
        raise
    except (InfrastructureError, ProgramError, StateError) as error:
        done.failure = f"Step {len(done.played)}: {error}"
        done.ended = not isinstance(error, InfrastructureError)
    return done


def _execute(
    sandbox: Sandbox, setting: ReplaySetting, record: RunRecord, aligner: Aligner | None, done: Replay
) -> None:
    opened = sandbox.reset(
        setting.program, setting.initial, seed=record.seed, now=record.now, validation=record.validation
    )
    with opened as episode:
        start = episode.state()
        for index, step in enumerate(record.steps):
            played = _play(episode, step, aligner)
            if setting.keeps_states:
                keep_state(played, index, episode.state)
            done.played.append(played)
        final = episode.state()
        done.final_hash = episode.state_hash()
    done.reward, done.note, done.judged_best = _judge(sandbox, setting, start, final, record.answer)


def _judge(
    sandbox: Sandbox, setting: ReplaySetting, start: State, final: State, answer: str
) -> tuple[Reward | None, str, float | None]:
    """The reward, or None and why (no checks, none that the rule can score, or checks that run out of time); and what a
    judge could make of it."""
    if not setting.checks:
        return None, "", None
    marks = setting.marks if len(setting.marks) == len(setting.checks) else None
    if setting.rule == "goals" and marks is None:
        begun = bounded_checks(sandbox, setting.checks, start, start)
        marks = tuple(mark_of(verdict) for verdict in begun.verdicts)
    done = bounded_checks(sandbox, setting.checks, start, final, answer=answer)
    if done.skipped:
        return None, f"Not judged: {done.skipped} of {len(setting.checks)} checks were not run, {done.reason}.", None
    try:
        outside = outside_changes(setting.frame, start, final)
        reward = reward_of(as_judged(done.verdicts, setting.judged), setting.rule, marks, outside)
        if setting.judge is not None and reward.doubts:
            case = rubric_case(setting.instruction, start, final, answer)
            reward = async_to_sync(decided)(setting.judge, setting.checks, reward, marks, case).reward
        return reward, doubt_words(reward), best_judged(setting.checks, reward, marks)
    except InputError:
        return None, "", None


def _play(episode: Episode, step: RunStep, aligner: Aligner | None) -> ExecutedStep:
    if step.kind != "call":
        return ExecutedStep(step, {})
    if step.problem:
        message = f"The agent wrote a call that cannot be read, so it never reached the environment. {step.problem}"
        refused = CallResult(ok=False, error=CallError(kind="malformed", message=message))
        return ExecutedStep(step, step.arguments, refused)
    if not step.executed:
        return ExecutedStep(step, step.arguments, CallResult(ok=True, result=step.recorded or ACCEPTED, executed=False))
    arguments = aligner.arguments(step.arguments) if aligner else step.arguments
    result = episode.call(step.tool, arguments)
    matches = None if step.recorded is None else same_observation(step.recorded, result)
    if aligner:
        aligner.observe(step.recorded, result)
    return ExecutedStep(step, arguments, result, matches, list(result.patch))


def verdict(record: RunRecord, done: Replay) -> ReplayState:
    """What the replay says about the record. Without rewards to compare, the observations decide."""
    if done.failure:
        return ReplayState.FAILED
    clean = done.first_divergence is None
    if record.recorded_reward is None or done.reward is None:
        return ReplayState.IDENTICAL if clean else ReplayState.DIVERGED
    if not _as_recorded(record.recorded_reward, done.reward.reward, done.judged_best):
        return ReplayState.DIVERGED
    return ReplayState.IDENTICAL if clean else ReplayState.REPRODUCED


def _as_recorded(recorded: float, given: float, best: float | None) -> bool:
    """Whether the reward came out as recorded, or could have: what a judge said elsewhere is no divergence."""
    if same_recorded_reward(recorded, given):
        return True
    return best is not None and given < recorded and (recorded < best or same_recorded_reward(recorded, best))


def outcome(record: RunRecord, done: Replay) -> Outcome | str:
    """The attempt's outcome by the reward there is; empty where nothing judged it.

    A replay that failed says nothing about the attempt: the recorded reward stands. Without one the attempt is what
    ended the replay: a program error, or lost to the infrastructure, never a reward of 0.
    """
    reward = done.reward.reward if done.reward else record.recorded_reward
    if reward is not None and reward >= SOLVED_AT:
        return "solved"
    if record.truncated:
        return "truncated"
    if reward is not None:
        return "failed"
    return ("program_error" if done.ended else "infra_error") if done.failure else ""
