"""Run of one item through its stages, each stored before the next begins."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from django.db import connection
from django.db.models import Q
from django.db.models.fields.json import KT

from synthesis import prompts
from synthesis.drafts import StageUsage
from synthesis.errors import (
    EnvariumError,
    InfrastructureError,
    InputError,
    LLMError,
    MalformedReply,
    Rejected,
    SandboxUnavailable,
)
from synthesis.errors import SpendCapReached as CapReached
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site
from synthesis.llm.cost import CostMeter
from synthesis.prompts.trial import trying
from synthesis.runtime import Sandbox
from synthesis.stages import ItemSpec, Kit, Level, Pipeline, Stage
from synthesis.themes.keys import theme_of
from webapp.batches.engine.attempts import SOLVING, attempts_of, kept_teacher, solver_runs, unkept, without_runs
from webapp.batches.engine.call_store import CallWriter, ItemStore
from webapp.batches.engine.cast import Models
from webapp.batches.engine.failure_advice import OF_OURS, advised
from webapp.batches.engine.item_state import StageEnding, release_one
from webapp.batches.engine.products import ABOVE, REJECTING, SAVERS, TRIED, SaveRequest, save_rejected
from webapp.batches.engine.provenance import notes, provenance
from webapp.batches.engine.stage_runs import SAVE, EndedStage, note_used
from webapp.batches.engine.theme_source import note_theme
from webapp.batches.engine.write_batcher import AWAY, WriteBatcher
from webapp.batches.models import BatchAttempt, BatchItem, BatchProduct, Body, StageRun, StageState
from webapp.batches.spec import BatchSettings
from webapp.claims import StaleClaim
from webapp.content_store import unpack
from webapp.jobs.claims import JobClaim

logger = logging.getLogger(__name__)
T = TypeVar("T")
TRIES = 3
"""Of a stage that lost a process of the sandbox: replies are stored, so another try costs little."""
AGAIN_SECONDS = 0.2
AMENDS = "amends"
"""Beside a stage's run: the earlier stage whose draft its own amends."""


class BatchStopped(EnvariumError):
    """The batch stands still from now on: what an item was doing is begun again later, from what is stored."""


class EndpointAway(EnvariumError):
    """An endpoint cannot be reached: the batch waits for it, and no item ends by that. `endpoint` is its name."""

    def __init__(self, endpoint: str, message: str) -> None:
        super().__init__(message)
        self.endpoint = endpoint


@dataclass
class LaneContext:
    """What all items of a lane share. `spent` gathers by path what the stage that runs there uses."""

    batch: int
    claim: JobClaim
    pipeline: Pipeline
    settings: BatchSettings
    sandbox: Sandbox
    models: Models
    names: dict[str, str]
    writer: CallWriter
    meter: CostMeter
    threads: Executor
    """For stages: the sandbox."""
    database: Executor
    savers: Executor
    """For what kept items become: sandbox and database."""
    endings: WriteBatcher[StageEnding]
    stop: asyncio.Event
    spent: dict[str, StageUsage] = field(default_factory=dict)
    told: Callable[[], None] = lambda: None

    async def write(self, work: Callable[..., T], *given: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.database, released, work, *given)

    def check_stop(self) -> None:
        if self.stop.is_set():
            raise BatchStopped("The batch was asked to stand still.")

    def watch(self, site: Site, spent: StageUsage) -> None:
        """A call was counted: it belongs to the nearest item at or above its place."""
        path = site.item
        while path not in self.spent and "/" in path:
            path = path.rpartition("/")[0]
        if path in self.spent:
            self.spent[path] = self.spent[path] + spent

    @property
    def barriers(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in self.pipeline.stages if stage.group is not None)


def released(work: Callable[..., T], *given: Any) -> T:
    """Run in a thread, which gives its connection back to the pool afterwards."""
    try:
        return work(*given)
    finally:
        connection.close()


async def work(shared: LaneContext, item: BatchItem) -> None:
    """Bring an item as far as it goes. Raises what ends the lane: CapReached, EndpointAway, SandboxUnavailable,
    StaleClaim."""
    try:
        known: dict[str, Any] = {}
        while item.stage != SAVE:
            shared.check_stop()
            stage = shared.pipeline.stage(item.stage)
            if not await _one_stage(shared, item, stage, known):
                return
        shared.check_stop()
        await _save(shared, item, known)
    except BatchStopped:
        await shared.write(release_one, shared.claim, item.pk)
    except StaleClaim as error:
        logger.warning("%s", error)
    finally:
        shared.told()


async def _one_stage(shared: LaneContext, item: BatchItem, stage: Stage, known: dict[str, Any]) -> bool:
    """Whether the item goes on here."""
    store = ItemStore(shared.writer, item.pk, shared.check_stop)
    spec = ItemSpec.model_validate(item.spec)

    async def act() -> Any:
        if (given := stage.given(spec)) is not None:
            return given
        assert stage.run is not None
        drafts = await _drafts(shared, item, stage.takes, known)
        return await stage.run(kit, spec, *drafts)

    kit = kit_of(shared, item, store)
    with prompts.noting() as filled, trying(shared.settings.prompts):
        ended = await _attempt(shared, item, stage.name, store, act)
    noted = {"roles": sorted(kit.noted.roles), "prompts": filled, "seeds": kit.noted.seeds}
    amended = stage.amendment(ended.output)
    noted |= {AMENDS: stage.amends} if amended else {}
    ended = replace(ended, used=noted)
    if item.level == "theme" and stage is shared.pipeline.stages[0]:
        await shared.write(note_theme, item, ended, shared.names)
    after = shared.pipeline.after(stage.name, shared.settings.stages, spec)
    following = after.name if after else SAVE
    barrier = after is not None and after.group is not None
    ended, attempt = await _with_attempt(shared, item, ended, known)
    tried = await _tried(shared, item, ended, known, attempt)
    kept = await _end(shared, StageEnding(item.pk, ended, following, barrier, attempt=attempt, attempts=tried))
    if not kept or barrier:
        return False
    known |= {stage.name: ended.output, **amended}
    item.stage = following
    return True


async def _with_attempt(
    shared: LaneContext, item: BatchItem, ended: EndedStage, known: dict[str, Any]
) -> tuple[EndedStage, int | None]:
    """Of an attempt that a filter rejects: the stored trajectory, so that it can be looked at. Where it cannot be
    stored the stage has failed, and is tried again."""
    if ended.state != StageState.REJECTED or ended.stage != REJECTING:
        return ended, None
    try:
        drafts = dict(zip(TRIED, await _drafts(shared, item, TRIED, known), strict=True))
        loop = asyncio.get_running_loop()
        return ended, await loop.run_in_executor(shared.savers, released, _kept_attempt, shared, item, drafts, ended)
    except (SandboxUnavailable, StaleClaim, *AWAY):
        raise
    except EnvariumError as error:
        message = f"The rejected attempt could not be stored: {error}"
        return replace(ended, state=StageState.FAILED, output=None, reason=_slug(error), message=message), None


async def _tried(
    shared: LaneContext, item: BatchItem, ended: EndedStage, known: dict[str, Any], attempt: int | None = None
) -> list[BatchAttempt]:
    """The attempts that an item made which does not get through; none of one that goes on."""
    if ended.state == StageState.KEPT or item.level not in ("task", "trajectory"):
        return []
    if attempt is not None:
        return [kept_teacher(item, attempt)]
    there = any(stage.name == SOLVING for stage in shared.pipeline.stages)
    lost = item.level == "task" and there and without_runs(ended)
    return unkept(item, ended, solver_runs(await _drafts(shared, item, (SOLVING,), known)) if lost else ())


def _kept_attempt(shared: LaneContext, item: BatchItem, drafts: dict[str, Any], ended: EndedStage) -> int:
    return save_rejected(_request(shared, item, drafts), ended).pk


async def _end(shared: LaneContext, ending: StageEnding) -> bool:
    """Whether the stage is kept: a draft that is too large to keep is not."""
    ended = ending.ended
    try:
        await shared.endings.do(ending)
    except InputError as error:  # too large to keep
        short = replace(ended, output=None, state=StageState.REJECTED, reason="too_large", message=str(error))
        await shared.endings.do(replace(ending, ended=short))
        return False
    return ended.state == StageState.KEPT


async def _attempt(
    shared: LaneContext, item: BatchItem, stage: str, store: ItemStore, act: Callable[[], Awaitable[Any]]
) -> EndedStage:
    """How a stage ended: a fact about the item, a failure that can be tried again, or a draft."""
    shared.spent[item.path] = StageUsage()
    began = time.monotonic()
    state, output, reason, message, key = StageState.KEPT, None, "", "", ""
    try:
        output = await _insisting(store, act)
    except (BatchStopped, CapReached):
        await _broken_off(shared, item, stage, time.monotonic() - began)
        raise
    except (SandboxUnavailable, StaleClaim, *AWAY):
        shared.spent.pop(item.path, None)
        raise
    except Rejected as error:
        state, reason, message, output = StageState.REJECTED, error.reason, str(error), error.evidence
        key = _named_call(error.evidence)
    except InputError as error:
        state, reason, message = StageState.REJECTED, "bad_input", str(error)
    except LLMError as error:
        key = error.call_key if isinstance(error, MalformedReply) else store.last_failed
        state, reason, message = StageState.FAILED, error.reason, advised(error)
    except EnvariumError as error:
        state, reason, message = StageState.FAILED, _slug(error), str(error)
    except Exception as error:  # the boundary around one item: the others go on
        logger.exception("item %s failed in %s", item.pk, stage)
        state, reason, message = StageState.FAILED, "fault", f"{type(error).__name__}: {error}. {OF_OURS}"
    await store.give_up(stage)
    if store.away is not None and state != StageState.KEPT:
        await _broken_off(shared, item, stage, time.monotonic() - began)
        raise EndpointAway(store.away.away, str(store.away))
    spent = shared.spent.pop(item.path)
    return EndedStage(
        stage=stage,
        state=state,
        output=output,
        reason=reason,
        message=message,
        call_key=key,
        calls=store.used,
        seconds=time.monotonic() - began,
        usage=spent.usage,
        replayed=spent.replayed,
        cost=spent.cost,
        unpriced=spent.unpriced,
    )


async def _broken_off(shared: LaneContext, item: BatchItem, stage: str, seconds: float) -> None:
    """What the stage has used by now is counted, or the funnel would not add up to what the batch spent."""
    spent = shared.spent.pop(item.path)
    if not spent.usage.requests:
        return
    ended = EndedStage(
        stage, StageState.KEPT, seconds=seconds, usage=spent.usage, cost=spent.cost, unpriced=spent.unpriced
    )
    await shared.write(note_used, shared.claim, item.pk, ended)


async def _insisting(store: ItemStore, act: Callable[[], Awaitable[Any]]) -> Any:
    """What `act` gives; it is tried again where something of ours failed, unless the models' own retries did."""
    for left in reversed(range(TRIES)):
        try:
            return await act()
        except (LLMError, SandboxUnavailable):
            raise
        except InfrastructureError as error:
            if not left:
                raise
            logger.warning("item %s is tried again: %s", store.item, error)
            store.used.clear()
            await asyncio.sleep(AGAIN_SECONDS)
    raise AssertionError("the loop returns or raises")


def _named_call(evidence: Any) -> str:
    """The call whose reply a rejection blames, where its evidence says so."""
    key = evidence.get("call_key") if isinstance(evidence, dict) else None
    return key if isinstance(key, str) else ""


def _slug(error: Exception) -> str:
    """`SandboxLost` as `sandbox_lost`."""
    name = type(error).__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def kit_of(shared: LaneContext, item: BatchItem, store: ItemStore) -> Kit:
    return Kit(
        asker=Asker(shared.models, store, shared.meter, shared.settings.sampling),
        sandbox=shared.sandbox,
        path=item.path,
        theme=theme_of(item.path),
        threads=shared.threads,
        settings=shared.settings.stages,
        seed=shared.settings.seed,
        check_stop=shared.check_stop,
    )


async def _drafts(shared: LaneContext, item: BatchItem, names: tuple[str, ...], known: dict[str, Any]) -> list[Any]:
    """The drafts of earlier stages, of this item and of those above it."""
    missing = [name for name in names if name not in known]
    if missing:
        known |= await shared.write(load_drafts, shared.pipeline, shared.batch, item.path, missing)
    return [known[name] for name in names]


def load_drafts(pipeline: Pipeline, batch: int, path: str, names: list[str]) -> dict[str, Any]:
    """By stage, along the path from the root, as later stages amended them. Raises InputError where one is missing."""
    parts = path.split("/")
    paths = ["/".join(parts[: length + 1]) for length in range(len(parts))]
    rows = StageRun.objects.filter(item__batch_id=batch, item__path__in=paths, state=StageState.KEPT)
    rows = rows.annotate(amends=KT(f"used__{AMENDS}")).filter(output__isnull=False)
    rows = rows.filter(Q(stage__in=names) | Q(amends__in=names))
    drafts: dict[str, Any] = {}
    amended: dict[str, Any] = {}
    for name, digest, body in rows.values_list("stage", "output", "output__body"):
        stage = pipeline.stage(name)
        assert stage.gives is not None
        drafts[name] = stage.gives.model_validate(unpack(Body, digest, body))
        amended |= stage.amendment(drafts[name])
    if gone := sorted(set(names) - drafts.keys()):
        raise InputError(f"What earlier stages made is not there: {', '.join(gone)}. Retry the item from there.")
    return {name: drafts[name] for name in names} | amended


async def _save(shared: LaneContext, item: BatchItem, known: dict[str, Any]) -> None:
    """Make rows of what the stages gave, end the item, and add the items below it."""
    store = ItemStore(shared.writer, item.pk)
    level: Level = item.level  # type: ignore[assignment]
    stages, saver = SAVERS[item.level]
    spec = ItemSpec.model_validate(item.spec)
    there = {stage.name: stage for stage in shared.pipeline.stages}
    wanted = tuple(name for name in stages if name in there and not there[name].skipped(shared.settings.stages, spec))

    async def act() -> Any:
        drafts = dict(zip(wanted, await _drafts(shared, item, wanted, known), strict=True))
        barren = shared.pipeline.barren(level, drafts)
        loop = asyncio.get_running_loop()
        return barren, *await loop.run_in_executor(shared.savers, released, _saved, shared, item, drafts, saver)

    ended = await _attempt(shared, item, SAVE, store, act)
    if ended.state != StageState.KEPT:
        await _end(shared, StageEnding(item.pk, ended, attempts=await _tried(shared, item, ended, known)))
        return
    barren, product, tried = ended.output
    made_of = shared.pipeline.barren_parts if barren else shared.pipeline.parts
    parts = made_of(level, shared.settings.stages)
    ended = replace(ended, output=None)
    await shared.endings.do(StageEnding(item.pk, ended, product=product, parts=parts, attempts=tried))


def _saved(
    shared: LaneContext, item: BatchItem, drafts: dict[str, Any], saver: Callable[[SaveRequest], BatchProduct]
) -> tuple[BatchProduct, list[BatchAttempt]]:
    request = _request(shared, item, drafts)
    product = saver(request)
    product.provenance = request.provenance | ({"notes": draft_notes} if (draft_notes := notes(drafts)) else {})
    return product, attempts_of(request, product)


def _request(shared: LaneContext, item: BatchItem, drafts: dict[str, Any]) -> SaveRequest:
    rows = BatchProduct.objects.select_related(*ABOVE[item.level])
    above = rows.filter(item_id=item.parent_id).first() if item.parent_id else None
    about = provenance(item, shared.settings, shared.names)
    return SaveRequest(shared.sandbox, item, drafts, above, about, shared.names)
