"""Storing of attempts while they are made. Every write names the claim of the job; a stale one writes nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import DataError, transaction
from django.db.models import Q
from django.utils import timezone

from synthesis.contracts import UNREACHED, Attempt, CallError, CallResult, State, Timing, TrajectoryStep, UserVerdict
from synthesis.errors import StateError
from synthesis.formats.envscaler_export import run_to_envscaler
from synthesis.formats.records import RunRecord, RunStep
from synthesis.formats.values import clean_text
from synthesis.runtime.encoding import apply_patch
from webapp.common.claims import StaleClaim
from webapp.common.content_store import content_hash
from webapp.jobs.claims import JobClaim
from webapp.scenarios.models import Task
from webapp.trajectories.comparison import is_same_observation
from webapp.trajectories.models import AttemptState, ReplayState, Rollout, RolloutAttempt, Trajectory
from webapp.trajectories.steps import ExecutedStep, add_score, attach_snapshot, build_step_row, load_tool_kinds
from webapp.trajectories.text_search.text_rows import TextWords, delete_text, write_text, write_words
from webapp.trajectories.totals import StepCounts, update_totals

logger = logging.getLogger(__name__)

SOURCE = "rollout"
STATES = {"infra_error": AttemptState.INFRA_ERROR, "cancelled": AttemptState.CANCELLED}


@dataclass
class OpenAttempt:
    """A running attempt: its row, the state after its last step, its counts so far and its words."""

    row: Trajectory
    state: State | None
    counts: StepCounts = field(default_factory=StepCounts)
    words: TextWords = field(default_factory=TextWords)


class Recorder:
    """Writer of one rollout under one claim; called from several threads.

    An attempt that is stopped in the middle of a write may be finished by another thread at once: each has a lock.
    """

    def __init__(self, rollout: Rollout, claim: JobClaim) -> None:
        self.rollout = rollout
        self.claim = claim
        self.kinds = load_tool_kinds(rollout.revision)
        self.open: dict[int, OpenAttempt] = {}
        self.locks: dict[int, threading.Lock] = {}

    def take(self) -> list[int]:
        """Claim every attempt that is not done, and return their ordinals. Earlier holders write nothing more."""
        with transaction.atomic():
            self.claim.require_held()
            open_attempts = self.rollout.attempts.filter(~Q(state=AttemptState.DONE))
            open_attempts.update(claim=self.claim.number, state=AttemptState.WAITING)
            ordinals = list(open_attempts.order_by("ordinal").values_list("ordinal", flat=True))
        self.locks = {ordinal: threading.Lock() for ordinal in ordinals}
        return ordinals

    def begin(self, ordinal: int, policy: str, initial: State | None) -> None:
        """Store the start of an attempt: its trajectory exists from now on, without the rows of an earlier start."""
        with self.locks[ordinal]:
            self._begin(ordinal, policy, initial)

    def _begin(self, ordinal: int, policy: str, initial: State | None) -> None:
        with self._write(ordinal, AttemptState.WAITING) as attempt:
            row = attempt.trajectory or self._new(ordinal)
            with update_totals(row, self.rollout.task.environment_id):
                if row.pk:
                    row.steps.all().delete()
                    delete_text(row)
                reset_trajectory(row, policy)
                row.save()
            attempt.state, attempt.trajectory = AttemptState.RUNNING, row
            attempt.save(update_fields=["state", "trajectory"])
        self.open[ordinal] = OpenAttempt(row, initial)

    def step(self, ordinal: int, step: TrajectoryStep) -> None:
        """Store one step as it was made, with its state if a snapshot is due."""
        with self.locks[ordinal]:
            running = self.open.get(ordinal)
            if running is not None:
                self._add(ordinal, running, step)

    def _add(self, ordinal: int, running: OpenAttempt, step: TrajectoryStep) -> None:
        """Write a step. One that the database refuses, or whose patch does not fit, is stored without its result: it
        must not make the other attempts of the rollout fail."""
        try:
            self._put(ordinal, running, step)
        except (DataError, StateError) as error:
            logger.warning(
                "rollout %s, attempt %s: a step is kept without its result: %s", self.rollout, ordinal, error
            )
            message = f"The result of this call could not be stored: {clean_text(str(error))[:500]}"
            result = CallResult(ok=False, error=CallError(kind="unencodable", message=message))
            self._put(ordinal, running, step.model_copy(update={"result": result, "observation": message}))

    def _put(self, ordinal: int, running: OpenAttempt, step: TrajectoryStep) -> None:
        played = to_executed_step(step)
        state = running.state or {}
        if played.patch:
            state = apply_patch(state, played.patch)
        counts = running.counts
        attach_snapshot(played, counts.steps, lambda: state)
        with self._write(ordinal, AttemptState.RUNNING):
            step_model = build_step_row(running.row, counts.steps, played, self.kinds)
            step_model.save()
            running.state = state
            running.words.add_step(step_model)
            counts.add(step, step.result)
            running.row.save(update_fields=counts.put(running.row))

    def finish(self, attempt: Attempt) -> Trajectory:
        """Store how the attempt ended, its reward and the split of its time."""
        with self.locks[attempt.ordinal]:
            if attempt.ordinal not in self.open:
                self._begin(attempt.ordinal, attempt.policy, None)
            running = self.open[attempt.ordinal]
            for step in attempt.steps[running.counts.steps :]:
                self._add(attempt.ordinal, running, step)
            self._close(attempt, running)
        return running.row

    def _close(self, attempt: Attempt, running: OpenAttempt) -> None:
        row, revision = running.row, self.rollout.revision
        with self._write(attempt.ordinal, AttemptState.RUNNING) as mine:
            with update_totals(row, self.rollout.task.environment_id):
                fill_trajectory(row, attempt, self.provenance(attempt))
                row.record = build_run_record(self.rollout.task, attempt)
                row.save()
                write_words(row, running.words)
                if attempt.reward is not None:
                    add_score(row, revision, attempt.reward, SOURCE)
            mine.state = STATES.get(attempt.outcome, AttemptState.DONE)
            mine.save(update_fields=["state"])
            self._report_progress()
        del self.open[attempt.ordinal]

    def put_back(self, ordinals: list[int]) -> None:
        """Let attempts that ended by an infrastructure error be started again."""
        with transaction.atomic():
            self.claim.require_held()
            mine = self.rollout.attempts.filter(ordinal__in=ordinals, claim=self.claim.number)
            mine.filter(state=AttemptState.INFRA_ERROR).update(state=AttemptState.WAITING)

    def abandon(self, why: str) -> None:
        """Mark the running attempts as broken off, as the job ends early; a retry starts them again."""
        for ordinal, running in list(self.open.items()):
            with self.locks[ordinal], self._write(ordinal, AttemptState.RUNNING) as mine:
                _break_off_attempt(mine, running.row, AttemptState.INFRA_ERROR, why)
            del self.open[ordinal]

    def provenance(self, attempt: Attempt) -> dict[str, Any]:
        """Return the settings of the attempt and how it went, for people and for training data."""
        spec = self.rollout.spec
        seeded = spec["policy"] != "reference" and (spec["policy"] != "model" or spec["seed"] is not None)
        return {
            "rollout": self.rollout.pk,
            "ordinal": attempt.ordinal,
            "ending": attempt.ending,
            "prompt_style": attempt.prompt_style,
            "user": attempt.user,
            "temperature": spec["temperature"],
            "policy_seed": (spec["seed"] or 0) + attempt.ordinal if seeded else None,
            "prompts": attempt.prompts,
            "usage": attempt.usage.model_dump(),
            "user_usage": attempt.user_usage.model_dump(),
            "judge_usage": attempt.judge_usage.model_dump(),
        }

    def _new(self, ordinal: int) -> Trajectory:
        rollout, fork = self.rollout, self.rollout.spec.get("fork") or {}
        parent = Trajectory.objects.only("pk", "validation").filter(pk=fork.get("trajectory", 0)).first()
        return Trajectory(
            environment_id=rollout.task.environment_id,
            task=rollout.task,
            revision=rollout.revision,
            source=SOURCE,
            content_hash=content_hash([SOURCE, rollout.pk, ordinal]),
            conversational=rollout.spec["conversational"],
            validation=parent.validation if parent else "schema",
            parent=parent,
            forked_at=fork.get("step"),
        )

    @contextmanager
    def _write(self, ordinal: int, state: str) -> Iterator[RolloutAttempt]:
        """Hold the attempt's row in a transaction. Raises StaleClaim if it is not this claim's, or not in `state`."""
        with transaction.atomic():
            self.claim.require_held()
            rows = RolloutAttempt.objects.select_for_update(of=("self",)).select_related("trajectory")
            mine = rows.filter(rollout=self.rollout, ordinal=ordinal, claim=self.claim.number, state=state).first()
            if mine is None:
                raise StaleClaim(f"Attempt {ordinal} of job {self.rollout.job_id} belongs to another worker by now.")
            yield mine

    def _report_progress(self) -> None:
        done_count = self.rollout.attempts.exclude(state__in=[AttemptState.WAITING, AttemptState.RUNNING]).count()
        self.claim.advance(done_count, self.rollout.total)


@transaction.atomic
def close_rollout(job_id: int) -> None:
    """Break off the running attempts of a job that ended without its worker; a retry starts them again."""
    rows = RolloutAttempt.objects.select_for_update(of=("self",)).select_related("trajectory", "rollout__job")
    for attempt in rows.filter(rollout__job_id=job_id, trajectory__live=True):
        if attempt.trajectory is not None and not attempt.rollout.job.is_open:
            cancelled = attempt.rollout.job.cancel_requested
            state = AttemptState.CANCELLED if cancelled else AttemptState.INFRA_ERROR
            _break_off_attempt(attempt, attempt.trajectory, state, "The worker that made this attempt was lost.")


def _break_off_attempt(attempt: RolloutAttempt, row: Trajectory, state: AttemptState, why: str) -> None:
    """Close an attempt, within a transaction that holds it."""
    with update_totals(row, row.environment_id):
        row.live, row.outcome, row.note = False, str(state), clean_text(why)[:2_000]
        row.save()
        write_text(row)
    attempt.state = state
    attempt.save(update_fields=["state"])


def to_executed_step(step: TrajectoryStep) -> ExecutedStep:
    """Return a step of the loop in the form of the replay, in text that PostgreSQL can store.

    The observation of the agent is stored if it is not simply the result: the text of an error, or a text that was cut.
    """
    result: CallResult | None = step.result
    observation = clean_text(step.observation)
    simple = result is not None and result.ok and is_same_observation(observation, result)
    stored_step = build_run_step(step, None if simple or not observation else observation)
    return ExecutedStep(stored_step, step.arguments, result, None, list(result.patch) if result else [])


def build_run_record(task: Task, attempt: Attempt) -> dict[str, Any]:
    """Return the run as an export writes it, which can be imported, and the conversation as the agent saw it.

    Calls that never reached the environment are only in the conversation: a replay would execute them. The accepted
    answer is marked, so that both have it.
    """
    executed_steps = [step for step in attempt.steps if not _is_refused(step)]
    run = RunRecord(
        environment_key=task.environment.key,
        task_key=task.key,
        policy=clean_text(attempt.policy)[:200],
        conversational=attempt.conversational,
        steps=tuple(build_run_step(step, clean_text(step.observation)) for step in executed_steps),
        recorded_reward=attempt.reward.reward if attempt.reward else None,
        truncated=attempt.outcome == "truncated",
    )
    conversation = [message.model_dump(mode="json", exclude_defaults=True) for message in attempt.messages]
    return run_to_envscaler(run) | {"conversation": conversation}


def _is_refused(step: TrajectoryStep) -> bool:
    error = step.result.error if step.result else None
    return error is not None and error.kind in (*UNREACHED, "bad_arguments")


def build_run_step(step: TrajectoryStep, observation: str | None) -> RunStep:
    return RunStep(
        kind=step.kind,
        turn=step.turn,
        content=clean_text(step.content),
        reasoning=clean_text(step.reasoning),
        cut=step.cut[:12],
        tool=clean_text(step.tool)[:200],
        arguments=step.arguments,
        recorded=observation,
        executed=step.result is None or step.result.executed,
        injected=step.injected,
        by=step.by,
    )


def reset_trajectory(row: Trajectory, policy: str) -> None:
    """Reset a trajectory that starts: the values of an earlier start are cleared."""
    row.live, row.starts, row.created_at = True, row.starts + 1, timezone.now()
    row.policy, row.replay = clean_text(policy)[:200], ReplayState.MADE_HERE
    row.outcome, row.reward, row.passed, row.total = "", None, None, None
    row.answer = row.note = row.final_hash = row.matrix_hash = row.failure = ""
    row.tokens = None
    row.matrix, row.user_error, row.user_fault, row.provenance = None, False, "", {}
    StepCounts().put(row)
    row.environment_s = row.agent_s = row.user_s = row.verification_s = None


def serialize_verdict(verdict: UserVerdict) -> dict[str, Any]:
    """Return a verdict on the simulated user as provenance stores it, in text that PostgreSQL can store."""
    values = verdict.model_dump(mode="json")
    for part in (values, *values["mistakes"]):
        part |= {name: clean_text(value)[:2_000] for name, value in part.items() if isinstance(value, str)}
    return values


def fill_trajectory(row: Trajectory, attempt: Attempt, provenance: dict[str, Any]) -> None:
    """Set how an attempt ended, its reward and the split of its time."""
    row.live = False
    row.conversational, row.seed, row.now = attempt.conversational, attempt.seed, attempt.now
    row.user_fault = attempt.user_fault
    row.outcome, row.user_error, row.note = attempt.outcome, attempt.user_error, clean_text(attempt.note)[:10_000]
    if attempt.reward is not None:
        row.reward, row.passed, row.total = attempt.reward.reward, attempt.reward.passed, attempt.reward.total
    row.answer, row.final_hash = clean_text(attempt.answer), attempt.final_hash
    if attempt.timing != Timing():
        row.environment_s, row.agent_s = attempt.timing.environment_s, attempt.timing.agent_s
        row.user_s, row.verification_s = attempt.timing.user_s, attempt.timing.verification_s
    row.tokens = attempt.usage.prompt_tokens + attempt.usage.completion_tokens or None
    row.provenance = provenance
    if attempt.disturbance.is_on:
        disturbance = attempt.disturbance.model_dump(mode="json") | {"seed": clean_text(attempt.disturbance_seed)[:400]}
        row.provenance = provenance = provenance | {"disturbance": disturbance}
    if attempt.user_tools:
        row.provenance = provenance = provenance | {
            "user_tools": [clean_text(name)[:200] for name in attempt.user_tools]
        }
    if attempt.user_verdict is not None:
        row.provenance = provenance | {"user_verdict": serialize_verdict(attempt.user_verdict)}
