"""Views of datasets: the list, a new one with its preview, one of them with its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import InputError
from training.dataset import Split
from webapp.accounts.access import has_scope, require_scope
from webapp.accounts.services import write_audit_entry
from webapp.common.lists.bulk_acts import process_bulk_act
from webapp.common.lists.list_context import build_filtered_list
from webapp.common.lists.list_filters import parse_list_query
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call, build_list_call
from webapp.common.rest.idempotency import compute_fingerprint, run_form_once
from webapp.datasets import dataset_lists, queries, row_page, services
from webapp.datasets.choice.words import describe_selection
from webapp.datasets.dataset_lists import KINDS
from webapp.datasets.export.export_views import build_exports_context
from webapp.datasets.forms import (
    ANY,
    DatasetForm,
    build_dataset_form,
    build_form_address,
    has_approved_tasks,
    list_apart_choices,
    list_environment_picks,
    offer_choices,
)
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.preview import MEANINGS, DatasetPreview, build_preview, describe_split, require_rows
from webapp.datasets.queries import get_sentence
from webapp.datasets.schemas import DatasetQuery
from webapp.datasets.selection import DatasetSelection
from webapp.datasets.storage import get_manifest, open_file
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.verifiers import VERIFIER_NAMES
from webapp.trajectories.export.archive import build_attachment, read_blocks

SHOWN = 20
"""Number of rows with a different result that are named on a dataset's page."""


@require_scope("read")
@require_safe
@never_cache
def list_datasets(request: HttpRequest) -> HttpResponse:
    listing_query = parse_list_query(dataset_lists.DATASETS, dataset_lists.dataset_filters(request.user), request.GET)
    rows = queries.list_datasets(archived=listing_query.values["archived"])
    page = paginate_by_keyset(request, listing_query.narrow(rows), listing_query.order)
    context = {
        "page": page,
        "asked": listing_query,
        "list": build_filtered_list(request, listing_query, page),
        "bulk": dataset_lists.DATASET_ACTS if has_scope(request.user, "train") else None,
        "copy_as": build_list_call(request, "api:list_datasets", DatasetQuery),
    }
    return render(request, "datasets/list.html", context)


@require_scope("train")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def run_bulk_act(request: HttpRequest, act: str) -> HttpResponse:
    """Preview an action on the selected datasets, or apply it."""
    return process_bulk_act(request, dataset_lists.DATASET_ACTS, act)


@require_scope("train")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def create_dataset(request: HttpRequest) -> HttpResponse:
    form = build_dataset_form(request.POST if request.method == "POST" else None, request.GET)
    is_submitted = request.method == "POST" and "look" not in request.POST and form.is_valid()
    why = _find_obstacle(form) if is_submitted else ""
    if is_submitted and not why:

        def make_dataset() -> str:
            told = form.cleaned_data
            made = services.create_dataset(request.user, form.choice, form.split(), told["name"], told["licence"])
            return made.public_id

        public_id, now = run_form_once(request.user, f"dataset-{compute_fingerprint(request)}", make_dataset)
        message = (
            "It is being frozen; this page follows it." if now else "This form was sent before; here is its dataset."
        )
        messages.success(request, message)
        return redirect("datasets:dataset", public_id)
    refused = request.method == "POST" and (bool(why) or not form.is_valid())
    text = Params(request.POST if "find" in request.POST else request.GET).search_text("find")
    offer_choices(form)
    context = _build_preview_context(form) | _build_picks_context(form, text)
    context |= {
        "form": form,
        "why": why,
        "find": text,
        "units": MEANINGS.items(),
        "copy_as": _build_api_call(request, form),
    }
    context["are_attempts_open"] = any(form[name].value() for name in ("pass_low", "pass_high", "attempts", "policy"))
    context["is_draw_open"] = any(form[name].value() for name in ("likeness_part", "environment_count"))
    context["apart"] = [(row, row.public_id in form.kept_apart) for row in list_apart_choices(form)]
    context["nobody_approved"] = form.kind_now == "tasks" and not has_approved_tasks()
    context |= {kind: build_form_address(form, kind=kind, seed=None, approval=None) for kind in KINDS}
    return render(request, "datasets/new.html", context, status=422 if refused else 200)


@require_scope("train")
@require_safe
@never_cache
def preview_dataset(request: HttpRequest) -> HttpResponse:
    """Show a preview of the dataset while the form is filled in."""
    form = build_dataset_form(request.GET, request.GET)
    return render(request, "datasets/new/preview.html", _build_preview_context(form) | {"form": form})


@require_scope("train")
@require_safe
@never_cache
def search_environments(request: HttpRequest) -> HttpResponse:
    """Show environments to tick, by part of their name."""
    form = build_dataset_form(request.GET, request.GET)
    picks = _build_picks_context(form, Params(request.GET).search_text("find"))
    return render(request, "datasets/new/picks.html", picks | {"form": form})


def _find_obstacle(form: DatasetForm) -> str:
    """Return what is sure to keep a valid form's dataset from being frozen, in words; empty if nothing is."""
    try:
        require_rows(form.choice, form.split(), form.seen)
    except InputError as error:
        return str(error)
    return ""


def _build_preview_context(form: DatasetForm) -> dict[str, Any]:
    """Return the context of the preview panel: the preview, or what is wrong with the form."""
    if not form.is_valid():
        return {"found": None}
    try:
        preview: DatasetPreview = build_preview(form.choice, form.split(), form.seen)
    except InputError as error:
        return {"found": None, "why_not": str(error)}
    near = [
        (sides, describe_split(sides.split), _build_split_address(form, sides.split)) for sides in preview.proposals
    ]
    with_all = build_form_address(form, approval=ANY) if form.choice.approval == "approved" else ""
    return {"found": preview, "proposals": near, "words": describe_selection(form.choice)[1:], "with_all": with_all}


def _build_split_address(form: DatasetForm, split: Split) -> str:
    return build_form_address(form, unit=split.unit, test_share=f"{split.test_share:g}", seed=split.seed)


def _build_picks_context(form: DatasetForm, text: str) -> dict[str, Any]:
    rows, more = list_environment_picks(form, text)
    ticked = set(form.picked_environments)
    return {"picks": [(row, row.pk in ticked) for row in rows], "more_environments": more, "find": text}


def _build_api_call(request: HttpRequest, form: DatasetForm) -> Any:
    valid = form.is_valid()
    body = {
        "selection": {"kind": form.kind_now} | (form.choice.chosen() if valid else {}),
        "split": form.split().model_dump(mode="json") if valid else {},
    }
    return build_api_call(request, "POST", "api:create_dataset", body=body)


def _get_dataset_or_404(ident: str) -> Dataset:
    return get_object_or_404(queries.select_datasets(), public_id=ident)


def _build_dataset_context(row: Dataset) -> dict[str, Any]:
    return {
        "dataset": row,
        "method": "reinforcement" if row.kind == "tasks" else "supervised",
        "sentence": get_sentence(row),
        "words": describe_selection(DatasetSelection.model_validate(row.selection))
        if row.source == "selection" and row.selection
        else [],
        "meaning": MEANINGS.get(row.split.get("unit", "environment"), ""),
        "twins": list(queries.list_twin_datasets(row).only("public_id", "name")[:5]),
        "freezing": row.state == DatasetState.FREEZING,
        **(_build_evidence_context(row) if row.state == DatasetState.READY else {}),
    }


def _build_evidence_context(row: Dataset) -> dict[str, Any]:
    """Return what was found out while the dataset was frozen."""
    report = get_manifest(row).report
    differing_rows = row.executions.exclude(verdict="same").order_by("pk")[:SHOWN]
    approvals = report.approval.items() if report is not None else ()
    verifiers = report.verifiers.items() if report is not None else ()
    return {
        "report": report,
        "left": [(line, *_build_row_link(line.row)) for line in differing_rows],
        "verifiers": [(VERIFIER_NAMES.get(kind, kind), rows) for kind, rows in verifiers],
        "approvals": [(state.replace("_", " "), rows) for state, rows in approvals],
    }


def _build_row_link(ident: str) -> tuple[str, str]:
    """Return the URL behind a row that was left out, and its words."""
    what, pk = row_page.parse_row_id(ident)
    if what == "trajectory":
        return reverse("trajectories:detail", args=[pk]), f"trajectory {pk}"
    task = TaskRevision.objects.filter(pk=pk).values_list("task_id", flat=True).first()
    return (reverse("scenarios:task", args=[task]), f"task {task}") if task else ("", ident)


@require_scope("read")
@require_safe
@never_cache
def show_dataset(request: HttpRequest, dataset: str) -> HttpResponse:
    row = _get_dataset_or_404(dataset)
    context = _build_dataset_context(row) | {
        "copy_as": build_api_call(request, "GET", "api:get_dataset", args=(row.public_id,))
    }
    if row.state == DatasetState.READY:
        context |= row_page.build_rows_page(request, row) | build_exports_context(row)
    return render(request, "datasets/page.html", context)


@require_scope("read")
@require_safe
@never_cache
def show_freezing_progress(request: HttpRequest, dataset: str) -> HttpResponse:
    """Show the part that changes while the dataset is frozen. When the job has ended, the page is reloaded."""
    row = _get_dataset_or_404(dataset)
    answer = render(request, "datasets/page/freezing.html", _build_dataset_context(row))
    if row.state != DatasetState.FREEZING:
        answer["HX-Refresh"] = "true"
    return answer


@require_scope("read")
@require_safe
@never_cache
def show_dataset_rows(request: HttpRequest, dataset: str) -> HttpResponse:
    """Show the rows of one side, fifty a page."""
    row = _get_dataset_or_404(dataset)
    if row.state != DatasetState.READY:
        raise Http404("This dataset has no rows: it is not ready.")
    return render(request, "datasets/rows.html", {"dataset": row} | row_page.build_rows_page(request, row))


@require_scope("read")
@require_safe
def download_side(request: HttpRequest, dataset: str, side: str) -> StreamingHttpResponse:
    row = _get_dataset_or_404(dataset)
    try:
        file = open_file(row, f"{side}.jsonl")
    except InputError as error:
        raise Http404(str(error)) from error
    write_audit_entry(request.user, "dataset.download", row, side=side)
    return build_attachment(read_blocks(file), f"{row.public_id}-{side}.jsonl", "application/jsonl")


def _apply_act(request: HttpRequest, ident: str, act: Callable[[Any, Dataset], Dataset], done: str) -> HttpResponse:
    try:
        act(request.user, _get_dataset_or_404(ident))
        messages.success(request, done)
    except InputError as error:
        messages.error(request, str(error))
    return redirect(reverse("datasets:dataset", args=[ident]))


@require_scope("train")
@require_POST
def archive_dataset(request: HttpRequest, dataset: str) -> HttpResponse:
    return _apply_act(
        request,
        dataset,
        services.archive_dataset,
        "It is archived: lists and forms leave it out. You can take it back.",
    )


@require_scope("train")
@require_POST
def restore_dataset(request: HttpRequest, dataset: str) -> HttpResponse:
    return _apply_act(request, dataset, services.restore_dataset, "It is back in the lists.")
