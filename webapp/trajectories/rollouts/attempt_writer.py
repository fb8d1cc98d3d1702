"""Attempts into rows while they are made. Every write names the claim of the job; a stale one writes nothing."""

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
from synthesis.formats.values import clean
from synthesis.runtime.encoding import apply_patch
from webapp.claims import StaleClaim
from webapp.content_store import content_hash
from webapp.jobs.claims import JobClaim
from webapp.scenarios.models import Task
from webapp.trajectories.comparison import same_observation
from webapp.trajectories.models import AttemptState, ReplayState, Rollout, RolloutAttempt, Trajectory
from webapp.trajectories.steps import ExecutedStep, add_score, keep_state, step_row, tool_kinds
from webapp.trajectories.text_search.text_rows import TextWords, delete_text, write_text, write_words
from webapp.trajectories.totals import StepCounts, counted

logger = logging.getLogger(__name__)

SOURCE = "rollout"
STATES = {"infra_error": AttemptState.INFRA_ERROR, "cancelled": AttemptState.CANCELLED}


@dataclass
class OpenAttempt:
    """An attempt under way: its row, the state after its last step, what it has done so far and the words of that."""

    row: Trajectory
    state: State | None
    counts: StepCounts = field(default_factory=StepCounts)
    words: TextWords = field(default_factory=TextWords)


class Recorder:
    """Writes one rollout under one claim; called from several threads.

    An attempt that is stopped in the middle of a write may be finished by another thread at once: each has a lock.
    """

    def __init__(self, rollout: Rollout, claim: JobClaim) -> None:
        self.rollout = rollout
        self.claim = claim
        self.kinds = tool_kinds(rollout.revision)
        self.open: dict[int, OpenAttempt] = {}
        self.locks: dict[int, threading.Lock] = {}

    def take(self) -> list[int]:
        """Claim every attempt that is not done, and give their ordinals. Who held them before writes nothing more."""
        with transaction.atomic():
            self.claim.require_held()
            mine = self.rollout.attempts.filter(~Q(state=AttemptState.DONE))
            mine.update(claim=self.claim.number, state=AttemptState.WAITING)
            ordinals = list(mine.order_by("ordinal").values_list("ordinal", flat=True))
        self.locks = {ordinal: threading.Lock() for ordinal in ordinals}
        return ordinals

    def begin(self, ordinal: int, policy: str, initial: State | None) -> None:
        """The attempt has started: its trajectory is there from now on, empty of what an earlier start left."""
        with self.locks[ordinal]:
            self._begin(ordinal, policy, initial)

    def _begin(self, ordinal: int, policy: str, initial: State | None) -> None:
        with self._write(ordinal, AttemptState.WAITING) as attempt:
            row = attempt.trajectory or self._new(ordinal)
            with counted(row, self.rollout.task.environment_id):
                if row.pk:
                    row.steps.all().delete()
                    delete_text(row)
                blank(row, policy)
                row.save()
            attempt.state, attempt.trajectory = AttemptState.RUNNING, row
            attempt.save(update_fields=["state", "trajectory"])
        self.open[ordinal] = OpenAttempt(row, initial)

    def step(self, ordinal: int, step: TrajectoryStep) -> None:
        """One step as it was made, with its state where one is due."""
        with self.locks[ordinal]:
            running = self.open.get(ordinal)
            if running is not None:
                self._add(ordinal, running, step)

    def _add(self, ordinal: int, running: OpenAttempt, step: TrajectoryStep) -> None:
        """Write a step. One that the database refuses, or whose patch does not fit, is kept without its result: the
        other attempts of the rollout must not go down with it."""
        try:
            self._put(ordinal, running, step)
        except (DataError, StateError) as error:
            logger.warning(
                "rollout %s, attempt %s: a step is kept without its result: %s", self.rollout, ordinal, error
            )
            message = f"The result of this call could not be stored: {clean(str(error))[:500]}"
            result = CallResult(ok=False, error=CallError(kind="unencodable", message=message))
            self._put(ordinal, running, step.model_copy(update={"result": result, "observation": message}))

    def _put(self, ordinal: int, running: OpenAttempt, step: TrajectoryStep) -> None:
        played = played_of(step)
        state = running.state or {}
        if played.patch:
            state = apply_patch(state, played.patch)
        counts = running.counts
        keep_state(played, counts.steps, lambda: state)
        with self._write(ordinal, AttemptState.RUNNING):
            made = step_row(running.row, counts.steps, played, self.kinds)
            made.save()
            running.state = state
            running.words.add_step(made)
            counts.add(step, step.result)
            running.row.save(update_fields=counts.put(running.row))

    def finish(self, attempt: Attempt) -> Trajectory:
        """How the attempt ended, what it earned and where its time went."""
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
            with counted(row, self.rollout.task.environment_id):
                fill(row, attempt, self.provenance(attempt))
                row.record = record_of(self.rollout.task, attempt)
                row.save()
                write_words(row, running.words)
                if attempt.reward is not None:
                    add_score(row, revision, attempt.reward, SOURCE)
            mine.state = STATES.get(attempt.outcome, AttemptState.DONE)
            mine.save(update_fields=["state"])
            self._tell_progress()
        del self.open[attempt.ordinal]

    def put_back(self, ordinals: list[int]) -> None:
        """Attempts that ended by a fault of ours may be begun again."""
        with transaction.atomic():
            self.claim.require_held()
            mine = self.rollout.attempts.filter(ordinal__in=ordinals, claim=self.claim.number)
            mine.filter(state=AttemptState.INFRA_ERROR).update(state=AttemptState.WAITING)

    def abandon(self, why: str) -> None:
        """The job ends early: what is under way says so, and is begun again by a retry."""
        for ordinal, running in list(self.open.items()):
            with self.locks[ordinal], self._write(ordinal, AttemptState.RUNNING) as mine:
                _break_off(mine, running.row, AttemptState.INFRA_ERROR, why)
            del self.open[ordinal]

    def provenance(self, attempt: Attempt) -> dict[str, Any]:
        """What the attempt was made with and how it went, for people and for training data."""
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
        """A transaction that holds the attempt's row. Raises StaleClaim where it is not ours, or not in `state`."""
        with transaction.atomic():
            self.claim.require_held()
            rows = RolloutAttempt.objects.select_for_update(of=("self",)).select_related("trajectory")
            mine = rows.filter(rollout=self.rollout, ordinal=ordinal, claim=self.claim.number, state=state).first()
            if mine is None:
                raise StaleClaim(f"Attempt {ordinal} of job {self.rollout.job_id} belongs to another worker by now.")
            yield mine

    def _tell_progress(self) -> None:
        done = self.rollout.attempts.exclude(state__in=[AttemptState.WAITING, AttemptState.RUNNING]).count()
        self.claim.advance(done, self.rollout.total)


@transaction.atomic
def close_rollout(job_id: int) -> None:
    """The job has ended without its worker: what was under way is not, and a retry begins it again."""
    rows = RolloutAttempt.objects.select_for_update(of=("self",)).select_related("trajectory", "rollout__job")
    for attempt in rows.filter(rollout__job_id=job_id, trajectory__live=True):
        if attempt.trajectory is not None and not attempt.rollout.job.is_open:
            cancelled = attempt.rollout.job.cancel_requested
            state = AttemptState.CANCELLED if cancelled else AttemptState.INFRA_ERROR
            _break_off(attempt, attempt.trajectory, state, "The worker that made this attempt was lost.")


def _break_off(attempt: RolloutAttempt, row: Trajectory, state: AttemptState, why: str) -> None:
    """Within a transaction that holds the attempt."""
    with counted(row, row.environment_id):
        row.live, row.outcome, row.note = False, str(state), clean(why)[:2_000]
        row.save()
        write_text(row)
    attempt.state = state
    attempt.save(update_fields=["state"])


def played_of(step: TrajectoryStep) -> ExecutedStep:
    """A step of the loop as the replay's, in text that PostgreSQL holds.

    What the agent read is kept where it is not simply the result: an error's words, or a text that was cut.
    """
    result: CallResult | None = step.result
    shown = clean(step.observation)
    simple = result is not None and result.ok and same_observation(shown, result)
    kept = run_step(step, None if simple or not shown else shown)
    return ExecutedStep(kept, step.arguments, result, None, list(result.patch) if result else [])


def record_of(task: Task, attempt: Attempt) -> dict[str, Any]:
    """The run as an export gives it, which can be imported, and beside it the conversation as the agent saw it.

    Calls that never reached the environment stand in the conversation alone: a replay would execute them. The accepted
    answer is marked, so that both know it.
    """
    kept = [step for step in attempt.steps if not _refused(step)]
    run = RunRecord(
        environment_key=task.environment.key,
        task_key=task.key,
        policy=clean(attempt.policy)[:200],
        conversational=attempt.conversational,
        steps=tuple(run_step(step, clean(step.observation)) for step in kept),
        recorded_reward=attempt.reward.reward if attempt.reward else None,
        truncated=attempt.outcome == "truncated",
    )
    seen = [message.model_dump(mode="json", exclude_defaults=True) for message in attempt.messages]
    return run_to_envscaler(run) | {"conversation": seen}


def _refused(step: TrajectoryStep) -> bool:
    error = step.result.error if step.result else None
    return error is not None and error.kind in (*UNREACHED, "bad_arguments")


def run_step(step: TrajectoryStep, observation: str | None) -> RunStep:
    return RunStep(
        kind=step.kind,
        turn=step.turn,
        content=clean(step.content),
        reasoning=clean(step.reasoning),
        cut=step.cut[:12],
        tool=clean(step.tool)[:200],
        arguments=step.arguments,
        recorded=observation,
        executed=step.result is None or step.result.executed,
        injected=step.injected,
        by=step.by,
    )


def blank(row: Trajectory, policy: str) -> None:
    """A trajectory that begins: what an earlier start left is gone."""
    row.live, row.starts, row.created_at = True, row.starts + 1, timezone.now()
    row.policy, row.replay = clean(policy)[:200], ReplayState.MADE_HERE
    row.outcome, row.reward, row.passed, row.total = "", None, None, None
    row.answer = row.note = row.final_hash = row.matrix_hash = row.failure = ""
    row.tokens = None
    row.matrix, row.user_error, row.user_fault, row.provenance = None, False, "", {}
    StepCounts().put(row)
    row.environment_s = row.agent_s = row.user_s = row.verification_s = None


def tell_verdict(verdict: UserVerdict) -> dict[str, Any]:
    """Return a verdict on the simulated user as provenance keeps it, in text that PostgreSQL holds."""
    told = verdict.model_dump(mode="json")
    for part in (told, *told["mistakes"]):
        part |= {name: clean(value)[:2_000] for name, value in part.items() if isinstance(value, str)}
    return told


def fill(row: Trajectory, attempt: Attempt, provenance: dict[str, Any]) -> None:
    """How an attempt ended, what it earned and where its time went."""
    row.live = False
    row.conversational, row.seed, row.now = attempt.conversational, attempt.seed, attempt.now
    row.user_fault = attempt.user_fault
    row.outcome, row.user_error, row.note = attempt.outcome, attempt.user_error, clean(attempt.note)[:10_000]
    if attempt.reward is not None:
        row.reward, row.passed, row.total = attempt.reward.reward, attempt.reward.passed, attempt.reward.total
    row.answer, row.final_hash = clean(attempt.answer), attempt.final_hash
    if attempt.timing != Timing():
        row.environment_s, row.agent_s = attempt.timing.environment_s, attempt.timing.agent_s
        row.user_s, row.verification_s = attempt.timing.user_s, attempt.timing.verification_s
    row.tokens = attempt.usage.prompt_tokens + attempt.usage.completion_tokens or None
    row.provenance = provenance
    if attempt.disturbance.is_on:
        told = attempt.disturbance.model_dump(mode="json") | {"seed": clean(attempt.disturbance_seed)[:400]}
        row.provenance = provenance = provenance | {"disturbance": told}
    if attempt.user_tools:
        row.provenance = provenance = provenance | {"user_tools": [clean(name)[:200] for name in attempt.user_tools]}
    if attempt.user_verdict is not None:
        row.provenance = provenance | {"user_verdict": tell_verdict(attempt.user_verdict)}
