"""Replay of a rollout: a worker's report is believed where executing it here gives the same."""

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
    same_reward,
)
from synthesis.errors import InfrastructureError, InputError, ProgramError, SandboxUnavailable, StateError
from synthesis.formats.answer_form import ACCEPTED
from synthesis.formats.submissions import find_submitted_answer
from synthesis.formats.values import clean
from synthesis.rollout import AttemptSetting, attempt_seed, observation, with_due_injections
from synthesis.rollout.observation import bounded
from synthesis.runtime import Sandbox, default_sandbox
from synthesis.runtime.encoding import state_hash
from training.config import EvaluationJob, Reinforcement, read_config
from webapp.accounts.services import audit
from webapp.runs.models import RunRollout
from webapp.runs.rollouts import rollout_file
from webapp.runs.rollouts.recorded_judge import RecordedJudge
from webapp.runs.rollouts.user_verdicts import MASKED, doubt_verdict
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import ReplayState, Step, Trajectory
from webapp.trajectories.reproduction import Replay
from webapp.trajectories.reproduction import ReplaySetting as Execution
from webapp.trajectories.rollouts import second_execution
from webapp.trajectories.rollouts.attempt_writer import played_of
from webapp.trajectories.rollouts.finished_attempt import record_whole
from webapp.trajectories.rollouts.second_execution import (
    differences,
    execute_again,
    executed_places,
    find_misattributed_call,
)
from webapp.trajectories.services import setting_of

SOURCE = "training"
MISMATCH_CHARS = 1_000
OVERTURNED = ("solved", "program_error")
"""What a worker told and executing the calls again did not come to."""
FASTER = "The program ran out of time at the worker, and did not here. That is no mismatch: machines differ in speed."

NOT_ASKED = "A judge decides what it earns, and the job's judge was asked nothing about this attempt."


@dataclass(frozen=True)
class ReplayedAttempt:
    """Result of executing an attempt's calls again; `attempt` holds what happened here.

    `start` is the state that the episode begins in. `mismatch` says in words where the worker told something else,
    empty where nothing differs; `differing` are the steps whose results do, of those that could be `compared`. `note`
    says what differs and is nobody's fault.
    """

    attempt: Attempt
    start: State | None
    mismatch: str
    compared: frozenset[int]
    differing: frozenset[int]
    note: str = ""


def open_rollout(rollout: RunRollout, user: Any, sandbox: Sandbox | None = None) -> Trajectory:
    """The rollout as a trajectory that can be replayed, made the first time that somebody asks for it.

    It holds what executing the calls here gave, never what the worker said they did. Raises InputError (its task is not
    on this site, its file or program is gone), FormatError, SandboxUnavailable.
    """
    if rollout.trajectory is not None:
        return rollout.trajectory
    revision = revision_of(rollout)
    told = rollout_file.line(rollout.file, rollout.index)
    executed = execute(sandbox or default_sandbox(), revision, told, rollout)
    row = record_whole(
        executed.attempt,
        revision,
        executed.start,
        SOURCE,
        [rollout.file.job.public_id, rollout.file.attempt, rollout.file.step, rollout.index, rollout.file.sha256],
        provenance_of(rollout, told),
    )
    with transaction.atomic():
        _say_what_differs(row, told, executed)
        RunRollout.objects.filter(pk=rollout.pk).update(trajectory=row, quarantined=executed.mismatch)
        audit(user, "rollout.open", row, job=rollout.file.job.public_id, step=rollout.file.step)
    rollout.trajectory, rollout.quarantined = row, executed.mismatch
    row.refresh_from_db()
    return row


def revision_of(rollout: RunRollout) -> TaskRevision:
    """The task's revision on this site. Raises InputError: it is not here."""
    if rollout.revision is None:
        raise InputError(
            "This attempt was at a task that is not on this site: it came with an uploaded file, or was deleted "
            "since. There is nothing to replay it on."
        )
    return rollout.revision


def execute(
    sandbox: Sandbox, revision: TaskRevision, told: rollout_file.RolloutFileLine, rollout: RunRollout
) -> ReplayedAttempt:
    """Execute an attempt's calls again. Raises InputError: they cannot be; SandboxUnavailable passes through."""
    attempt = told.attempt
    if revision.superseded:
        raise InputError(f"The task was superseded since. {revision.superseded} The attempt stays as it was reported.")
    if form := read_answer_form(revision):
        # What is told beside the steps could be an answer that the agent never gave.
        attempt = attempt.model_copy(update={"answer": find_submitted_answer(attempt.steps, form)})
    judge = RecordedJudge(rollout.file.job)
    setting = replace(setting_of(revision), judge=judge)
    attempt = _with_due_setting(attempt, setting, told, rollout)
    kept = executed_places(attempt)
    done = execute_again(sandbox, setting, attempt)
    out_of_time = attempt.outcome == "program_error" and attempt.ended_by == "time"
    ended = attempt.outcome == "program_error" and done.ended
    lost = ended or out_of_time or attempt.outcome in UNCOUNTED
    if done.failure and not lost:
        raise InputError(f"The attempt cannot be executed again: {clean(done.failure)[:MISMATCH_CHARS]}")
    results = {
        place: played.result
        for place, played in zip(kept, done.played, strict=False)
        if played.result is not None and attempt.steps[place].kind == "call"
    }
    compared = frozenset(place for place in results if attempt.steps[place].result is not None)
    differing = frozenset(place for place in compared if not _same(attempt.steps[place].result, results[place]))
    words = _unearned(told) if lost else _mismatches(told, done, rollout, revision, min(differing, default=None))
    words += _undue_injection(told.attempt, attempt)
    words += find_misattributed_call(attempt, attempt.user_tools) + _misread(told.attempt, results)
    if judge.missing and not lost:
        words.append(NOT_ASKED)
    happened = _as_executed(attempt, results, done, lost)
    start = _start(sandbox, setting, attempt)
    note = FASTER if out_of_time and not done.failure else ""
    return ReplayedAttempt(happened, start, " ".join(words)[:MISMATCH_CHARS], compared, differing, note)


def _with_due_setting(
    attempt: Attempt, setting: Execution, told: rollout_file.RolloutFileLine, rollout: RunRollout
) -> Attempt:
    """Return the attempt disturbed, and with the tools given to its user, as the job's settings want it, whatever was
    told of that: who tells an attempt could choose the calls that fail."""
    config = read_config(rollout.file.job.config)
    due, seed, user_tools = Disturbance(), "", list[str]()
    tools = [tool.name for tool in setting.program.tools]
    if isinstance(config, Reinforcement | EvaluationJob):
        due, seed = config.attempts.disturbance, attempt_seed(config.seed, told.row, told.ordinal)
        user_tools = [name for name in config.attempts.user_tools if attempt.conversational and name in tools]
    steps = with_due_injections(attempt.steps, due, seed, set(tools) - set(user_tools))
    changes = {"disturbance": due, "disturbance_seed": seed if due.is_on else "", "steps": tuple(steps)}
    changes["user_tools"] = tuple(user_tools)
    return attempt.model_copy(update=changes)


def _misread(told: Attempt, results: dict[int, CallResult]) -> list[str]:
    """Where the user is told to have read something else than its call gives here, in a sentence: a verdict on the user
    rests on that."""
    if told.user_fault not in ("none", "fault"):
        return []
    most = AttemptSetting().observation_chars
    for place, result in sorted(results.items()):
        step = told.steps[place]
        if step.by == "user" and step.observation != bounded(observation(result), most):
            return [f"The user is told to have read something else than what its call of step {place} returns here."]
    return []


def _undue_injection(told: Attempt, due: Attempt) -> list[str]:
    """Where the worker told of a disturbance that the job's settings do not make, in a sentence."""
    pairs = enumerate(zip(told.steps, due.steps, strict=True))
    place = next((place for place, (one, other) in pairs if one.injected != other.injected), None)
    if place is None:
        return []
    return [f"The call of step {place} is told to have been disturbed otherwise than the job's settings disturb it."]


def _start(sandbox: Sandbox, setting: Execution, attempt: Attempt) -> State | None:
    """None where the program cannot be started, which then is the failure of the replay too."""
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


def _mismatches(
    told: rollout_file.RolloutFileLine, done: Replay, rollout: RunRollout, revision: TaskRevision, first: int | None
) -> list[str]:
    words = list[str]()
    if told.attempt.outcome == "program_error":
        given = f"they give {done.reward.reward:.4f}" if done.reward is not None else "nothing could be judged"
        words.append(f"The worker told that the program ended the attempt; executed again it does not, and {given}.")
    if told.verifier and told.verifier != revision.verifier_hash:
        words.append("The worker judged it by another verifier than that of the task's revision.")
    words += differences(told.attempt, done, "the worker")
    words += [doubt] if (doubt := doubt_verdict(told, rollout.file.job, revision.instruction, done.reward)) else []
    learnt = learnt_reward(rollout, done.reward)
    if learnt is not None and told.reward is not None and not same_reward(told.reward, learnt):
        words.append(f"The step learnt from a reward of {told.reward:.4f}; the job's rule makes it {learnt:.4f}.")
    left_out = told.reward is None and told.attempt.reward is not None and told.masked != MASKED
    if learnt is not None and left_out:
        words.append(f"The step left it out, though nothing of it was lost; it earns {learnt:.4f}.")
    if words and first is not None:
        words.append(f"Step {first} is the first whose result differs.")
    return words


def _unearned(told: rollout_file.RolloutFileLine) -> list[str]:
    if told.attempt.outcome != "program_error" or not told.reward:
        return []
    return [f"The program ended the attempt, which earns nothing; the step learnt from a reward of {told.reward:.4f}."]


def learnt_reward(rollout: RunRollout, given: Reward | None) -> float | None:
    """What the job's rule makes of a reward: what the step has to learn from, where the attempt is not left out."""
    if given is None:
        return None
    whole = rollout.file.job.config.get("reward") == "all_or_nothing"
    return float(given.reward >= SOLVED_AT) if whole else given.reward


def _as_executed(attempt: Attempt, results: dict[int, CallResult], done: Replay, lost: bool) -> Attempt:
    """The attempt with what happened here. What never reached the environment changed nothing, whatever was told."""
    steps = [
        step.model_copy(update={"result": results.get(place) or _harmless(step)}) if step.kind == "call" else step
        for place, step in enumerate(attempt.steps)
    ]
    changes: dict[str, Any] = {"steps": tuple(steps), "final_hash": done.final_hash, "seed": second_execution.SEED}
    changes |= {"now": second_execution.NOW, "validation": second_execution.VALIDATION}
    if lost:
        return attempt.model_copy(update=changes | {"reward": None})
    solved = done.reward is not None and done.reward.reward >= SOLVED_AT
    outcome = "solved" if solved else "failed" if attempt.outcome in OVERTURNED else attempt.outcome
    return attempt.model_copy(update=changes | {"reward": done.reward, "outcome": outcome})


def _harmless(step: TrajectoryStep) -> CallResult | None:
    """A result that is only told: its error stays for people, and that it was the answer; its patch does not."""
    if step.result is not None and step.result.error is None and not step.result.executed:
        return CallResult(ok=True, result=ACCEPTED, executed=False)
    error = step.result.error if step.result else None
    return CallResult(ok=False, error=error) if error is not None else None


def _same(told: CallResult | None, here: CallResult | None) -> bool:
    if told is None or here is None:
        return told is here
    kinds = [result.error.kind if result.error else "" for result in (told, here)]
    return (
        told.ok == here.ok
        and kinds[0] == kinds[1]
        and state_hash(told.result) == state_hash(here.result)
        and state_hash(told.patch) == state_hash(here.patch)
    )


def provenance_of(rollout: RunRollout, told: rollout_file.RolloutFileLine) -> dict[str, Any]:
    """Provenance of the trajectory and what training made of it, for people and for training data."""
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


def _say_what_differs(row: Trajectory, told: rollout_file.RolloutFileLine, executed: ReplayedAttempt) -> None:
    """The replay page says it as it does of imported runs."""
    claimed = told.attempt.reward.reward if told.attempt.reward else None
    steps = Step.objects.filter(trajectory=row)
    steps.filter(index__in=executed.compared - executed.differing).update(matches=True)
    for index in sorted(executed.differing):
        recorded = played_of(told.attempt.steps[index]).step.recorded or clean(told.attempt.steps[index].observation)
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
