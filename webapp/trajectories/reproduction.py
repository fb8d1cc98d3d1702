"""Replay of a recorded run's calls: results, patches, snapshots, and the first difference from the record."""

from __future__ import annotations

from dataclasses import dataclass, field

from asgiref.sync import async_to_sync

from synthesis.assessment.bounded_checks import evaluate_bounded_checks
from synthesis.contracts import (
    SOLVED_AT,
    UNREACHED,
    AnswerField,
    CallError,
    CallResult,
    Outcome,
    Program,
    Reward,
    RubricVerifier,
    State,
    Verifier,
)
from synthesis.errors import InfrastructureError, InputError, LLMError, ProgramError, SandboxUnavailable, StateError
from synthesis.formats.answer_form import ACCEPTED
from synthesis.formats.records import RunRecord, RunStep
from synthesis.llm import ChatModel
from synthesis.rollout import replace_result
from synthesis.runtime import Episode, Sandbox
from synthesis.verifiers.checks import derive_mark
from synthesis.verifiers.rewards import reward_end
from synthesis.verifiers.rubric import Rubric, RubricCase, decide_fields, score_rubric
from synthesis.verifiers.rubric_evidence import gather_evidence, spell_call
from webapp.trajectories.comparison import is_same_observation, is_same_reward
from webapp.trajectories.id_alignment import Aligner
from webapp.trajectories.models import ReplayState
from webapp.trajectories.steps import ExecutedStep, attach_snapshot


@dataclass(frozen=True)
class ReplaySetting:
    """The program, state, verifier and options that a run is executed and judged with."""

    program: Program
    initial: State
    verifier: Verifier
    answer_form: tuple[AnswerField, ...] = ()
    kept: Reward | None = None
    """What this site scored the run with before: a judge's verdicts are taken from it if the question is the same."""
    instruction: str = ""
    judge: ChatModel | None = None
    """Decides facts that are not decided yet: one that repeats the replies of a judge."""
    keeps_states: bool = True
    """Whether states between the steps are stored. Without, nothing of the execution touches the database."""


@dataclass
class Replay:
    """An executed run. `failure` is the reason why there is no reward; then `played` ends at the step at which the
    episode was lost, and `ended` is true if the program caused that."""

    played: list[ExecutedStep] = field(default_factory=list)
    final_hash: str = ""
    reward: Reward | None = None
    failure: str = ""
    ended: bool = False
    note: str = ""
    divergence: int | None = None
    judged_best: float | None = None
    """Of a rubric that is left to a judge, who is not asked here: what it would earn if every fact were met."""

    @property
    def first_divergence(self) -> int | None:
        if self.divergence is not None:
            return self.divergence
        return next((index for index, played in enumerate(self.played) if played.matches is False), None)


def replay_run(sandbox: Sandbox, setting: ReplaySetting, record: RunRecord) -> Replay:
    """Execute the run as recorded; if its reward differs, once more with generated ids aligned.

    The aligned execution is kept only if it gives the recorded reward. `SandboxUnavailable` passes through.
    """
    plain = _execute_once(sandbox, setting, record, None)
    if plain.failure or plain.first_divergence is None or record.recorded_reward is None or plain.reward is None:
        return plain
    if is_same_reward(record.recorded_reward, plain.reward.reward):
        return plain
    aligner = Aligner(setting.initial)
    aligned = _execute_once(sandbox, setting, record, aligner)
    if not aligner.pairs or aligned.reward is None:
        return plain
    if not is_same_reward(record.recorded_reward, aligned.reward.reward):
        return plain
    aligned.divergence = plain.first_divergence
    aligned.note = (
        f"Aligned: {len(aligner.pairs)} values that the recorded run generated were replaced by the ones generated "
        f"here in later arguments. As recorded, the calls give {plain.reward.reward:.4f}."
    )
    return aligned


def _execute_once(sandbox: Sandbox, setting: ReplaySetting, record: RunRecord, aligner: Aligner | None) -> Replay:
    execution = Replay()
    try:
        _execute_steps(sandbox, setting, record, aligner, execution)
    except SandboxUnavailable:
        raise
    except (InfrastructureError, ProgramError, StateError) as error:
        execution.failure = f"Step {len(execution.played)}: {error}"
        execution.ended = not isinstance(error, InfrastructureError)
    return execution


def _execute_steps(
    sandbox: Sandbox, setting: ReplaySetting, record: RunRecord, aligner: Aligner | None, done: Replay
) -> None:
    opened = sandbox.reset(
        setting.program, setting.initial, seed=record.seed, now=record.now, validation=record.validation
    )
    with opened as episode:
        start = episode.state()
        for index, step in enumerate(record.steps):
            played = _play_step(episode, step, aligner)
            if setting.keeps_states:
                attach_snapshot(played, index, episode.state)
            done.played.append(played)
        final = episode.state()
        done.final_hash = episode.state_hash()
    if isinstance(setting.verifier, RubricVerifier):
        rubric = Rubric.from_verifier(setting.verifier, setting.answer_form)
        calls = [
            spell_call(played.step.tool, played.arguments, played.result, played.step.by)
            for played in done.played
            if played.result is not None and not played.step.problem and not _is_refused(played.step)
            if played.step.refused is None or played.step.refused.kind not in UNREACHED
        ]
        is_data = bool(setting.answer_form)
        evidence = gather_evidence(calls, start, final, record.answer, is_data=is_data)
        case = RubricCase(instruction=setting.instruction, evidence=evidence, answer=record.answer)
        _judge_rubric(setting, rubric, case, done)
    else:
        done.reward, done.note = _judge_checks(sandbox, setting, start, final, record.answer)


def _judge_rubric(setting: ReplaySetting, rubric: Rubric, case: RubricCase, done: Replay) -> None:
    """Set the reward of a replay, or the reason why it has none: no earlier judgement exists."""
    try:
        done.reward = async_to_sync(score_rubric)(setting.judge, rubric, case, setting.kept)
    except (InputError, LLMError) as error:
        done.note = f"Not judged: {error}"
        done.judged_best = float(all(verdict.passed for verdict in decide_fields(rubric, case.answer).values()))


def _judge_checks(
    sandbox: Sandbox, setting: ReplaySetting, start: State, final: State, answer: str
) -> tuple[Reward | None, str]:
    """Return the reward, or None and the reason (no checks, none that the rule can score, or checks that run out of
    time)."""
    verifier, marks = setting.verifier, setting.verifier.marks
    sources = [check.source for check in verifier.checks]
    if verifier.rule == "goals" and marks is None:
        start_checks = evaluate_bounded_checks(sandbox, sources, start, start)
        marks = tuple(derive_mark(verdict) for verdict in start_checks.verdicts)
    checked = evaluate_bounded_checks(sandbox, sources, start, final, answer=answer)
    if checked.skipped:
        return None, f"Not judged: {checked.skipped} of {len(sources)} checks were not run, {checked.reason}."
    try:
        return reward_end(verifier, checked.verdicts, start, final, marks), ""
    except InputError:
        return None, ""


def _play_step(episode: Episode, step: RunStep, aligner: Aligner | None) -> ExecutedStep:
    if step.kind != "call":
        return ExecutedStep(step, {})
    if step.refused is not None:
        return ExecutedStep(step, step.arguments, CallResult(ok=False, error=step.refused))
    if step.problem:
        message = f"The agent wrote a call that cannot be read, so it never reached the environment. {step.problem}"
        refused = CallResult(ok=False, error=CallError(kind="malformed", message=message))
        return ExecutedStep(step, step.arguments, refused)
    if not step.executed:
        return ExecutedStep(step, step.arguments, CallResult(ok=True, result=step.recorded or ACCEPTED, executed=False))
    arguments = aligner.arguments(step.arguments) if aligner else step.arguments
    if _is_refused(step):
        result = replace_result(step.injected)
    else:
        latency_s = step.injected.latency_s if step.injected else 0.0
        result = replace_result(step.injected, episode.call(step.tool, arguments, latency_s))
    matches = None if step.recorded is None else is_same_observation(step.recorded, result)
    if aligner:
        aligner.observe(step.recorded, result)
    return ExecutedStep(step, arguments, result, matches, list(result.patch))


def _is_refused(step: RunStep) -> bool:
    """Return whether a disturbance kept the call from reaching the environment."""
    return step.injected is not None and not step.injected.carried_out


def classify_replay(record: RunRecord, done: Replay) -> ReplayState:
    """Return the result of comparing the replay with the record. Without rewards to compare, the observations
    decide."""
    if done.failure:
        return ReplayState.FAILED
    clean = done.first_divergence is None
    if record.recorded_reward is None or done.reward is None:
        return ReplayState.IDENTICAL if clean else ReplayState.DIVERGED
    if not is_same_reward(record.recorded_reward, done.reward.reward):
        return ReplayState.DIVERGED
    return ReplayState.IDENTICAL if clean else ReplayState.REPRODUCED


def determine_outcome(record: RunRecord, done: Replay) -> Outcome | str:
    """Return the attempt's outcome by its reward; empty if it was not judged.

    A failed replay does not change the attempt: the recorded reward counts. Without one the outcome is what ended the
    replay: a program error, or an infrastructure error, never a reward of 0.
    """
    reward = done.reward.reward if done.reward else record.recorded_reward
    if reward is not None and reward >= SOLVED_AT:
        return "solved"
    if record.parts.outcome:
        return record.parts.outcome
    if record.truncated:
        return "truncated"
    if reward is not None:
        return "failed"
    return ("program_error" if done.ended else "infra_error") if done.failure else ""
