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
from webapp.batches.beside_human_work import meet_human_work
from webapp.batches.engine.shifts import worked_seconds
from webapp.batches.launch.estimate import estimate
from webapp.batches.launch.readiness import check_readiness
from webapp.batches.launch.schemas import DryRunOut, EstimateOut, HumanWorkOut, ReadinessOut, ReplacedWorkOut
from webapp.batches.models import Batch, BatchItem, BatchState, LLMCall
from webapp.batches.pages import filters
from webapp.batches.preset_schemas import BatchPresetsOut
from webapp.batches.presets import AS_PUBLISHED, PUBLISHED, TITLES, UNCOVERED, find_departures, list_values
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
    settings_of,
)
from webapp.batches.spec import BatchSettings, difference
from webapp.errors import Conflict
from webapp.rest.auth import needs, person
from webapp.rest.etags import require_match
from webapp.rest.idempotency import idempotent
from webapp.rest.paging import cursor_page
from webapp.rest.types import Id, PageOf

router = Router(tags=["batches"])


def find(pk: int) -> Batch:
    return get_object_or_404(queries.batches(), pk=pk)


def whole(pk: int) -> dict[str, Any]:
    """A batch with its funnel, as `BatchOut` takes it."""
    batch = find(pk)
    settings = BatchSettings.model_validate(batch.settings)
    line = BatchLine.from_orm(batch).model_dump(by_alias=False)
    named = {"created_by.username": line.pop("created_by"), "cloned_from_id": line.pop("cloned_from")}
    return (
        line
        | named
        | {
            "settings": batch.settings,
            "departures": find_departures(settings.preset, settings.stages),
            "worked_seconds": None if batch.state == BatchState.RUNNING else worked_seconds(batch),
            "items": queries.item_counts(pk),
            "stages": queries.counts(pk),
        }
    )


def changed(request: HttpRequest, pk: int, act: Callable[[], Any]) -> dict[str, Any]:
    """Do what was asked for, under the batch's lock. Raises Http404, Conflict and Problem (412)."""
    with transaction.atomic():
        get_object_or_404(Batch.objects.select_for_update(of=("self",), no_key=True).only("pk"), pk=pk)
        require_match(request, BatchOut.model_validate(whole(pk)))
        try:
            act()
        except InputError as error:
            raise Conflict(str(error)) from error
    return whole(pk)


@router.get("/batches", auth=needs("read"), response=PageOf[BatchLine])
def list_batches(request: HttpRequest, query: Query[BatchQuery]) -> Any:
    """Batches, newest first."""
    return cursor_page(queries.batches(query.state or "", query.variant or "").defer("settings"), query)


@router.post("/batches", auth=needs("synthesise"), response={202: BatchOut})
@idempotent
def create_batch(request: HttpRequest, body: BatchIn) -> Any:
    """Make a batch, and start it unless `start` is false."""
    settings = settings_of(body.settings)
    batch = services.create_batch(
        person(request), body.name, body.specs(), settings, settings.pipeline, start=body.start
    )
    return Status(202, whole(batch.pk))


@router.post("/batches/dry_run", auth=needs("synthesise"), response=DryRunOut)
def estimate_batch(request: HttpRequest, body: BatchIn) -> Any:
    """What the batch would take, as ranges, the first prompt of one item, which items would be refused, and which work
    stands already where it stores its own. Nothing is sent and nothing is stored."""
    specs = body.specs()
    settings = services.allowed(person(request), settings_of(body.settings), len(specs))
    told = EstimateOut.from_orm(estimate(specs, settings, settings.pipeline)).model_dump()
    return told | {
        "readiness": ReadinessOut.from_orm(check_readiness(specs, settings)).model_dump(),
        "human_work": HumanWorkOut.from_orm(meet_human_work(specs)).model_dump(),
        "replaced": ReplacedWorkOut.from_orm(forecast_replaced_work(specs, settings)).model_dump(),
    }


@router.get("/batches/presets", auth=needs("read"), response=BatchPresetsOut)
def list_batch_presets(request: HttpRequest) -> Any:
    """Whose choices a batch can make: ours, or EnvScaler's, each with its place in the paper."""
    listed = [
        {
            "name": name,
            "title": title,
            "values": list_values(name),
            "uncovered": UNCOVERED if name == AS_PUBLISHED else (),
        }
        for name, title in TITLES.items()
    ]
    return {"presets": listed, "choices": PUBLISHED}


@router.get("/batches/limits", auth=needs("read"), response=LimitsOut)
def get_batch_limits(request: HttpRequest) -> Any:
    """What annotators may launch."""
    return services.limits()


@router.put("/batches/limits", auth=needs("worker"), response=LimitsOut)
def set_batch_limits(request: HttpRequest, body: LimitsIn) -> Any:
    """Set what annotators may launch."""
    return services.set_limits(person(request), body.annotator_cap, body.annotator_themes)


@router.get("/batches/{pk}", auth=needs("read"), response=BatchOut)
def get_batch(request: HttpRequest, pk: Id) -> Any:
    """One batch with its settings and its funnel."""
    return whole(pk)


@router.get("/batches/{pk}/items", auth=needs("read"), response=PageOf[ItemLine])
def list_batch_items(request: HttpRequest, pk: Id, query: Query[ItemQuery]) -> Any:
    """What a batch makes: environments, scenarios, tasks and trajectories, in the order they came up."""
    get_object_or_404(Batch.objects.only("id"), pk=pk)
    asked = {name: value for name in filters.FIELDS if (value := getattr(query, name)) is not None}
    return cursor_page(filters.items(pk, filters.ItemFilter(**asked)), query, "id")


@router.get("/batches/{pk}/calls", auth=needs("read"), response=PageOf[CallLine])
def list_batch_calls(request: HttpRequest, pk: Id, query: Query[CallQuery]) -> Any:
    """The LLM calls that this batch was the first to make, newest first."""
    get_object_or_404(Batch.objects.only("id"), pk=pk)
    chosen = filters.CallFilter(query.state or "", query.role, query.stage, query.lost, query.read or "", query.model)
    return cursor_page(filters.calls(pk, chosen), query)


@router.get("/batches/{pk}/attempts", auth=needs("read"), response=PageOf[BatchAttemptOut])
def list_batch_attempts(request: HttpRequest, pk: Id, query: Query[AttemptQuery]) -> Any:
    """Attempts of solvers and teachers at the batch's tasks, newest first, those of which no trajectory is kept too."""
    get_object_or_404(Batch.objects.only("id"), pk=pk)
    return cursor_page(query.rows(pk), query)


@router.get("/batches/{pk}/failures", auth=needs("read"), response=list[FailureOut])
def list_batch_failures(request: HttpRequest, pk: Id) -> Any:
    """Items that failed or were rejected, grouped by what they share, the most frequent first."""
    get_object_or_404(Batch.objects.only("id"), pk=pk)
    return queries.failures(pk)


@router.get("/batch-items/{pk}", auth=needs("read"), response=ItemOut)
def get_batch_item(request: HttpRequest, pk: Id) -> Any:
    """One item with what each stage gave and what it became."""
    item = get_object_or_404(BatchItem.objects.defer("spec"), pk=pk)
    runs = [{**vars(run), "output": queries.body(run.output_id)} for run in queries.runs_of(item)]
    return {**vars(item), "runs": runs, "product": queries.product_of(item)}


@router.get("/llm-calls/{pk}", auth=needs("read"), response=CallOut)
def get_llm_call(request: HttpRequest, pk: Id) -> Any:
    """One call with its request and its reply."""
    call = get_object_or_404(LLMCall, pk=pk)
    return {**vars(call), "request": queries.body(call.request_id), "reply": queries.body(call.reply_id)}


@router.post("/batches/{pk}/start", auth=needs("synthesise"), response=BatchOut)
@idempotent
def start_batch(request: HttpRequest, pk: Id) -> Any:
    """Start a draft."""
    return changed(request, pk, lambda: services.start_batch(person(request), pk))


@router.post("/batches/{pk}/pause", auth=needs("synthesise"), response=BatchOut)
@idempotent
def pause_batch(request: HttpRequest, pk: Id) -> Any:
    """Let calls in flight end and begin nothing new."""
    return changed(request, pk, lambda: services.pause_batch(person(request), pk))


@router.post("/batches/{pk}/resume", auth=needs("synthesise"), response=BatchOut)
@idempotent
def resume_batch(request: HttpRequest, pk: Id, body: ResumeIn) -> Any:
    """Go on with a batch that was paused, reached its cap (give a higher one) or lost its workers."""
    return changed(request, pk, lambda: services.resume_batch(person(request), pk, body.cap))


@router.post("/batches/{pk}/cancel", auth=needs("synthesise"), response=BatchOut)
@idempotent
def cancel_batch(request: HttpRequest, pk: Id) -> Any:
    """End the batch: what is kept stays, what waits is cancelled."""
    return changed(request, pk, lambda: services.cancel_batch(person(request), pk))


@router.post("/batches/{pk}/retry", auth=needs("synthesise"), response=BatchOut)
@idempotent
def retry_batch(request: HttpRequest, pk: Id, body: RetryIn) -> Any:
    """Try again what failed: all of it, one stage's, what failed alike, or one item. The batch runs again."""
    states = ("failed", "rejected") if body.rejected else ("failed",)

    def act() -> None:
        asked: dict[str, Any] = {"item": body.item, "stage": body.stage, "signature": body.signature, "states": states}
        services.retry_items(person(request), pk, **asked)

    return changed(request, pk, act)


@router.post("/batch-items/{pk}/keep", auth=needs("synthesise"), response=BatchOut)
@idempotent
def keep_duplicate(request: HttpRequest, pk: Id) -> Any:
    """Let a theme go on that was left out as a near-duplicate."""
    item = get_object_or_404(BatchItem.objects.only("id", "batch_id"), pk=pk)

    def act() -> None:
        services.keep_duplicate(person(request), item.batch_id, item.pk, queries.find_pipeline(item.batch_id))

    return changed(request, item.batch_id, act)


@router.post("/batches/{pk}/clone", auth=needs("synthesise"), response={202: CloneOut})
@idempotent
def clone_batch(request: HttpRequest, pk: Id, body: CloneIn) -> Any:
    """The same items once more, or some of them, with other settings. Calls whose content is the same are not made
    again."""
    before = BatchSettings.model_validate(find(pk).settings)
    settings = settings_of(body.settings, before)
    chosen: dict[str, Any] = {"name": body.name, "items": body.items, "start": body.start}
    clone = services.clone_batch(person(request), pk, settings, settings.pipeline, **chosen)
    after = BatchSettings.model_validate(clone.settings)
    return Status(202, whole(clone.pk) | {"differences": difference(before, after)})
