"""Lane: one job's event loop over a batch's items, many at a time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import Error, connection

from synthesis.errors import InputError, LLMError, SpendCapReached
from synthesis.llm.cost import CostMeter
from synthesis.runtime import Sandbox
from synthesis.stages import Pipeline
from webapp.batches.engine import item_state
from webapp.batches.engine.barrier_groups import pass_due_barrier
from webapp.batches.engine.call_store import CallWriter
from webapp.batches.engine.cast import Cast, build_cast, has_other_models, open_cast_models
from webapp.batches.engine.item import run_item
from webapp.batches.engine.item_state import OPEN, StageEnding
from webapp.batches.engine.lane_context import BatchStopped, EndpointAway, LaneContext, run_and_release
from webapp.batches.engine.lane_queue import close_finished_lane, close_lost_lane, finish_batch, stop_batch
from webapp.batches.engine.results import end_items
from webapp.batches.engine.shifts import begin_shift, extend_shift
from webapp.batches.engine.write_batcher import AWAY, WriteBatcher
from webapp.batches.models import Batch, BatchItem, BatchLane, BatchState, ItemState
from webapp.batches.spec import BatchSettings
from webapp.common.claims import StaleClaim
from webapp.common.events.services import publish_topics
from webapp.common.events.throttle import Throttle
from webapp.jobs.claims import Cancelled, JobClaim
from webapp.jobs.context import JobContext

logger = logging.getLogger(__name__)

SANDBOX_THREADS = 8
DATABASE_THREADS = 3
SAVERS = 2
LOOK_SECONDS = 0.5
CAST_LOOKS = 6
"""At each so manieth look it is seen whether endpoints were changed or deleted."""
SHIFT_LOOKS = 6
"""At each so manieth look it is noted that the lane is still there."""
TELL_SECONDS = 0.3
STOPPED = "Its job was stopped. Resume it to go on."
GRACE_SECONDS = 20.0
"""Time for calls in flight to end, and be stored, once the batch is to pause."""
LANE_SHARE = 0.75
"""Another job takes over after so much of the time that a job may take."""


@dataclass
class Lane:
    """One claim of a batch while it runs."""

    shared: LaneContext
    context: JobContext
    played: Cast
    tasks: dict[asyncio.Task[None], BatchItem] = field(default_factory=dict)
    throttle: Throttle = field(default_factory=lambda: Throttle(TELL_SECONDS))
    cancelled: bool = False
    fault: BaseException | None = None

    def notify_followers(self) -> None:
        """Notify the clients that follow the batch, a few times a second at most."""
        self.throttle.note(f"batch:{self.shared.batch}")


def run_lane(sandbox: Sandbox, context: JobContext, pipeline: Pipeline) -> dict[str, Any]:
    """Work on the batch of this job. Raises Cancelled if a person stopped the job, which pauses the batch."""
    batch = Batch.objects.get(pk=context.payload["batch"])
    claim = context.claim
    try:
        item_state.release_items(claim)  # what an earlier attempt of this job held
        BatchLane.objects.filter(job_id=context.job_id).update(over=False)
        if batch.state == BatchState.RUNNING:
            begin_shift(claim, batch.pk)
            settings = BatchSettings.model_validate(batch.settings)
            _run_event_loop(sandbox, context, pipeline, batch, claim, settings, build_cast(settings))
        close_finished_lane(batch.pk, context.job_id)
    except StaleClaim:
        raise
    except Cancelled:
        item_state.release_items(claim)
        close_lost_lane(batch.pk, context.job_id, STOPPED, BatchState.PAUSED)
        raise
    except AWAY as error:  # nothing can be written: the lease brings the job back
        raise StaleClaim(f"Job {context.job_id}: the database went away ({error}).") from error
    except BaseException as error:
        with contextlib.suppress(Error):
            item_state.release_items(claim)
            close_lost_lane(batch.pk, context.job_id, f"{type(error).__name__}: {error}. Resume it to try again.")
        raise
    finally:
        with contextlib.suppress(Error):
            publish_topics([f"batch:{batch.pk}"])
    state = Batch.objects.values_list("state", flat=True).get(pk=batch.pk)
    ended = {"items_kept": batch.items.filter(state=ItemState.KEPT).count()} if state == BatchState.DONE else {}
    return {"batch": batch.pk, "state": state, **ended}


def close_lane(job: int) -> None:
    """Clean up after a job that ended without its worker."""
    lane = BatchLane.objects.filter(job_id=job).first()
    if lane is None:
        return
    item_state.release_orphans(lane.batch_id)
    if lane.job.cancel_requested:
        close_lost_lane(lane.batch_id, job, STOPPED, BatchState.PAUSED)
    else:
        close_lost_lane(lane.batch_id, job, f"The worker of job {job} was lost too often. Resume the batch to go on.")


def _run_event_loop(
    sandbox: Sandbox,
    context: JobContext,
    pipeline: Pipeline,
    batch: Batch,
    claim: JobClaim,
    settings: BatchSettings,
    played: Cast,
) -> None:
    with (
        ThreadPoolExecutor(SANDBOX_THREADS, thread_name_prefix="batch-sandbox") as threads,
        ThreadPoolExecutor(DATABASE_THREADS, thread_name_prefix="batch-database") as database,
        ThreadPoolExecutor(SAVERS, thread_name_prefix="batch-savers") as savers,
        ThreadPoolExecutor(1, thread_name_prefix="batch-calls") as calls,
    ):
        connection.close()

        def write_endings(endings: list[StageEnding]) -> list[Exception | None]:
            return run_and_release(end_items, claim, pipeline.first, endings)

        async def run_with_models() -> None:
            meter = CostMeter(played.prices, batch.cap, batch.spent + batch.assumed)
            async with contextlib.AsyncExitStack() as stack:
                models = await open_cast_models(played, stack)
                shared = LaneContext(
                    batch=batch.pk,
                    claim=claim,
                    pipeline=pipeline,
                    settings=settings,
                    sandbox=sandbox,
                    models=models,
                    names=played.names,
                    writer=CallWriter(batch.pk, context.job_id, calls, meter),
                    meter=meter,
                    threads=threads,
                    database=database,
                    savers=savers,
                    endings=WriteBatcher(database, write_endings),
                    stop=asyncio.Event(),
                )
                meter.watch = shared.watch
                await _run_lane_loop(Lane(shared, context, played))

        asyncio.run(run_with_models())


async def _run_lane_loop(lane: Lane) -> None:
    shared = lane.shared
    shared.told = shared.writer.tell_change = lane.notify_followers
    watch = asyncio.create_task(_watch_batch(lane))
    until = time.monotonic() + LANE_SHARE * settings.JOB_LIMIT_SECONDS
    try:
        while not shared.stop.is_set():
            if time.monotonic() > until:
                shared.stop.set()
                break
            more = await _start_items(lane)
            if not more and not await _proceed_without_items(lane):
                break
            await _collect_ended_tasks(lane, LOOK_SECONDS if lane.tasks and not more else 0)
    finally:
        try:
            await _drain_tasks(lane)  # also after a fault here: no task may go on once its items are given back
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            await shared.writer.gathered.drain()
            await shared.endings.drain()
            await shared.write(item_state.release_items, shared.claim)
            await shared.write(extend_shift, shared.claim)
            await shared.write(lane.throttle.close)
    if lane.fault is not None:
        raise lane.fault
    if lane.cancelled:
        raise Cancelled(f"Job {shared.claim.row} was asked to stop.")


async def _start_items(lane: Lane) -> bool:
    """Start as many items as there is room for; return whether there was one."""
    shared = lane.shared
    room = shared.settings.at_once - len(lane.tasks)
    if room <= 0:
        return False
    items = await shared.write(item_state.claim_items, shared.claim, shared.batch, room, shared.barriers)
    for item in items:
        lane.tasks[asyncio.create_task(run_item(shared, item))] = item
    if items:
        lane.notify_followers()
    return bool(items)


async def _proceed_without_items(lane: Lane) -> bool:
    """Pass a barrier, end the batch, or wait, if no item can be taken; return whether the lane goes on."""
    shared = lane.shared
    batch = shared.batch
    if len(lane.tasks) >= shared.settings.at_once:
        return True
    if await _pass_barrier_or_stop(lane):
        return True
    if lane.tasks:
        return True
    if await shared.write(_finish_if_done, batch):
        return False
    await asyncio.sleep(LOOK_SECONDS)
    return True


async def _pass_barrier_or_stop(lane: Lane) -> bool:
    """Pass a barrier if one is due; return whether the lane goes on. Errors that end the lane stop it as an item's call
    would."""
    shared = lane.shared
    try:
        return await pass_due_barrier(shared)
    except BatchStopped:
        return True
    except SpendCapReached as error:
        await shared.write(_stop_at_cap, shared, 0, str(error), shared.meter.cap)
    except EndpointAway as error:
        await shared.write(_pause_for_endpoint, shared, 0, error)
    shared.stop.set()
    return True


def _finish_if_done(batch: int) -> bool:
    """Return whether nothing is left to do; the batch is then done."""
    item_state.release_orphans(batch)
    return finish_batch(batch)


async def _collect_ended_tasks(lane: Lane, seconds: float) -> None:
    """Collect ended tasks and their errors, waiting up to `seconds` for one."""
    if not lane.tasks:
        return
    done, _ = await asyncio.wait(lane.tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        item = lane.tasks.pop(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            continue
        if isinstance(error, SpendCapReached):
            await lane.shared.write(_stop_at_cap, lane.shared, item.pk, str(error), lane.shared.meter.cap)
        elif isinstance(error, EndpointAway):
            await lane.shared.write(_pause_for_endpoint, lane.shared, item.pk, error)
        elif not isinstance(error, BatchStopped):
            lane.fault = lane.fault or error
        lane.shared.stop.set()


def _stop_at_cap(shared: LaneContext, item: int, why: str, cap: float | None) -> None:
    """Stop the batch at its cap, unless the cap was raised meanwhile: then the following lane continues with it."""
    item_state.release_item(shared.claim, item)
    if Batch.objects.filter(pk=shared.batch, cap=cap).exists():
        stop_batch(shared.batch, BatchState.CAPPED, why)


def _pause_for_endpoint(shared: LaneContext, item: int, error: EndpointAway) -> None:
    """Return the item to waiting, and pause the batch until its endpoint answers (`awaited_endpoints.py`)."""
    item_state.release_item(shared.claim, item)
    why = f"Paused: endpoint unreachable. {error} The batch continues automatically when it answers again."
    stop_batch(shared.batch, BatchState.PAUSED, why, away=error.endpoint)


async def _drain_tasks(lane: Lane) -> None:
    """Let calls in flight end for a grace period, then cancel the tasks."""
    lane.shared.stop.set()
    until = time.monotonic() + GRACE_SECONDS
    while lane.tasks and time.monotonic() < until:
        await _collect_ended_tasks(lane, 0.2)
    for task in lane.tasks:
        task.cancel()
    await asyncio.gather(*lane.tasks, return_exceptions=True)


async def _watch_batch(lane: Lane) -> None:
    """Stop the lane once the batch no longer runs, a person stopped the job, or another worker holds it."""
    shared = lane.shared
    for look in itertools.count():
        try:
            await shared.write(lane.context.check)
            if look % CAST_LOOKS == 0 and await shared.write(
                _has_cast_changed, shared.batch, shared.settings, lane.played
            ):
                shared.stop.set()
            state, shared.meter.cap = await shared.write(_read_state_and_cap, shared.batch)
            if state != BatchState.RUNNING:
                shared.stop.set()
            await shared.write(_report_progress, shared.claim, shared.batch)
            if look % SHIFT_LOOKS == 0:
                await shared.write(extend_shift, shared.claim)
        except Cancelled:
            lane.cancelled = True
            shared.stop.set()
            return
        except StaleClaim as error:
            lane.fault = error
            shared.stop.set()
            return
        except Error as error:
            logger.warning("batch %s: %s", shared.batch, error)
        await asyncio.sleep(LOOK_SECONDS)


def _read_state_and_cap(batch: int) -> tuple[str | None, float | None]:
    """Return (state, cap): both may change before a lane has seen that the batch stopped."""
    return Batch.objects.filter(pk=batch).values_list("state", "cap").first() or (None, None)


def _has_cast_changed(batch: int, settings: BatchSettings, played: Cast) -> bool:
    """Return whether the cast changed, so that another lane begins with the new one. Pauses the batch if a model is
    gone."""
    try:
        return has_other_models(build_cast(settings), played)
    except InputError as error:
        stop_batch(batch, BatchState.PAUSED, str(error))
        return True
    except LLMError:  # its name cannot be resolved now, which its requests will report
        return False


def _report_progress(claim: JobClaim, batch: int) -> None:
    items = BatchItem.objects.filter(batch_id=batch)
    done = items.exclude(state__in=OPEN).count()
    claim.advance(done, items.count())
