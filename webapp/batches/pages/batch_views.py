"""Views of batches, a batch, one of its items, one of its calls. The live parts are fragments of these pages."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from synthesis.pipeline import PIPELINES
from webapp.accounts.access import has_scope, require_scope
from webapp.batches import queries, setting_labels
from webapp.batches.beside_human_work import count_products_beside
from webapp.batches.engine.shifts import count_worked_seconds
from webapp.batches.launch import prompt_trials
from webapp.batches.launch.preset_choice import describe_departures
from webapp.batches.models import Batch, BatchItem, BatchState, ItemState, LLMCall, StageRun
from webapp.batches.pages import batch_list, descriptions, filters, progress, underway
from webapp.batches.pages.failed_attempts import describe_attempts
from webapp.batches.presets import TITLES
from webapp.batches.replaced_work import find_replaced_work
from webapp.batches.schemas import BatchQuery, CallQuery
from webapp.batches.spec import BatchSettings
from webapp.common.htmx import wants_fragment
from webapp.common.lists.list_context import build_filtered_list
from webapp.common.lists.list_filters import parse_list_query
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call, build_list_call

TABS = ("overview", "items", "calls", "failures", "settings")
GROUPS_LIVE = 8
"""Of failures and of rejections, while the page asks for them again and again."""


@require_scope("read")
@require_safe
@never_cache
def list_batches(request: HttpRequest) -> HttpResponse:
    parsed_query = parse_list_query(batch_list.BATCHES, batch_list.build_list_filters(request.user), request.GET)
    rows = queries.select_batches().defer("settings", "cloned_from__settings")
    page = paginate_by_keyset(request, parsed_query.narrow(rows), parsed_query.order)
    context = {
        "page": page,
        "rows": batch_list.pair_with_progress(page.rows),
        "asked": parsed_query,
        "list": build_filtered_list(request, parsed_query, page),
        "bulk": batch_list.BULK if has_scope(request.user, "synthesise") else None,
        "copy_as": build_list_call(request, "api:list_batches", BatchQuery),
    }
    return render(request, "batches/list.html", context)


def get_batch_or_404(pk: int) -> Batch:
    return get_object_or_404(queries.select_batches(), pk=pk)


def build_live_context(row: Batch, tab: str) -> dict[str, Any]:
    """Return what changes while a batch runs: its head on every tab, funnel and failures on the first."""
    settings = BatchSettings.model_validate(row.settings)
    waiting = progress.count_open_items(row.pk)
    pipeline = PIPELINES[row.variant]
    lines = progress.build_funnel(queries.list_stage_counts(row.pk), waiting, pipeline)
    use = underway.read_current_usage(underway.list_items_underway(row.pk, pipeline)) if waiting else []
    underway.add_current_usage(lines, use)
    counts = queries.count_items(row.pk)
    lanes, levels = progress.list_lanes(row), progress.list_level_lines(counts)
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
        "took": progress.count_elapsed_seconds(row),
        "worked": count_worked_seconds(row),
        "used": progress.sum_usage(lines),
        "pace": progress.measure_pace(row, lines, waiting, pipeline, settings.stages),
        "in_flight": underway.summarize_calls_in_flight(use),
        "lanes": lanes,
        "can": descriptions.build_batch_actions(row, counts),
    }
    if tab == "overview":
        context |= {
            "funnel": progress.group_by_level(lines),
            "kinds": descriptions.group_by_outcome(progress.list_failure_groups(row.pk), GROUPS_LIVE),
            "beside": count_products_beside(row.pk),
            "replaced": find_replaced_work(row.pk),
        }
    return context


def read_tab(request: HttpRequest) -> str:
    return Params(request.GET).choice("tab", TABS, TABS[0])


@require_scope("read")
@require_safe
@never_cache
def show_batch(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_batch_or_404(pk)
    tab = read_tab(request)
    context = build_live_context(row, tab)
    more = {
        "items": _build_items_tab,
        "calls": _build_calls_tab,
        "failures": _build_failures_tab,
        "settings": _build_settings_tab,
    }.get(tab)
    context |= more(request, row) if more else {"copy_as": build_api_call(request, "GET", "api:get_batch", args=(pk,))}
    return render(request, "batches/show/batch.html", context)


@require_scope("read")
@require_safe
@never_cache
def show_live_part(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the part of the page that changes; polled after a change."""
    return render(request, "batches/show/live.html", build_live_context(get_batch_or_404(pk), read_tab(request)))


def _build_items_tab(request: HttpRequest, row: Batch) -> dict[str, Any]:
    chosen = filters.read_item_filter(request.GET)
    page = paginate_by_keyset(request, filters.filter_items(row.pk, chosen), "id")
    filter_values = {name: getattr(chosen, name) or None for name in filters.FIELDS}
    return {
        "page": page,
        "rows": [descriptions.build_item_row(item) for item in page.rows],
        "chosen": chosen,
        "filter_form": descriptions.build_item_filter_form(PIPELINES[row.variant], chosen),
        "copy_as": build_api_call(request, "GET", "api:list_batch_items", args=(row.pk,), query=filter_values),
    }


def _build_calls_tab(request: HttpRequest, row: Batch) -> dict[str, Any]:
    chosen = filters.read_call_filter(request.GET)
    filter_values = {name: getattr(chosen, name) for name in CallQuery.model_fields if hasattr(chosen, name)}
    page = paginate_by_keyset(request, filters.filter_calls(row.pk, chosen))
    underway.set_call_ages(page.rows)
    return {
        "page": page,
        "readings": queries.list_readings(row.pk),
        "chosen": chosen,
        "choices": descriptions.list_call_choices(row.pk),
        "copy_as": build_api_call(request, "GET", "api:list_batch_calls", args=(row.pk,), query=filter_values),
    }


def _build_failures_tab(request: HttpRequest, row: Batch) -> dict[str, Any]:
    return {
        "kinds": descriptions.group_by_outcome(progress.list_failure_groups(row.pk), queries.GROUPS),
        "groups_up_to": queries.GROUPS,
        "copy_as": build_api_call(request, "GET", "api:list_batch_failures", args=(row.pk,)),
    }


def _build_settings_tab(request: HttpRequest, row: Batch) -> dict[str, Any]:
    settings = BatchSettings.model_validate(row.settings)
    return {
        "described": setting_labels.describe_settings(settings),
        "preset": settings.preset,
        "preset_title": TITLES[settings.preset],
        "departures": describe_departures(settings),
        "differences": setting_labels.list_origin_changes(row),
        "prompt_changes": prompt_trials.list_prompt_changes(settings),
        "copy_as": build_api_call(request, "GET", "api:get_batch", args=(row.pk,)),
    }


def build_item_context(pk: int) -> dict[str, Any]:
    rows = BatchItem.objects.select_related("batch", "product", "parent").defer("spec", "parent__spec")
    row = get_object_or_404(rows, pk=pk)
    runs = descriptions.list_stage_runs(row, PIPELINES[row.batch.variant])
    below = list(
        filters.filter_items(row.batch_id, filters.ItemFilter(parent=row.pk)).order_by("id")[: descriptions.BELOW + 1]
    )
    product = filters.get_joined_product(row)
    return {
        "item": row,
        "batch": row.batch,
        "path": descriptions.build_item_path(row),
        "runs": runs,
        "stages": [(run, setting_labels.STAGE_WORDS.get(run.stage, "")) for run in runs],
        "products": descriptions.link_products(row.level, product) or descriptions.link_rejected_attempt(row),
        "provenance": descriptions.read_provenance(product),
        "attempts": describe_attempts(row, descriptions.list_item_attempts(row)),
        "below": [descriptions.build_item_row(child) for child in below[: descriptions.BELOW]],
        "more_below": len(below) > descriptions.BELOW,
        "fault": descriptions.find_call_by_key(row.call_key),
        "can": descriptions.build_item_actions(row, PIPELINES[row.batch.variant]),
        "is_open": descriptions.is_item_open(row),
        "under_way": next(iter(underway.read_current_usage([row.pk])), None)
        if descriptions.is_item_open(row)
        else None,
        "waiting_calls": underway.list_waiting_calls(row) if descriptions.is_item_open(row) else [],
    }


@require_scope("read")
@require_safe
@never_cache
def show_item(request: HttpRequest, pk: int) -> HttpResponse:
    context = build_item_context(pk)
    ended = context["runs"][-1] if context["runs"] else None
    if ended is not None and ended.state != "kept":
        context |= {"open_run": ended.pk, **descriptions.build_run_content(ended)}
    context["copy_as"] = build_api_call(request, "GET", "api:get_batch_item", args=(pk,))
    return render(request, "batches/show/item.html", context)


@require_scope("read")
@require_safe
@never_cache
def show_item_live(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the part of an item's page that changes while the item runs."""
    return render(request, "batches/show/item_live.html", build_item_context(pk))


@require_scope("read")
@require_safe
@never_cache
def show_stage_output(request: HttpRequest, pk: int, stage: str) -> HttpResponse:
    """Show the output of one stage for an item: a part of the item's page, and a page of its own."""
    run = get_object_or_404(StageRun.objects.select_related("item__batch").defer("item__spec"), item_id=pk, stage=stage)
    context = {
        "run": run,
        "item": run.item,
        "batch": run.item.batch,
        "path": descriptions.build_item_path(run.item),
        **descriptions.build_run_content(run, Params(request.GET).number("from") or 0),
    }
    template = "batches/show/output_part.html" if wants_fragment(request) else "batches/show/output.html"
    return render(request, template, context)


@require_scope("read")
@require_safe
def show_call(request: HttpRequest, pk: int) -> HttpResponse:
    rows = LLMCall.objects.select_related("batch", "item").defer("item__spec")
    row = get_object_or_404(rows, pk=pk)
    underway.set_call_ages([row])
    context = {
        "call": row,
        "batch": row.batch,
        "path": descriptions.build_item_path(row.item) if row.item else [],
        "request_of": descriptions.build_shown_request(queries.load_body(row.request_id)),
        "reply": descriptions.build_shown_reply(queries.load_body(row.reply_id)),
        "tries": descriptions.list_call_tries(row),
        "ended": descriptions.find_failed_run(row),
        "copy_as": build_api_call(request, "GET", "api:get_llm_call", args=(pk,)),
    }
    return render(request, "batches/show/call.html", context)


@require_scope("read")
@require_safe
def download_call(request: HttpRequest, pk: int) -> HttpResponse:
    """Download request and reply as stored."""
    row = get_object_or_404(LLMCall, pk=pk)
    record = {"key": row.key, "role": row.role, "stage": row.stage, "path": row.path, "model": row.model}
    record |= {"state": row.state, "error": row.error}
    record |= {"request": queries.load_body(row.request_id), "reply": queries.load_body(row.reply_id)}
    answer = HttpResponse(json.dumps(record, ensure_ascii=False, indent=1), content_type="application/json")
    answer["Content-Disposition"] = f'attachment; filename="call-{pk}.json"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
