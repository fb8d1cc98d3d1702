"""Replay of a rollout: a worker's report is believed if executing it here gives the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from synthesis.contracts import (
    SOLVED_AT,
    UNCOUNTED,
    Attempt,
    CallResult,
    Disturbance,
    Reward,
    State,
    TrajectoryStep,
    is_same_reward,
)
from synthesis.errors import InfrastructureError, InputError, ProgramError, SandboxUnavailable, StateError
from synthesis.formats.answer_form import ACCEPTED
from synthesis.formats.submissions import find_submitted_answer
from synthesis.formats.values import clean_text
from synthesis.rollout import AttemptSetting, build_attempt_seed, format_observation, set_due_injections
from synthesis.rollout.observation import shorten_observation
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.runtime.encoding import hash_state
from training.config import EvaluationJob, Reinforcement, read_config
from webapp.accounts.services import write_audit_entry
from webapp.runs.models import RunRollout
from webapp.runs.rollouts import rollout_file
from webapp.runs.rollouts.recorded_judge import RecordedJudge
from webapp.runs.rollouts.user_verdicts import doubt_verdict, is_masked_by_rule
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import ReplayState, Step, Trajectory
from webapp.trajectories.reproduction import Replay
from webapp.trajectories.reproduction import ReplaySetting as Execution
from webapp.trajectories.rollouts import second_execution
from webapp.trajectories.rollouts.attempt_writer import to_executed_step
from webapp.trajectories.rollouts.finished_attempt import store_finished_attempt
from webapp.trajectories.rollouts.second_execution import (
    describe_differences,
    execute_again,
    find_misattributed_call,
    list_executed_places,
)
from webapp.trajectories.services import build_replay_setting

SOURCE = "training"
MISMATCH_CHARS = 1_000
OVERTURNED = ("solved", "program_error")
"""Outcomes that a worker reported and executing the calls again did not reproduce."""
FASTER = "The program ran out of time at the worker, and did not here. That is no mismatch: machines differ in speed."

NOT_ASKED = "A judge decides what it earns, and the job's judge was not asked about this attempt."


@dataclass(frozen=True)
class ReplayedAttempt:
    """Result of executing an attempt's calls again; `attempt` holds what happened here.

    `start` is the state that the episode begins in. `mismatch` describes differences from the worker's report, empty if
    there are none; `differing` are the steps whose results differ, of those that could be `compared`. `note` describes
    a difference that is no fault.
    """

    attempt: Attempt
    start: State | None
    mismatch: str
    compared: frozenset[int]
    differing: frozenset[int]
    note: str = ""


def open_rollout(rollout: RunRollout, user: Any, sandbox: Sandbox | None = None) -> Trajectory:
    """Return the rollout as a trajectory that can be replayed, made when it is opened for the first time.

    It holds the results of executing the calls here, never those that the worker reported. Raises InputError (its task
    is not on this site, its file or program is gone), FormatError, SandboxUnavailable.
    """
    if rollout.trajectory is not None:
        return rollout.trajectory
    revision = get_revision(rollout)
    line = rollout_file.read_file_line(rollout.file, rollout.index)
    executed = execute_rollout(sandbox or get_default_sandbox(), revision, line, rollout)
    row = store_finished_attempt(
        executed.attempt,
        revision,
        executed.start,
        SOURCE,
        [rollout.file.job.public_id, rollout.file.attempt, rollout.file.step, rollout.index, rollout.file.sha256],
        build_provenance(rollout, line),
    )
    with transaction.atomic():
        _write_differences(row, line, executed)
        RunRollout.objects.filter(pk=rollout.pk).update(trajectory=row, quarantined=executed.mismatch)
        write_audit_entry(user, "rollout.open", row, job=rollout.file.job.public_id, step=rollout.file.step)
    rollout.trajectory, rollout.quarantined = row, executed.mismatch
    row.refresh_from_db()
    return row


def get_revision(rollout: RunRollout) -> TaskRevision:
    """Return the task's revision on this site. Raises InputError: it is not here."""
    if rollout.revision is None:
        raise InputError(
            "This attempt was at a task that is not on this site: it came with an uploaded file, or was deleted "
            "since. There is nothing to replay it on."
        )
    return rollout.revision


def execute_rollout(
    sandbox: Sandbox, revision: TaskRevision, told: rollout_file.RolloutFileLine, rollout: RunRollout
) -> ReplayedAttempt:
    """Execute an attempt's calls again. Raises InputError: they cannot be; SandboxUnavailable passes through."""
    attempt = told.attempt
    if revision.superseded:
        raise InputError(f"The task was superseded since. {revision.superseded} The attempt stays as it was reported.")
    if form := read_answer_form(revision):
        # The reported answer could be one that the agent never gave: only its steps count.
        attempt = attempt.model_copy(update={"answer": find_submitted_answer(attempt.steps, form)})
    judge = RecordedJudge(rollout.file.job)
    setting = replace(build_replay_setting(revision), judge=judge)
    attempt = _apply_due_setting(attempt, setting, told, rollout)
    places = list_executed_places(attempt)
    done = execute_again(sandbox, setting, attempt)
    out_of_time = attempt.outcome == "program_error" and attempt.ended_by == "time"
    ended = attempt.outcome == "program_error" and done.ended
    lost = ended or out_of_time or attempt.outcome in UNCOUNTED
    if done.failure and not lost:
        raise InputError(f"The attempt cannot be executed again: {clean_text(done.failure)[:MISMATCH_CHARS]}")
    results = {
        place: played.result
        for place, played in zip(places, done.played, strict=False)
        if played.result is not None and attempt.steps[place].kind == "call"
    }
    compared = frozenset(place for place in results if attempt.steps[place].result is not None)
    differing = frozenset(
        place for place in compared if not _is_same_result(attempt.steps[place].result, results[place])
    )
    mismatches = (
        _describe_unearned(told)
        if lost
        else _describe_mismatches(told, done, rollout, revision, min(differing, default=None))
    )
    mismatches += _describe_undue_injection(told.attempt, attempt)
    mismatches += find_misattributed_call(attempt, attempt.user_tools) + _describe_misreading(told.attempt, results)
    if judge.missing and not lost:
        mismatches.append(NOT_ASKED)
    happened = _replace_by_executed(attempt, results, done, lost)
    start = _find_start_state(sandbox, setting, attempt)
    note = FASTER if out_of_time and not done.failure else ""
    return ReplayedAttempt(happened, start, " ".join(mismatches)[:MISMATCH_CHARS], compared, differing, note)


def _apply_due_setting(
    attempt: Attempt, setting: Execution, told: rollout_file.RolloutFileLine, rollout: RunRollout
) -> Attempt:
    """Return the attempt disturbed, and with the tools given to its user, as the job's settings require, whatever the
    worker reported: it could otherwise choose the calls that fail."""
    config = read_config(rollout.file.job.config)
    due, seed, user_tools = Disturbance(), "", list[str]()
    tools = [tool.name for tool in setting.program.tools]
    if isinstance(config, Reinforcement | EvaluationJob):
        due, seed = config.attempts.disturbance, build_attempt_seed(config.seed, told.row, told.ordinal)
        user_tools = [name for name in config.attempts.user_tools if attempt.conversational and name in tools]
    steps = set_due_injections(attempt.steps, due, seed, set(tools) - set(user_tools))
    changes = {"disturbance": due, "disturbance_seed": seed if due.is_on else "", "steps": tuple(steps)}
    changes["user_tools"] = tuple(user_tools)
    return attempt.model_copy(update=changes)


def _describe_misreading(told: Attempt, results: dict[int, CallResult]) -> list[str]:
    """Describe an observation of the user that differs from what its call gives here: a verdict on the user rests on
    that."""
    if told.user_fault not in ("none", "fault"):
        return []
    most = AttemptSetting().observation_chars
    for place, result in sorted(results.items()):
        step = told.steps[place]
        if step.by == "user" and step.observation != shorten_observation(format_observation(result), most):
            return [f"The user is reported to have read something other than what its call of step {place} returns."]
    return []


def _describe_undue_injection(told: Attempt, due: Attempt) -> list[str]:
    """Describe a reported disturbance that the job's settings do not make."""
    pairs = enumerate(zip(told.steps, due.steps, strict=True))
    place = next((place for place, (one, other) in pairs if one.injected != other.injected), None)
    if place is None:
        return []
    return [f"The call of step {place} is reported with a disturbance that the job's settings do not make."]


def _find_start_state(sandbox: Sandbox, setting: Execution, attempt: Attempt) -> State | None:
    """Return the initial state; None if the program cannot be started, which then is the failure of the replay too."""
    try:
        opened = sandbox.reset(
            setting.program,
            setting.initial,
            seed=second_execution.SEED,
            now=second_execution.NOW,
            validation=second_execution.VALIDATION,
        )
        with opened as episode:
            return episode.state()
    except SandboxUnavailable:
        raise
    except (InfrastructureError, ProgramError, StateError):
        return None


def _describe_mismatches(
    told: rollout_file.RolloutFileLine, done: Replay, rollout: RunRollout, revision: TaskRevision, first: int | None
) -> list[str]:
    words = list[str]()
    if told.attempt.outcome == "program_error":
        verdict_words = f"they give {done.reward.reward:.4f}" if done.reward is not None else "nothing could be judged"
        words.append(
            f"The worker reported that the program ended the attempt; executed again it does not, and {verdict_words}."
        )
    if told.verifier and told.verifier != revision.verifier_hash:
        words.append("The worker judged it by another verifier than that of the task's revision.")
    words += describe_differences(told.attempt, done, "the worker")
    words += [doubt] if (doubt := doubt_verdict(told, rollout.file.job, revision.instruction, done.reward)) else []
    learnt = compute_learnt_reward(rollout, done.reward)
    if learnt is not None and told.reward is not None and not is_same_reward(told.reward, learnt):
        words.append(f"The step learnt from a reward of {told.reward:.4f}; the job's rule makes it {learnt:.4f}.")
    left_out = told.reward is None and told.attempt.reward is not None and not is_masked_by_rule(told, rollout.file.job)
    if learnt is not None and left_out:
        words.append(f"The step left it out, though nothing of it was lost; it earns {learnt:.4f}.")
    if words and first is not None:
        words.append(f"Step {first} is the first whose result differs.")
    return words


def _describe_unearned(told: rollout_file.RolloutFileLine) -> list[str]:
    if told.attempt.outcome != "program_error" or not told.reward:
        return []
    return [f"The program ended the attempt, which earns nothing; the step learnt from a reward of {told.reward:.4f}."]


def compute_learnt_reward(rollout: RunRollout, given: Reward | None) -> float | None:
    """Return what the job's rule makes of a reward: what the step has to learn from, if the attempt is not left out."""
    if given is None:
        return None
    whole = rollout.file.job.config.get("reward") == "all_or_nothing"
    return float(given.reward >= SOLVED_AT) if whole else given.reward


def _replace_by_executed(attempt: Attempt, results: dict[int, CallResult], done: Replay, lost: bool) -> Attempt:
    """Return the attempt with what happened here. Calls that never reached the environment changed nothing, whatever
    was reported."""
    steps = [
        step.model_copy(update={"result": results.get(place) or _make_harmless_result(step)})
        if step.kind == "call"
        else step
        for place, step in enumerate(attempt.steps)
    ]
    changes: dict[str, Any] = {"steps": tuple(steps), "final_hash": done.final_hash, "seed": second_execution.SEED}
    changes |= {"now": second_execution.NOW, "validation": second_execution.VALIDATION}
    if lost:
        return attempt.model_copy(update=changes | {"reward": None})
    solved = done.reward is not None and done.reward.reward >= SOLVED_AT
    outcome = "solved" if solved else "failed" if attempt.outcome in OVERTURNED else attempt.outcome
    return attempt.model_copy(update=changes | {"reward": done.reward, "outcome": outcome})


def _make_harmless_result(step: TrajectoryStep) -> CallResult | None:
    """Return a result that is only reported: its error remains for people, and that it was the answer; its patch does
    not."""
    if step.result is not None and step.result.error is None and not step.result.executed:
        return CallResult(ok=True, result=ACCEPTED, executed=False)
    error = step.result.error if step.result else None
    return CallResult(ok=False, error=error) if error is not None else None


def _is_same_result(told: CallResult | None, here: CallResult | None) -> bool:
    if told is None or here is None:
        return told is here
    kinds = [result.error.kind if result.error else "" for result in (told, here)]
    return (
        told.ok == here.ok
        and kinds[0] == kinds[1]
        and hash_state(told.result) == hash_state(here.result)
        and hash_state(told.patch) == hash_state(here.patch)
    )


def build_provenance(rollout: RunRollout, told: rollout_file.RolloutFileLine) -> dict[str, Any]:
    """Return the provenance of the trajectory and what training made of it, for people and for training data."""
    file, attempt = rollout.file, told.attempt
    return {
        "training_job": file.job.public_id,
        "training_attempt": file.attempt,
        "step": file.step,
        "policy_step": rollout.policy_step,
        "horizon": rollout.horizon,
        "advantage": rollout.advantage,
        "masked": rollout.masked,
        "ordinal": attempt.ordinal,
        "ending": attempt.ending,
        "prompt_style": attempt.prompt_style,
        "user": attempt.user,
        "prompts": attempt.prompts,
        "usage": attempt.usage.model_dump(),
        "user_usage": attempt.user_usage.model_dump(),
        "judge_usage": attempt.judge_usage.model_dump(),
    }


def _write_differences(row: Trajectory, told: rollout_file.RolloutFileLine, executed: ReplayedAttempt) -> None:
    """Store the differences as for imported runs, so that the replay page shows them."""
    claimed = told.attempt.reward.reward if told.attempt.reward else None
    steps = Step.objects.filter(trajectory=row)
    steps.filter(index__in=executed.compared - executed.differing).update(matches=True)
    for index in sorted(executed.differing):
        recorded = to_executed_step(told.attempt.steps[index]).step.recorded or clean_text(
            told.attempt.steps[index].observation
        )
        steps.filter(index=index).update(matches=False, recorded=recorded)
    verdict = ReplayState.IDENTICAL
    if executed.mismatch:
        verdict = ReplayState.DIVERGED
    elif executed.differing:
        verdict = ReplayState.REPRODUCED
    Trajectory.objects.filter(pk=row.pk).update(
        replay=verdict,
        recorded_reward=claimed,
        replay_note=executed.mismatch or executed.note,
        first_divergence=min(executed.differing, default=None),
    )
