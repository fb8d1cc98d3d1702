"""A rollout's job: concurrent attempts in one event loop, stored by a few threads, published to the pages that
follow."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings
from django.db import Error, connection

from synthesis.contracts import Attempt, State, TrajectoryStep
from synthesis.errors import InfrastructureError
from synthesis.rollout import Plan, run_attempts
from synthesis.runtime import Sandbox
from webapp.common.claims import StaleClaim
from webapp.common.events.throttle import Throttle
from webapp.endpoints.connections import open_connection
from webapp.jobs.claims import Cancelled
from webapp.jobs.context import JobContext
from webapp.trajectories.matrix import compute_small_matrix
from webapp.trajectories.models import AttemptState, Rollout, Trajectory
from webapp.trajectories.rollouts.attempt_writer import Recorder
from webapp.trajectories.rollouts.plans import PreparedRollout, build_plans, prepare_rollout
from webapp.trajectories.rollouts.queries import build_summary
from webapp.trajectories.rollouts.second_execution import is_sampled, verify_attempt

if TYPE_CHECKING:
    from synthesis.llm.client import Connection

logger = logging.getLogger(__name__)

WRITERS = 3
TRIES = 3
"""An attempt is begun so often where its sandbox is lost."""
TELL_SECONDS = 0.2
LOOK_SECONDS = 0.4
T = TypeVar("T")


@dataclass
class RolloutRun:
    """One claim of a rollout while it runs. Frequent writes are published a few times a second."""

    sandbox: Sandbox
    recorder: Recorder
    context: JobContext
    writers: ThreadPoolExecutor
    differing: list[str] = field(default_factory=list)
    """What a second execution of some attempts gave otherwise."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    throttle: Throttle = field(default_factory=lambda: Throttle(TELL_SECONDS))

    async def write(self, work: Callable[..., T], *given: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.writers, _run_and_release, work, *given)

    def note(self, trajectory: int | None) -> None:
        self.throttle.note(f"job:{self.recorder.rollout.job_id}")
        if trajectory is not None:
            self.throttle.note(f"trajectory:{trajectory}")


def _run_and_release(work: Callable[..., T], *given: Any) -> T:
    """Run in a writer's thread, and return its connection to the pool afterwards."""
    try:
        return work(*given)
    finally:
        connection.close()


def run_rollout(sandbox: Sandbox, context: JobContext) -> dict[str, Any]:
    """Make every attempt that is not done yet.

    Raises Cancelled once the running ones have stopped, InfrastructureError if some failed for a reason other than the
    agent: a retry makes these again.
    """
    rows = Rollout.objects.select_related("task__environment", "revision__scenario__version")
    rollout = rows.get(job_id=context.job_id)
    recorder = Recorder(rollout, context.claim)
    ordinals = recorder.take()
    prepared = prepare_rollout(rollout)
    connection.close()
    try:
        # The writers end before `abandon` runs, so that it sees an attempt that was just being started.
        with ThreadPoolExecutor(WRITERS, thread_name_prefix="rollout-writer") as writers:
            run = RolloutRun(sandbox, recorder, context, writers)
            asyncio.run(_run_with_connections(run, prepared, ordinals))
    except StaleClaim:
        raise
    except BaseException as error:
        with contextlib.suppress(StaleClaim, Error):
            recorder.abandon(f"The job ended before the attempt did: {type(error).__name__}.")
        raise
    return _build_result(rollout, context) | _build_difference_report(run)


async def _run_with_connections(run: RolloutRun, prepared: PreparedRollout, ordinals: list[int]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        agent = await _open_connection(stack, prepared.agent[0] if prepared.agent else None)
        user = agent if agent and prepared.user and prepared.agent and prepared.user[0] == prepared.agent[0] else None
        if user is None:
            user = await _open_connection(stack, prepared.user[0] if prepared.user else None)
        judge = await _open_connection(stack, prepared.judge[0] if prepared.judge else None)
        watch = asyncio.create_task(_watch_for_stop(run))
        try:
            for left in reversed(range(TRIES)):
                ordinals = await _make_attempts(run, build_plans(prepared, ordinals, agent, user, judge))
                if not left or not ordinals or run.stop.is_set():
                    break
                await run.write(run.recorder.put_back, ordinals)
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            await run.write(run.throttle.close)


async def _open_connection(stack: contextlib.AsyncExitStack, endpoint: Any) -> Connection | None:
    if endpoint is None:
        return None
    return await stack.enter_async_context(open_connection(endpoint))


async def _make_attempts(run: RolloutRun, planned: Any) -> list[int]:
    """Make the attempts; return the ordinals of those whose sandbox was lost, which may succeed on a second try."""
    recorder, lost = run.recorder, list[int]()

    async def on_start(plan: Plan, state: State) -> None:
        await run.write(recorder.begin, plan.ordinal, plan.policy.name, state)
        run.note(recorder.open[plan.ordinal].row.pk)

    async def on_step(plan: Plan, step: TrajectoryStep) -> None:
        await run.write(recorder.step, plan.ordinal, step)
        open_attempt = recorder.open.get(plan.ordinal)
        run.note(open_attempt.row.pk if open_attempt else None)

    matrices: set[asyncio.Task[None]] = set()
    finished_attempts = run_attempts(
        run.sandbox, planned, at_once=settings.ROLLOUTS_AT_ONCE, on_start=on_start, on_step=on_step, stop=run.stop
    )
    async for attempt in finished_attempts:
        row = await run.write(recorder.finish, attempt)
        run.note(row.pk)
        if attempt.sandbox_lost:
            lost.append(attempt.ordinal)
            continue
        matrices.add(asyncio.create_task(_examine_attempt(run, row, attempt)))
        matrices = {task for task in matrices if not task.done()}
    await asyncio.gather(*matrices)
    return lost


async def _examine_attempt(run: RolloutRun, row: Trajectory, attempt: Attempt) -> None:
    """Compute the verdicts of every check after every step, and for a sample execute the calls again; the trajectory is
    complete without either."""
    rollout = run.recorder.rollout
    if row.final_hash:
        await run.write(compute_small_matrix, run.sandbox, row)
        run.note(row.pk)
    if is_sampled(rollout.pk, attempt.ordinal, rollout.total):
        words = await run.write(verify_attempt, run.sandbox, row, rollout.revision, attempt)
        if words:
            run.differing.append(words)
            run.note(row.pk)


def _build_difference_report(run: RolloutRun) -> dict[str, Any]:
    """Return the part of the job's result on attempts whose second execution differed."""
    return {"differing": len(run.differing), "first_difference": run.differing[0]} if run.differing else {}


async def _watch_for_stop(run: RolloutRun) -> None:
    """Stop the attempts once a person asked for it, or another worker holds the job."""
    while True:
        try:
            await run.write(run.context.check)
        except (Cancelled, StaleClaim):
            run.stop.set()
            return
        except Error as error:
            logger.warning("job %s: %s", run.context.job_id, error)
        await asyncio.sleep(LOOK_SECONDS)


def _build_result(rollout: Rollout, context: JobContext) -> dict[str, Any]:
    """Return the job's result in numbers. Raises Cancelled, InfrastructureError."""
    summary = build_summary(rollout)
    lost = [row for row in summary.lines if row.state == AttemptState.INFRA_ERROR]
    if len(summary.lines) > summary.done + len(lost):
        context.check()
        raise InfrastructureError("Not all attempts were made. Press Retry for those that are missing.")
    if lost:
        notes = [row.trajectory.note for row in lost if row.trajectory and row.trajectory.note]
        first = notes[0] if notes else "no reason was kept"
        raise InfrastructureError(
            f"{len(lost)} of {rollout.total} attempts say nothing about the agent: something of ours or the endpoint "
            f"failed. They have no reward; Retry makes only these again. The first one: {first[:1_000]}"
        )
    return {
        "attempts": rollout.total,
        "solved": summary.solved,
        "mean_reward": summary.mean_reward,
        **{f"outcome_{name}": count for name, count in summary.outcomes},
    }
