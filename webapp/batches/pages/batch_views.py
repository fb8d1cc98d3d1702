"""Views of batches, a batch, one of its items, one of its calls. The live parts are fragments of these pages."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from synthesis.pipeline import PIPELINES
from webapp.accounts.access import access, may
from webapp.batches import queries, setting_labels
from webapp.batches.beside_human_work import count_made_beside
from webapp.batches.engine.shifts import worked_seconds
from webapp.batches.launch import prompt_trials
from webapp.batches.launch.preset_choice import describe_departures
from webapp.batches.models import Batch, BatchItem, BatchState, ItemState, LLMCall, StageRun
from webapp.batches.pages import batch_list, descriptions, filters, progress, underway
from webapp.batches.pages.failed_attempts import describe_attempts
from webapp.batches.presets import TITLES
from webapp.batches.replaced_work import find_replaced_work
from webapp.batches.schemas import BatchQuery, CallQuery
from webapp.batches.spec import BatchSettings
from webapp.htmx import wants_fragment
from webapp.lists.list_context import asked_list
from webapp.lists.list_filters import list_query
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.rest.api_examples import api_call, list_call

TABS = ("overview", "items", "calls", "failures", "settings")
GROUPS_LIVE = 8
"""Of failures and of rejections, while the page asks for them again and again."""


@access("read")
@require_safe
@never_cache
def batches(request: HttpRequest) -> HttpResponse:
    asked = list_query(batch_list.BATCHES, batch_list.filters_for(request.user), request.GET)
    rows = queries.batches().defer("settings", "cloned_from__settings")
    page = keyset(request, asked.narrow(rows), asked.order)
    context = {
        "page": page,
        "rows": batch_list.with_far(page.rows),
        "asked": asked,
        "list": asked_list(request, asked, page),
        "bulk": batch_list.BULK if may(request.user, "synthesise") else None,
        "copy_as": list_call(request, "api:list_batches", BatchQuery),
    }
    return render(request, "batches/list.html", context)


def find(pk: int) -> Batch:
    return get_object_or_404(queries.batches(), pk=pk)


def live_context(row: Batch, tab: str) -> dict[str, Any]:
    """What changes while a batch runs: its head on every tab, funnel and failures on the first."""
    settings = BatchSettings.model_validate(row.settings)
    waiting = progress.open_items(row.pk)
    pipeline = PIPELINES[row.variant]
    lines = progress.funnel(queries.counts(row.pk), waiting, pipeline)
    use = underway.read_use(underway.find_items_underway(row.pk, pipeline)) if waiting else []
    underway.add_use(lines, use)
    counts = queries.item_counts(row.pk)
    lanes, levels = progress.lanes(row), progress.levels(counts)
    context = {
        "batch": row,
        "tab": tab,
        "tabs": TABS,
        "levels": levels,
        "total": sum(level.total for level in levels),
        "ended": sum(level.ended for level in levels),
        "running": sum(level.running for level in levels),
        "nothing": row.state == BatchState.DONE and not any(ItemState.KEPT in level.states for level in levels),
        "queued": any(lane["job__state"] == "queued" for lane in lanes),
        "took": progress.took(row),
        "worked": worked_seconds(row),
        "used": progress.used(lines),
        "pace": progress.pace(row, lines, waiting, pipeline, settings.stages),
        "in_flight": underway.find_calls_in_flight(use),
        "lanes": lanes,
        "can": descriptions.actions(row, counts),
    }
    if tab == "overview":
        context |= {
            "funnel": progress.by_level(lines),
            "kinds": descriptions.kinds(progress.groups(row.pk), GROUPS_LIVE),
            "beside": count_made_beside(row.pk),
            "replaced": find_replaced_work(row.pk),
        }
    return context


def tab_of(request: HttpRequest) -> str:
    return Params(request.GET).choice("tab", TABS, TABS[0])


@access("read")
@require_safe
@never_cache
def batch(request: HttpRequest, pk: int) -> HttpResponse:
    row = find(pk)
    tab = tab_of(request)
    context = live_context(row, tab)
    more = {"items": _items, "calls": _calls, "failures": _failures, "settings": _settings}.get(tab)
    context |= more(request, row) if more else {"copy_as": api_call(request, "GET", "api:get_batch", args=(pk,))}
    return render(request, "batches/show/batch.html", context)


@access("read")
@require_safe
@never_cache
def live(request: HttpRequest, pk: int) -> HttpResponse:
    """The part of the page that changes; asked for when something has."""
    return render(request, "batches/show/live.html", live_context(find(pk), tab_of(request)))


def _items(request: HttpRequest, row: Batch) -> dict[str, Any]:
    chosen = filters.item_filter(request.GET)
    page = keyset(request, filters.items(row.pk, chosen), "id")
    asked = {name: getattr(chosen, name) or None for name in filters.FIELDS}
    return {
        "page": page,
        "rows": [descriptions.item_row(item) for item in page.rows],
        "chosen": chosen,
        "filter_form": descriptions.item_filter_form(PIPELINES[row.variant], chosen),
        "copy_as": api_call(request, "GET", "api:list_batch_items", args=(row.pk,), query=asked),
    }


def _calls(request: HttpRequest, row: Batch) -> dict[str, Any]:
    chosen = filters.call_filter(request.GET)
    asked = {name: getattr(chosen, name) for name in CallQuery.model_fields if hasattr(chosen, name)}
    page = keyset(request, filters.calls(row.pk, chosen))
    underway.mark_ages(page.rows)
    return {
        "page": page,
        "readings": queries.readings(row.pk),
        "chosen": chosen,
        "choices": descriptions.call_choices(row.pk),
        "copy_as": api_call(request, "GET", "api:list_batch_calls", args=(row.pk,), query=asked),
    }


def _failures(request: HttpRequest, row: Batch) -> dict[str, Any]:
    return {
        "kinds": descriptions.kinds(progress.groups(row.pk), queries.GROUPS),
        "groups_up_to": queries.GROUPS,
        "copy_as": api_call(request, "GET", "api:list_batch_failures", args=(row.pk,)),
    }


def _settings(request: HttpRequest, row: Batch) -> dict[str, Any]:
    settings = BatchSettings.model_validate(row.settings)
    return {
        "described": setting_labels.described(settings),
        "preset": settings.preset,
        "preset_title": TITLES[settings.preset],
        "departures": describe_departures(settings),
        "differences": setting_labels.differs_from_origin(row),
        "prompt_changes": prompt_trials.changes(settings),
        "copy_as": api_call(request, "GET", "api:get_batch", args=(row.pk,)),
    }


def item_context(pk: int) -> dict[str, Any]:
    rows = BatchItem.objects.select_related("batch", "product", "parent").defer("spec", "parent__spec")
    row = get_object_or_404(rows, pk=pk)
    runs = descriptions.runs_of(row, PIPELINES[row.batch.variant])
    below = list(
        filters.items(row.batch_id, filters.ItemFilter(parent=row.pk)).order_by("id")[: descriptions.BELOW + 1]
    )
    product = filters.product_of(row)
    return {
        "item": row,
        "batch": row.batch,
        "path": descriptions.path_of(row),
        "runs": runs,
        "stages": [(run, setting_labels.STAGE_WORDS.get(run.stage, "")) for run in runs],
        "products": descriptions.products(row.level, product) or descriptions.tried(row),
        "provenance": descriptions.provenance_of(product),
        "attempts": describe_attempts(row, descriptions.attempts_of(row)),
        "below": [descriptions.item_row(child) for child in below[: descriptions.BELOW]],
        "more_below": len(below) > descriptions.BELOW,
        "fault": descriptions.call_by_key(row.call_key),
        "can": descriptions.item_actions(row, PIPELINES[row.batch.variant]),
        "is_open": descriptions.is_open(row),
        "under_way": next(iter(underway.read_use([row.pk])), None) if descriptions.is_open(row) else None,
        "waiting_calls": underway.find_waiting_calls(row) if descriptions.is_open(row) else [],
    }


@access("read")
@require_safe
@never_cache
def item(request: HttpRequest, pk: int) -> HttpResponse:
    context = item_context(pk)
    ended = context["runs"][-1] if context["runs"] else None
    if ended is not None and ended.state != "kept":
        context |= {"open_run": ended.pk, **descriptions.run_content(ended)}
    context["copy_as"] = api_call(request, "GET", "api:get_batch_item", args=(pk,))
    return render(request, "batches/show/item.html", context)


@access("read")
@require_safe
@never_cache
def item_live(request: HttpRequest, pk: int) -> HttpResponse:
    """The part of an item's page that changes while it is worked on."""
    return render(request, "batches/show/item_live.html", item_context(pk))


@access("read")
@require_safe
@never_cache
def output(request: HttpRequest, pk: int, stage: str) -> HttpResponse:
    """What one stage gave for an item: a part of the item's page, and a page of its own."""
    run = get_object_or_404(StageRun.objects.select_related("item__batch").defer("item__spec"), item_id=pk, stage=stage)
    context = {
        "run": run,
        "item": run.item,
        "batch": run.item.batch,
        "path": descriptions.path_of(run.item),
        **descriptions.run_content(run, Params(request.GET).number("from") or 0),
    }
    template = "batches/show/output_part.html" if wants_fragment(request) else "batches/show/output.html"
    return render(request, template, context)


@access("read")
@require_safe
def call(request: HttpRequest, pk: int) -> HttpResponse:
    rows = LLMCall.objects.select_related("batch", "item").defer("item__spec")
    row = get_object_or_404(rows, pk=pk)
    underway.mark_ages([row])
    context = {
        "call": row,
        "batch": row.batch,
        "path": descriptions.path_of(row.item) if row.item else [],
        "request_of": descriptions.request_of(queries.body(row.request_id)),
        "reply": descriptions.reply_of(queries.body(row.reply_id)),
        "tries": descriptions.tries_of(row),
        "ended": descriptions.ended_badly(row),
        "copy_as": api_call(request, "GET", "api:get_llm_call", args=(pk,)),
    }
    return render(request, "batches/show/call.html", context)


@access("read")
@require_safe
def call_file(request: HttpRequest, pk: int) -> HttpResponse:
    """Request and reply as they are stored, to download."""
    row = get_object_or_404(LLMCall, pk=pk)
    record = {"key": row.key, "role": row.role, "stage": row.stage, "path": row.path, "model": row.model}
    record |= {"state": row.state, "error": row.error}
    record |= {"request": queries.body(row.request_id), "reply": queries.body(row.reply_id)}
    answer = HttpResponse(json.dumps(record, ensure_ascii=False, indent=1), content_type="application/json")
    answer["Content-Disposition"] = f'attachment; filename="call-{pk}.json"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
