"""Run of one item through its stages, each stored before the next begins."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

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
from synthesis.prompts.trial import use_trial_prompts
from synthesis.stages import ItemSpec, Kit, Level, Pipeline, Stage
from synthesis.themes.keys import get_theme_key
from webapp.batches.engine.attempts import (
    SOLVING,
    build_attempts,
    build_teacher_attempt,
    build_unkept_attempts,
    collect_solver_runs,
    leaves_runs_without_task,
)
from webapp.batches.engine.call_store import ItemStore
from webapp.batches.engine.item_state import StageEnding, release_item
from webapp.batches.engine.lane_context import BatchStopped, EndpointAway, LaneContext, run_and_release
from webapp.batches.engine.products import (
    ABOVE,
    REJECTING,
    SAVERS,
    TRIED,
    SaveRequest,
    list_saved_stages,
    save_rejected_attempt,
)
from webapp.batches.engine.provenance import build_provenance, collect_notes
from webapp.batches.engine.stage_runs import SAVE, EndedStage, count_interrupted_usage
from webapp.batches.engine.theme_source import record_theme_result
from webapp.batches.engine.write_batcher import AWAY
from webapp.batches.models import BatchAttempt, BatchItem, BatchProduct, Body, StageRun, StageState
from webapp.common.claims import StaleClaim
from webapp.common.content_store import unpack_value

AT_ENDPOINT = {
    "unreachable": "Try the endpoint on its page; once it answers, retry the item.",
    "timeout": "Give it more seconds or fewer requests at once on its page, then retry the item.",
    "rate_limited": "Lower its requests at once on its page, or wait; then retry the item.",
    "refused": "Correct its key, address or models on its page, then retry the item.",
    "malformed": "Is its address that of an OpenAI-compatible server (many end in /v1)? Correct it and retry the item.",
    "too_large": "Let it answer more shortly, or choose another model; then retry the item.",
    "failed": "Look at the server's own log; once it is well, retry the item.",
    "context": "Clone the batch with a model that can read more.",
}
OF_REPLIES = "Look at the reply and retry the item; if it stays so, clone the batch with another model for this role."
OF_OURS = "This is a fault of Envarium, not of the item: the worker's log has more. Retry the item."


def add_advice(error: Exception) -> str:
    """Return the message of a failure with advice on it."""
    if isinstance(error, MalformedReply):
        return f"{str(error).rstrip('.')}. {OF_REPLIES}"
    if not isinstance(error, LLMError) or not error.requests:  # nothing was sent: the message has its own advice
        return str(error)
    wait = f"It asks to be left alone for {error.retry_after:.0f} seconds." if error.retry_after else ""
    return _join_sentences(str(error), wait, AT_ENDPOINT.get(error.reason, "Retry the item."))


def _join_sentences(*sentences: str) -> str:
    return " ".join(
        sentence if sentence.endswith((".", "!", "?", ")")) else f"{sentence}." for sentence in sentences if sentence
    )


logger = logging.getLogger(__name__)
TRIES = 3
"""Of a stage that lost a process of the sandbox: replies are stored, so another try costs little."""
AGAIN_SECONDS = 0.2
AMENDS = "amends"
"""Stored with a run of a stage: the earlier stage whose draft its own amends."""


async def run_item(shared: LaneContext, item: BatchItem) -> None:
    """Run the stages of an item as far as possible. Raises what ends the lane: CapReached, EndpointAway,
    SandboxUnavailable, StaleClaim."""
    try:
        drafts: dict[str, Any] = {}
        while item.stage != SAVE:
            shared.check_stop()
            stage = shared.pipeline.stage(item.stage)
            if not await _run_stage(shared, item, stage, drafts):
                return
        shared.check_stop()
        await _save_item(shared, item, drafts)
    except BatchStopped:
        await shared.write(release_item, shared.claim, item.pk)
    except StaleClaim as error:
        logger.warning("%s", error)
    finally:
        shared.told()


async def _run_stage(shared: LaneContext, item: BatchItem, stage: Stage, known: dict[str, Any]) -> bool:
    """Run one stage of an item; return whether the item continues here."""
    store = ItemStore(shared.writer, item.pk, shared.check_stop)
    spec = ItemSpec.model_validate(item.spec)

    async def run_or_take_given() -> Any:
        if (given_draft := stage.given(spec)) is not None:
            return given_draft
        assert stage.run is not None
        drafts = await _get_drafts(shared, item, stage.takes, known)
        return await stage.run(kit, spec, *drafts)

    kit = build_kit(shared, item, store)
    with prompts.record_prompts() as filled, use_trial_prompts(shared.settings.prompts):
        ended = await _attempt_stage(shared, item, stage.name, store, run_or_take_given)
    noted = {"roles": sorted(kit.noted.roles), "prompts": filled, "seeds": kit.noted.seeds}
    amended = stage.amendment(ended.output)
    noted |= {AMENDS: stage.amends} if amended else {}
    ended = replace(ended, used=noted)
    if item.level == "theme" and stage is shared.pipeline.stages[0]:
        await shared.write(record_theme_result, item, ended, shared.names)
    after = shared.pipeline.after(stage.name, shared.settings.stages, spec)
    following = after.name if after else SAVE
    barrier = after is not None and after.group is not None
    ended, attempt = await _store_rejected_attempt(shared, item, ended, known)
    tried = await _list_failed_attempts(shared, item, ended, known, attempt)
    is_kept = await _end_stage(shared, StageEnding(item.pk, ended, following, barrier, attempt=attempt, attempts=tried))
    if not is_kept or barrier:
        return False
    known |= {stage.name: ended.output, **amended}
    item.stage = following
    return True


async def _store_rejected_attempt(
    shared: LaneContext, item: BatchItem, ended: EndedStage, known: dict[str, Any]
) -> tuple[EndedStage, int | None]:
    """Store the attempt that a filter rejects as a trajectory, and return the ended stage and its id. If it cannot be
    stored, the stage counts as failed and can be retried."""
    if ended.state != StageState.REJECTED or ended.stage != REJECTING:
        return ended, None
    try:
        drafts = dict(zip(TRIED, await _get_drafts(shared, item, TRIED, known), strict=True))
        loop = asyncio.get_running_loop()
        return ended, await loop.run_in_executor(
            shared.savers, run_and_release, _save_rejected_attempt, shared, item, drafts, ended
        )
    except (SandboxUnavailable, StaleClaim, *AWAY):
        raise
    except EnvariumError as error:
        message = f"The rejected attempt could not be stored: {error}"
        return replace(ended, state=StageState.FAILED, output=None, reason=_format_reason(error), message=message), None


async def _list_failed_attempts(
    shared: LaneContext, item: BatchItem, ended: EndedStage, known: dict[str, Any], attempt: int | None = None
) -> list[BatchAttempt]:
    """Return the attempts made by an item that does not get through; an empty list for an item that continues."""
    if ended.state == StageState.KEPT or item.level not in ("task", "trajectory"):
        return []
    if attempt is not None:
        return [build_teacher_attempt(item, attempt)]
    has_solver = any(stage.name == SOLVING for stage in shared.pipeline.stages)
    lost = item.level == "task" and has_solver and leaves_runs_without_task(ended)
    return build_unkept_attempts(
        item, ended, collect_solver_runs(await _get_drafts(shared, item, (SOLVING,), known)) if lost else ()
    )


def _save_rejected_attempt(shared: LaneContext, item: BatchItem, drafts: dict[str, Any], ended: EndedStage) -> int:
    return save_rejected_attempt(_build_save_request(shared, item, drafts), ended).pk


async def _end_stage(shared: LaneContext, ending: StageEnding) -> bool:
    """Write the end of a stage; return whether it is kept (a draft that is too large is not)."""
    ended = ending.ended
    try:
        await shared.endings.do(ending)
    except InputError as error:  # too large to keep
        short = replace(ended, output=None, state=StageState.REJECTED, reason="too_large", message=str(error))
        await shared.endings.do(replace(ending, ended=short))
        return False
    return ended.state == StageState.KEPT


async def _attempt_stage(
    shared: LaneContext, item: BatchItem, stage: str, store: ItemStore, act: Callable[[], Awaitable[Any]]
) -> EndedStage:
    """Run a stage and return its end: a draft, a rejection (a fact about the item), or a failure that can be
    retried."""
    shared.spent[item.path] = StageUsage()
    began = time.monotonic()
    state, output, reason, message, key = StageState.KEPT, None, "", "", ""
    try:
        output = await _retry_on_infra_error(store, act)
    except (BatchStopped, CapReached):
        await _count_interrupted_stage(shared, item, stage, time.monotonic() - began)
        raise
    except (SandboxUnavailable, StaleClaim, *AWAY):
        shared.spent.pop(item.path, None)
        raise
    except Rejected as error:
        state, reason, message, output = StageState.REJECTED, error.reason, str(error), error.evidence
        key = _get_blamed_call(error.evidence)
    except InputError as error:
        state, reason, message = StageState.REJECTED, "bad_input", str(error)
    except LLMError as error:
        key = error.call_key if isinstance(error, MalformedReply) else store.last_failed
        state, reason, message = StageState.FAILED, error.reason, add_advice(error)
    except EnvariumError as error:
        state, reason, message = StageState.FAILED, _format_reason(error), str(error)
    except Exception as error:  # the boundary around one item: the others go on
        logger.exception("item %s failed in %s", item.pk, stage)
        state, reason, message = StageState.FAILED, "fault", f"{type(error).__name__}: {error}. {OF_OURS}"
    await store.give_up(stage)
    if store.away is not None and state != StageState.KEPT:
        await _count_interrupted_stage(shared, item, stage, time.monotonic() - began)
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


async def _count_interrupted_stage(shared: LaneContext, item: BatchItem, stage: str, seconds: float) -> None:
    """Count the usage of an interrupted stage; without it the funnel and the batch's spend would differ."""
    spent = shared.spent.pop(item.path)
    if not spent.usage.requests:
        return
    ended = EndedStage(
        stage, StageState.KEPT, seconds=seconds, usage=spent.usage, cost=spent.cost, unpriced=spent.unpriced
    )
    await shared.write(count_interrupted_usage, shared.claim, item.pk, ended)


async def _retry_on_infra_error(store: ItemStore, act: Callable[[], Awaitable[Any]]) -> Any:
    """Return the result of `act`; retry after an infrastructure error, unless the model client already retried."""
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


def _get_blamed_call(evidence: Any) -> str:
    """Return the call whose reply a rejection blames, if its evidence names one."""
    key = evidence.get("call_key") if isinstance(evidence, dict) else None
    return key if isinstance(key, str) else ""


def _format_reason(error: Exception) -> str:
    """Return a reason for an error class: `SandboxLost` as `sandbox_lost`."""
    name = type(error).__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def build_kit(shared: LaneContext, item: BatchItem, store: ItemStore) -> Kit:
    return Kit(
        asker=Asker(shared.models, store, shared.meter, shared.settings.sampling),
        sandbox=shared.sandbox,
        path=item.path,
        theme=get_theme_key(item.path),
        threads=shared.threads,
        settings=shared.settings.stages,
        seed=shared.settings.seed,
        check_stop=shared.check_stop,
        audits=shared.audits,
    )


async def _get_drafts(shared: LaneContext, item: BatchItem, names: tuple[str, ...], known: dict[str, Any]) -> list[Any]:
    """Return the drafts of earlier stages, of this item and of those above it."""
    missing = [name for name in names if name not in known]
    if missing:
        known |= await shared.write(load_drafts, shared.pipeline, shared.batch, item.path, missing)
    return [known[name] for name in names]


def load_drafts(pipeline: Pipeline, batch: int, path: str, names: list[str]) -> dict[str, Any]:
    """Return drafts by stage, from the root down the path, as amended later. Raises InputError if one is missing."""
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
        drafts[name] = stage.gives.model_validate(unpack_value(Body, digest, body))
        amended |= stage.amendment(drafts[name])
    if missing := sorted(set(names) - drafts.keys()):
        raise InputError(f"The results of earlier stages are missing: {', '.join(missing)}. Retry the item from there.")
    return {name: drafts[name] for name in names} | amended


async def _save_item(shared: LaneContext, item: BatchItem, known: dict[str, Any]) -> None:
    """Save the stages' drafts as rows, end the item, and add the items below it."""
    store = ItemStore(shared.writer, item.pk)
    level: Level = item.level  # type: ignore[assignment]
    saver = SAVERS[level][1]
    stage_names = list_saved_stages(shared.pipeline, level, shared.settings.stages, ItemSpec.model_validate(item.spec))

    async def save_in_thread() -> Any:
        drafts = dict(zip(stage_names, await _get_drafts(shared, item, stage_names, known), strict=True))
        barren = shared.pipeline.barren(level, drafts)
        loop = asyncio.get_running_loop()
        return barren, *await loop.run_in_executor(
            shared.savers, run_and_release, _save_product, shared, item, drafts, saver
        )

    ended = await _attempt_stage(shared, item, SAVE, store, save_in_thread)
    if ended.state != StageState.KEPT:
        await _end_stage(
            shared, StageEnding(item.pk, ended, attempts=await _list_failed_attempts(shared, item, ended, known))
        )
        return
    barren, product, tried = ended.output
    made_of = shared.pipeline.barren_parts if barren else shared.pipeline.parts
    parts = made_of(level, shared.settings.stages)
    ended = replace(ended, output=None)
    await shared.endings.do(StageEnding(item.pk, ended, product=product, parts=parts, attempts=tried))


def _save_product(
    shared: LaneContext, item: BatchItem, drafts: dict[str, Any], saver: Callable[[SaveRequest], BatchProduct]
) -> tuple[BatchProduct, list[BatchAttempt]]:
    request = _build_save_request(shared, item, drafts)
    product = saver(request)
    product.provenance = request.provenance | ({"notes": draft_notes} if (draft_notes := collect_notes(drafts)) else {})
    return product, build_attempts(request, product)


def _build_save_request(shared: LaneContext, item: BatchItem, drafts: dict[str, Any]) -> SaveRequest:
    rows = BatchProduct.objects.select_related(*ABOVE[item.level])
    above = rows.filter(item_id=item.parent_id).first() if item.parent_id else None
    about = build_provenance(item, shared.settings, shared.names)
    return SaveRequest(shared.sandbox, item, drafts, above, about, shared.names, shared.settings.variant)
