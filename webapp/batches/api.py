"""API of batches: dry run, create, follow, pause, resume, cancel, retry, clone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from synthesis.errors import InputError
from webapp.batches import queries, services
from webapp.batches.attempt_lines import AttemptQuery, BatchAttemptOut
from webapp.batches.beside_human_work import count_met_human_work
from webapp.batches.engine.shifts import count_worked_seconds
from webapp.batches.launch.estimate import build_estimate
from webapp.batches.launch.readiness import check_readiness
from webapp.batches.launch.schemas import DryRunOut, EstimateOut, HumanWorkOut, ReadinessOut, ReplacedWorkOut
from webapp.batches.models import Batch, BatchItem, BatchState, LLMCall
from webapp.batches.pages import filters
from webapp.batches.preset_schemas import BatchPresetsOut
from webapp.batches.presets import AS_PUBLISHED, PUBLISHED, TITLES, UNCOVERED, find_departures, list_preset_values
from webapp.batches.replaced_work import forecast_replaced_work
from webapp.batches.schemas import (
    BatchIn,
    BatchLine,
    BatchOut,
    BatchQuery,
    CallLine,
    CallOut,
    CallQuery,
    CloneIn,
    CloneOut,
    FailureOut,
    ItemLine,
    ItemOut,
    ItemQuery,
    LimitsIn,
    LimitsOut,
    ResumeIn,
    RetryIn,
    build_settings,
)
from webapp.batches.spec import BatchSettings, compare_settings
from webapp.common.errors import Conflict
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.etags import require_match
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import cursor_page
from webapp.common.rest.types import Id, PageOf

router = Router(tags=["batches"])


def get_batch_or_404(pk: int) -> Batch:
    """Return a batch, or raise Http404."""
    return get_object_or_404(queries.select_batches(), pk=pk)


def build_batch_payload(pk: int) -> dict[str, Any]:
    """Return a batch with its funnel, in the shape that `BatchOut` takes."""
    batch = get_batch_or_404(pk)
    settings = BatchSettings.model_validate(batch.settings)
    line = BatchLine.from_orm(batch).model_dump(by_alias=False)
    named = {"created_by.username": line.pop("created_by"), "cloned_from_id": line.pop("cloned_from")}
    return (
        line
        | named
        | {
            "settings": batch.settings,
            "departures": find_departures(settings.preset, settings.stages),
            "worked_seconds": None if batch.state == BatchState.RUNNING else count_worked_seconds(batch),
            "items": queries.count_items(pk),
            "stages": queries.list_stage_counts(pk),
        }
    )


def act_on_locked_batch(request: HttpRequest, pk: int, act: Callable[[], Any]) -> dict[str, Any]:
    """Call `act` under the lock of the batch and return the changed batch. Raises Http404, Conflict and Problem
    (412)."""
    with transaction.atomic():
        get_object_or_404(Batch.objects.select_for_update(of=("self",), no_key=True).only("pk"), pk=pk)
        require_match(request, BatchOut.model_validate(build_batch_payload(pk)))
        try:
            act()
        except InputError as error:
            raise Conflict(str(error)) from error
    return build_batch_payload(pk)


@router.get("/batches", auth=require_scope("read"), response=PageOf[BatchLine])
def list_batches(request: HttpRequest, query: Query[BatchQuery]) -> Any:
    """List batches, newest first."""
    return cursor_page(queries.select_batches(query.state or "", query.variant or "").defer("settings"), query)


@router.post("/batches", auth=require_scope("synthesise"), response={202: BatchOut})
@idempotent
def create_batch(request: HttpRequest, body: BatchIn) -> Any:
    """Create a batch, and start it unless `start` is false."""
    settings = build_settings(body.settings)
    batch = services.create_batch(
        get_acting_user(request), body.name, body.specs(), settings, settings.pipeline, start=body.start
    )
    return Status(202, build_batch_payload(batch.pk))


@router.post("/batches/dry_run", auth=require_scope("synthesise"), response=DryRunOut)
def estimate_batch(request: HttpRequest, body: BatchIn) -> Any:
    """Estimate a batch: ranges of its usage, the first prompt of one item, the items that would be refused, and the
    existing work at the places of its own products. Nothing is sent and nothing is stored."""
    specs = body.specs()
    settings = services.check_settings(get_acting_user(request), build_settings(body.settings), len(specs))
    payload = EstimateOut.from_orm(build_estimate(specs, settings, settings.pipeline)).model_dump()
    return payload | {
        "readiness": ReadinessOut.from_orm(check_readiness(specs, settings)).model_dump(),
        "human_work": HumanWorkOut.from_orm(count_met_human_work(specs)).model_dump(),
        "replaced": ReplacedWorkOut.from_orm(forecast_replaced_work(specs, settings)).model_dump(),
    }


@router.get("/batches/presets", auth=require_scope("read"), response=BatchPresetsOut)
def list_batch_presets(request: HttpRequest) -> Any:
    """List the presets of a batch, ours and EnvScaler's, each value with its place in the paper."""
    listed = [
        {
            "name": name,
            "title": title,
            "values": list_preset_values(name),
            "uncovered": UNCOVERED if name == AS_PUBLISHED else (),
        }
        for name, title in TITLES.items()
    ]
    return {"presets": listed, "choices": PUBLISHED}


@router.get("/batches/limits", auth=require_scope("read"), response=LimitsOut)
def get_batch_limits(request: HttpRequest) -> Any:
    """Return the limits on batches that annotators launch."""
    return services.get_launch_limit()


@router.put("/batches/limits", auth=require_scope("worker"), response=LimitsOut)
def set_batch_limits(request: HttpRequest, body: LimitsIn) -> Any:
    """Set the limits on batches that annotators launch."""
    return services.set_launch_limit(get_acting_user(request), body.annotator_cap, body.annotator_themes)


@router.get("/batches/{pk}", auth=require_scope("read"), response=BatchOut)
def get_batch(request: HttpRequest, pk: Id) -> Any:
    """Return one batch with its settings and its funnel."""
    return build_batch_payload(pk)


@router.get("/batches/{pk}/items", auth=require_scope("read"), response=PageOf[ItemLine])
def list_batch_items(request: HttpRequest, pk: Id, query: Query[ItemQuery]) -> Any:
    """List the items of a batch: environments, scenarios, tasks and trajectories, in order of creation."""
    get_object_or_404(Batch.objects.only("id"), pk=pk)
    filter_values = {name: value for name in filters.FIELDS if (value := getattr(query, name)) is not None}
    return cursor_page(filters.filter_items(pk, filters.ItemFilter(**filter_values)), query, "id")


@router.get("/batches/{pk}/calls", auth=require_scope("read"), response=PageOf[CallLine])
def list_batch_calls(request: HttpRequest, pk: Id, query: Query[CallQuery]) -> Any:
    """List the LLM calls that this batch was the first to make, newest first."""
    get_object_or_404(Batch.objects.only("id"), pk=pk)
    chosen = filters.CallFilter(query.state or "", query.role, query.stage, query.lost, query.read or "", query.model)
    return cursor_page(filters.filter_calls(pk, chosen), query)


@router.get("/batches/{pk}/attempts", auth=require_scope("read"), response=PageOf[BatchAttemptOut])
def list_batch_attempts(request: HttpRequest, pk: Id, query: Query[AttemptQuery]) -> Any:
    """List attempts of solvers and teachers at the batch's tasks, newest first, including those without a kept
    trajectory."""
    get_object_or_404(Batch.objects.only("id"), pk=pk)
    return cursor_page(query.rows(pk), query)


@router.get("/batches/{pk}/failures", auth=require_scope("read"), response=list[FailureOut])
def list_batch_failures(request: HttpRequest, pk: Id) -> Any:
    """List items that failed or were rejected, grouped by failure signature, the most frequent first."""
    get_object_or_404(Batch.objects.only("id"), pk=pk)
    return queries.list_failures(pk)


@router.get("/batch-items/{pk}", auth=require_scope("read"), response=ItemOut)
def get_batch_item(request: HttpRequest, pk: Id) -> Any:
    """Return one item with the output of each stage and its product."""
    item = get_object_or_404(BatchItem.objects.defer("spec"), pk=pk)
    runs = [{**vars(run), "output": queries.load_body(run.output_id)} for run in queries.list_stage_runs(item)]
    return {**vars(item), "runs": runs, "product": queries.find_product(item)}


@router.get("/llm-calls/{pk}", auth=require_scope("read"), response=CallOut)
def get_llm_call(request: HttpRequest, pk: Id) -> Any:
    """Return one call with its request and its reply."""
    call = get_object_or_404(LLMCall, pk=pk)
    return {**vars(call), "request": queries.load_body(call.request_id), "reply": queries.load_body(call.reply_id)}


@router.post("/batches/{pk}/start", auth=require_scope("synthesise"), response=BatchOut)
@idempotent
def start_batch(request: HttpRequest, pk: Id) -> Any:
    """Start a draft."""
    return act_on_locked_batch(request, pk, lambda: services.start_batch(get_acting_user(request), pk))


@router.post("/batches/{pk}/pause", auth=require_scope("synthesise"), response=BatchOut)
@idempotent
def pause_batch(request: HttpRequest, pk: Id) -> Any:
    """Let calls in flight end and start nothing new."""
    return act_on_locked_batch(request, pk, lambda: services.pause_batch(get_acting_user(request), pk))


@router.post("/batches/{pk}/resume", auth=require_scope("synthesise"), response=BatchOut)
@idempotent
def resume_batch(request: HttpRequest, pk: Id, body: ResumeIn) -> Any:
    """Resume a batch that was paused, reached its cap (give a higher one) or lost its workers."""
    return act_on_locked_batch(request, pk, lambda: services.resume_batch(get_acting_user(request), pk, body.cap))


@router.post("/batches/{pk}/cancel", auth=require_scope("synthesise"), response=BatchOut)
@idempotent
def cancel_batch(request: HttpRequest, pk: Id) -> Any:
    """End the batch: kept products remain, waiting items are cancelled."""
    return act_on_locked_batch(request, pk, lambda: services.cancel_batch(get_acting_user(request), pk))


@router.post("/batches/{pk}/retry", auth=require_scope("synthesise"), response=BatchOut)
@idempotent
def retry_batch(request: HttpRequest, pk: Id, body: RetryIn) -> Any:
    """Retry failed items: all, those of one stage, those with one failure signature, or one item. The batch runs
    again."""
    states = ("failed", "rejected") if body.rejected else ("failed",)

    def retry_selected_items() -> None:
        selection: dict[str, Any] = {
            "item": body.item,
            "stage": body.stage,
            "signature": body.signature,
            "states": states,
        }
        services.retry_items(get_acting_user(request), pk, **selection)

    return act_on_locked_batch(request, pk, retry_selected_items)


@router.post("/batch-items/{pk}/keep", auth=require_scope("synthesise"), response=BatchOut)
@idempotent
def keep_duplicate(request: HttpRequest, pk: Id) -> Any:
    """Let a theme continue that was left out as a near-duplicate."""
    item = get_object_or_404(BatchItem.objects.only("id", "batch_id"), pk=pk)

    def keep_selected_item() -> None:
        services.keep_duplicate(get_acting_user(request), item.batch_id, item.pk, queries.get_pipeline(item.batch_id))

    return act_on_locked_batch(request, item.batch_id, keep_selected_item)


@router.post("/batches/{pk}/clone", auth=require_scope("synthesise"), response={202: CloneOut})
@idempotent
def clone_batch(request: HttpRequest, pk: Id, body: CloneIn) -> Any:
    """Clone a batch: run all or some of its items again with other settings. Calls with the same content are not sent
    again."""
    before = BatchSettings.model_validate(get_batch_or_404(pk).settings)
    settings = build_settings(body.settings, before)
    chosen: dict[str, Any] = {"name": body.name, "items": body.items, "start": body.start}
    clone = services.clone_batch(get_acting_user(request), pk, settings, settings.pipeline, **chosen)
    after = BatchSettings.model_validate(clone.settings)
    return Status(202, build_batch_payload(clone.pk) | {"differences": compare_settings(before, after)})
