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
from webapp.batches.engine.cast import Cast, cast, models_of, plays_otherwise
from webapp.batches.engine.item import BatchStopped, EndpointAway, LaneContext, released, work
from webapp.batches.engine.item_state import OPEN, StageEnding
from webapp.batches.engine.lane_jobs import carry_on, finish, lane_lost, stand_still
from webapp.batches.engine.results import end_items
from webapp.batches.engine.shifts import begin_shift, extend_shift
from webapp.batches.engine.write_batcher import AWAY, WriteBatcher
from webapp.batches.models import Batch, BatchItem, BatchLane, BatchState, ItemState
from webapp.batches.spec import BatchSettings
from webapp.claims import StaleClaim
from webapp.events.services import publish
from webapp.events.throttle import Throttle
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
"""So long may calls in flight end, and be stored, once the batch is to stand still."""
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

    def tell(self) -> None:
        """Tell who follows the batch, a few times a second at most."""
        self.throttle.note(f"batch:{self.shared.batch}")


def run_lane(sandbox: Sandbox, context: JobContext, pipeline: Pipeline) -> dict[str, Any]:
    """Work on the batch of this job. Raises Cancelled where a person stopped the job, which pauses the batch."""
    batch = Batch.objects.get(pk=context.payload["batch"])
    claim = context.claim
    try:
        item_state.release(claim)  # what an earlier attempt of this job held
        BatchLane.objects.filter(job_id=context.job_id).update(over=False)
        if batch.state == BatchState.RUNNING:
            begin_shift(claim, batch.pk)
            settings = BatchSettings.model_validate(batch.settings)
            _work(sandbox, context, pipeline, batch, claim, settings, cast(settings))
        carry_on(batch.pk, context.job_id)
    except StaleClaim:
        raise
    except Cancelled:
        item_state.release(claim)
        lane_lost(batch.pk, context.job_id, STOPPED, BatchState.PAUSED)
        raise
    except AWAY as error:  # nothing can be written down: the lease brings the job back
        raise StaleClaim(f"Job {context.job_id}: the database went away ({error}).") from error
    except BaseException as error:
        with contextlib.suppress(Error):
            item_state.release(claim)
            lane_lost(batch.pk, context.job_id, f"{type(error).__name__}: {error}. Resume it to try again.")
        raise
    finally:
        with contextlib.suppress(Error):
            publish([f"batch:{batch.pk}"])
    state = Batch.objects.values_list("state", flat=True).get(pk=batch.pk)
    ended = {"items_kept": batch.items.filter(state=ItemState.KEPT).count()} if state == BatchState.DONE else {}
    return {"batch": batch.pk, "state": state, **ended}


def close_lane(job: int) -> None:
    """The job has ended without its worker."""
    lane = BatchLane.objects.filter(job_id=job).first()
    if lane is None:
        return
    item_state.release_orphans(lane.batch_id)
    if lane.job.cancel_requested:
        lane_lost(lane.batch_id, job, STOPPED, BatchState.PAUSED)
    else:
        lane_lost(lane.batch_id, job, f"The worker of job {job} was lost too often. Resume the batch to go on.")


def _work(
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
            return released(end_items, claim, pipeline.first, endings)

        async def main() -> None:
            meter = CostMeter(played.prices, batch.cap, batch.spent + batch.assumed)
            async with contextlib.AsyncExitStack() as stack:
                models = await models_of(played, stack)
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
                await _run(Lane(shared, context, played))

        asyncio.run(main())


async def _run(lane: Lane) -> None:
    shared = lane.shared
    shared.told = shared.writer.tell_change = lane.tell
    watch = asyncio.create_task(_watch(lane))
    until = time.monotonic() + LANE_SHARE * settings.JOB_LIMIT_SECONDS
    try:
        while not shared.stop.is_set():
            if time.monotonic() > until:
                shared.stop.set()
                break
            more = await _take(lane)
            if not more and not await _idle(lane):
                break
            await _settle(lane, LOOK_SECONDS if lane.tasks and not more else 0)
    finally:
        try:
            await _drain(lane)  # also after a fault here: nothing of it may go on once its items are given back
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            await shared.writer.gathered.drain()
            await shared.endings.drain()
            await shared.write(item_state.release, shared.claim)
            await shared.write(extend_shift, shared.claim)
            await shared.write(lane.throttle.close)
    if lane.fault is not None:
        raise lane.fault
    if lane.cancelled:
        raise Cancelled(f"Job {shared.claim.row} was asked to stop.")


async def _take(lane: Lane) -> bool:
    """Begin on as many items as there is room for; whether there was one."""
    shared = lane.shared
    room = shared.settings.at_once - len(lane.tasks)
    if room <= 0:
        return False
    items = await shared.write(item_state.take, shared.claim, shared.batch, room, shared.barriers)
    for item in items:
        lane.tasks[asyncio.create_task(work(shared, item))] = item
    if items:
        lane.tell()
    return bool(items)


async def _idle(lane: Lane) -> bool:
    """Nothing can be taken: pass a barrier, end the batch, or wait. Whether the lane goes on."""
    shared = lane.shared
    batch = shared.batch
    if len(lane.tasks) >= shared.settings.at_once:
        return True
    if await _passed_barrier(lane):
        return True
    if lane.tasks:
        return True
    if await shared.write(_over, batch):
        return False
    await asyncio.sleep(LOOK_SECONDS)
    return True


async def _passed_barrier(lane: Lane) -> bool:
    """Group what waits at a barrier, if one is due. What ends the lane there stops it as an item's call would."""
    shared = lane.shared
    try:
        return await pass_due_barrier(shared)
    except BatchStopped:
        return True
    except SpendCapReached as error:
        await shared.write(_capped, shared, 0, str(error), shared.meter.cap)
    except EndpointAway as error:
        await shared.write(_away, shared, 0, error)
    shared.stop.set()
    return True


def _over(batch: int) -> bool:
    """Whether nothing is left to do; the batch is done then."""
    item_state.release_orphans(batch)
    return finish(batch)


async def _settle(lane: Lane, seconds: float) -> None:
    """Look at what has ended, waiting up to so long for it."""
    if not lane.tasks:
        return
    done, _ = await asyncio.wait(lane.tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        item = lane.tasks.pop(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            continue
        if isinstance(error, SpendCapReached):
            await lane.shared.write(_capped, lane.shared, item.pk, str(error), lane.shared.meter.cap)
        elif isinstance(error, EndpointAway):
            await lane.shared.write(_away, lane.shared, item.pk, error)
        elif not isinstance(error, BatchStopped):
            lane.fault = lane.fault or error
        lane.shared.stop.set()


def _capped(shared: LaneContext, item: int, why: str, cap: float | None) -> None:
    """Unless the cap was raised meanwhile: then the lane that follows goes on with it."""
    item_state.release_one(shared.claim, item)
    if Batch.objects.filter(pk=shared.batch, cap=cap).exists():
        stand_still(shared.batch, BatchState.CAPPED, why)


def _away(shared: LaneContext, item: int, error: EndpointAway) -> None:
    """The item waits where it was, and the batch for its endpoint (`awaited_endpoints.py`)."""
    item_state.release_one(shared.claim, item)
    why = f"Paused: endpoint unreachable. {error} The batch goes on by itself when it answers again."
    stand_still(shared.batch, BatchState.PAUSED, why, away=error.endpoint)


async def _drain(lane: Lane) -> None:
    """Let what is in flight end for a while, then break it off."""
    lane.shared.stop.set()
    until = time.monotonic() + GRACE_SECONDS
    while lane.tasks and time.monotonic() < until:
        await _settle(lane, 0.2)
    for task in lane.tasks:
        task.cancel()
    await asyncio.gather(*lane.tasks, return_exceptions=True)


async def _watch(lane: Lane) -> None:
    """Stop once the batch stands still, a person stopped the job, or another worker holds it."""
    shared = lane.shared
    for look in itertools.count():
        try:
            await shared.write(lane.context.check)
            if look % CAST_LOOKS == 0 and await shared.write(_recast, shared.batch, shared.settings, lane.played):
                shared.stop.set()
            state, shared.meter.cap = await shared.write(_state, shared.batch)
            if state != BatchState.RUNNING:
                shared.stop.set()
            await shared.write(_progress, shared.claim, shared.batch)
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


def _state(batch: int) -> tuple[str | None, float | None]:
    """(state, cap): both may change before a lane has seen that the batch stood still."""
    return Batch.objects.filter(pk=batch).values_list("state", "cap").first() or (None, None)


def _recast(batch: int, settings: BatchSettings, played: Cast) -> bool:
    """Whether somebody else plays by now: another lane begins with them. With a model that is gone it stands still."""
    try:
        return plays_otherwise(cast(settings), played)
    except InputError as error:
        stand_still(batch, BatchState.PAUSED, str(error))
        return True
    except LLMError:  # its name is not known just now, which is for its requests to say
        return False


def _progress(claim: JobClaim, batch: int) -> None:
    items = BatchItem.objects.filter(batch_id=batch)
    done = items.exclude(state__in=OPEN).count()
    claim.advance(done, items.count())
