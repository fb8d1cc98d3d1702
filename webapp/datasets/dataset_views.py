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
from webapp.accounts.access import access, may
from webapp.accounts.services import audit
from webapp.datasets import dataset_lists, queries, row_page, services
from webapp.datasets.choice.words import words
from webapp.datasets.dataset_lists import KINDS
from webapp.datasets.export.export_views import shown_exports
from webapp.datasets.forms import (
    ANY,
    DatasetForm,
    address_of,
    datasets_for,
    environments_for,
    form_of,
    offer_choices,
    some_are_approved,
)
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.preview import MEANINGS, DatasetPreview, look, require_rows, way_out
from webapp.datasets.schemas import DatasetQuery
from webapp.datasets.selection import DatasetSelection
from webapp.datasets.storage import manifest_of, open_file, sentence_of
from webapp.lists.bulk_acts import bulk_page
from webapp.lists.list_context import asked_list
from webapp.lists.list_filters import list_query
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.rest.api_examples import api_call, list_call
from webapp.rest.idempotency import fingerprint, once
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.export.archive import attachment, blocks

SHOWN = 20
"""So many rows that came out otherwise are named on a dataset's page."""


@access("read")
@require_safe
@never_cache
def listed(request: HttpRequest) -> HttpResponse:
    asked = list_query(dataset_lists.DATASETS, dataset_lists.dataset_filters(request.user), request.GET)
    rows = queries.listed(archived=asked.values["archived"])
    page = keyset(request, asked.narrow(rows), asked.order)
    context = {
        "page": page,
        "asked": asked,
        "list": asked_list(request, asked, page),
        "bulk": dataset_lists.DATASET_ACTS if may(request.user, "train") else None,
        "copy_as": list_call(request, "api:list_datasets", DatasetQuery),
    }
    return render(request, "datasets/list.html", context)


@access("train")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def bulk(request: HttpRequest, act: str) -> HttpResponse:
    """What an act on the selected datasets would be, and the act."""
    return bulk_page(request, dataset_lists.DATASET_ACTS, act)


@access("train")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def new(request: HttpRequest) -> HttpResponse:
    form = form_of(request.POST if request.method == "POST" else None, request.GET)
    wanted = request.method == "POST" and "look" not in request.POST and form.is_valid()
    why = _in_the_way(form) if wanted else ""
    if wanted and not why:

        def make() -> str:
            told = form.cleaned_data
            made = services.create_dataset(request.user, form.choice, form.split(), told["name"], told["licence"])
            return made.public_id

        made, now = once(request.user, f"dataset-{fingerprint(request)}", make)
        message = (
            "It is being frozen; this page follows it." if now else "This form was sent before; here is its dataset."
        )
        messages.success(request, message)
        return redirect("datasets:dataset", made)
    refused = request.method == "POST" and (bool(why) or not form.is_valid())
    text = Params(request.POST if "find" in request.POST else request.GET).search_text("find")
    offer_choices(form)
    context = _looked(form) | _picks(form, text)
    context |= {"form": form, "why": why, "find": text, "units": MEANINGS.items(), "copy_as": _call(request, form)}
    context["are_attempts_open"] = any(form[name].value() for name in ("pass_low", "pass_high", "attempts", "policy"))
    context["is_draw_open"] = any(form[name].value() for name in ("likeness_part", "environment_count"))
    context["apart"] = [(row, row.public_id in form.kept_apart) for row in datasets_for(form)]
    context["nobody_approved"] = form.kind_now == "tasks" and not some_are_approved()
    context |= {kind: address_of(form, kind=kind, seed=None, approval=None) for kind in KINDS}
    return render(request, "datasets/new.html", context, status=422 if refused else 200)


@access("train")
@require_safe
@never_cache
def looked(request: HttpRequest) -> HttpResponse:
    """What the form would come to, while it is filled in."""
    form = form_of(request.GET, request.GET)
    return render(request, "datasets/new/preview.html", _looked(form) | {"form": form})


@access("train")
@require_safe
@never_cache
def environments(request: HttpRequest) -> HttpResponse:
    """Environments to tick, by part of their name."""
    form = form_of(request.GET, request.GET)
    picks = _picks(form, Params(request.GET).search_text("find"))
    return render(request, "datasets/new/picks.html", picks | {"form": form})


def _in_the_way(form: DatasetForm) -> str:
    """What is sure to keep a valid form's dataset from being frozen, in words; empty where nothing is."""
    try:
        require_rows(form.choice, form.split(), form.seen)
    except InputError as error:
        return str(error)
    return ""


def _looked(form: DatasetForm) -> dict[str, Any]:
    """What the panel shows: what it would come to, or what is wrong with the form."""
    if not form.is_valid():
        return {"found": None}
    try:
        preview: DatasetPreview = look(form.choice, form.split(), form.seen)
    except InputError as error:
        return {"found": None, "why_not": str(error)}
    near = [(sides, way_out(sides.split), _with_split(form, sides.split)) for sides in preview.proposals]
    with_all = address_of(form, approval=ANY) if form.choice.approval == "approved" else ""
    return {"found": preview, "proposals": near, "words": words(form.choice)[1:], "with_all": with_all}


def _with_split(form: DatasetForm, split: Split) -> str:
    return address_of(form, unit=split.unit, test_share=f"{split.test_share:g}", seed=split.seed)


def _picks(form: DatasetForm, text: str) -> dict[str, Any]:
    rows, more = environments_for(form, text)
    ticked = set(form.picked)
    return {"picks": [(row, row.pk in ticked) for row in rows], "more_environments": more, "find": text}


def _call(request: HttpRequest, form: DatasetForm) -> Any:
    valid = form.is_valid()
    body = {
        "selection": {"kind": form.kind_now} | (form.choice.chosen() if valid else {}),
        "split": form.split().model_dump(mode="json") if valid else {},
    }
    return api_call(request, "POST", "api:create_dataset", body=body)


def _found(ident: str) -> Dataset:
    return get_object_or_404(queries.known(), public_id=ident)


def _shown(row: Dataset) -> dict[str, Any]:
    return {
        "dataset": row,
        "method": "reinforcement" if row.kind == "tasks" else "supervised",
        "sentence": sentence_of(row),
        "words": words(DatasetSelection.model_validate(row.selection))
        if row.source == "selection" and row.selection
        else [],
        "meaning": MEANINGS.get(row.split.get("unit", "environment"), ""),
        "twins": list(queries.twins_of(row).only("public_id", "name")[:5]),
        "freezing": row.state == DatasetState.FREEZING,
        **(_evidence(row) if row.state == DatasetState.READY else {}),
    }


def _evidence(row: Dataset) -> dict[str, Any]:
    """What was found out while it was frozen."""
    report = manifest_of(row).report
    left = row.executions.exclude(verdict="same").order_by("pk")[:SHOWN]
    approvals = report.approval.items() if report is not None else ()
    return {
        "report": report,
        "left": [(line, *_address(line.row)) for line in left],
        "approvals": [(state.replace("_", " "), rows) for state, rows in approvals],
    }


def _address(ident: str) -> tuple[str, str]:
    """Where a row that was left out leads, and its words."""
    what, pk = row_page.leads_to(ident)
    if what == "trajectory":
        return reverse("trajectories:detail", args=[pk]), f"trajectory {pk}"
    task = TaskRevision.objects.filter(pk=pk).values_list("task_id", flat=True).first()
    return (reverse("scenarios:task", args=[task]), f"task {task}") if task else ("", ident)


@access("read")
@require_safe
@never_cache
def dataset(request: HttpRequest, dataset: str) -> HttpResponse:
    row = _found(dataset)
    context = _shown(row) | {"copy_as": api_call(request, "GET", "api:get_dataset", args=(row.public_id,))}
    if row.state == DatasetState.READY:
        context |= row_page.page_of(request, row) | shown_exports(row)
    return render(request, "datasets/page.html", context)


@access("read")
@require_safe
@never_cache
def live(request: HttpRequest, dataset: str) -> HttpResponse:
    """The part that changes while it is frozen. When that has ended the page is loaded anew."""
    row = _found(dataset)
    answer = render(request, "datasets/page/freezing.html", _shown(row))
    if row.state != DatasetState.FREEZING:
        answer["HX-Refresh"] = "true"
    return answer


@access("read")
@require_safe
@never_cache
def rows(request: HttpRequest, dataset: str) -> HttpResponse:
    """The rows of one side, fifty a page."""
    row = _found(dataset)
    if row.state != DatasetState.READY:
        raise Http404("This dataset has no rows: it is not ready.")
    return render(request, "datasets/rows.html", {"dataset": row} | row_page.page_of(request, row))


@access("read")
@require_safe
def download(request: HttpRequest, dataset: str, side: str) -> StreamingHttpResponse:
    row = _found(dataset)
    try:
        file = open_file(row, f"{side}.jsonl")
    except InputError as error:
        raise Http404(str(error)) from error
    audit(request.user, "dataset.download", row, side=side)
    return attachment(blocks(file), f"{row.public_id}-{side}.jsonl", "application/jsonl")


def _act(request: HttpRequest, ident: str, act: Callable[[Any, Dataset], Dataset], done: str) -> HttpResponse:
    try:
        act(request.user, _found(ident))
        messages.success(request, done)
    except InputError as error:
        messages.error(request, str(error))
    return redirect(reverse("datasets:dataset", args=[ident]))


@access("train")
@require_POST
def archive(request: HttpRequest, dataset: str) -> HttpResponse:
    return _act(
        request, dataset, services.archive, "It is archived: lists and forms leave it out. You can take it back."
    )


@access("train")
@require_POST
def restore(request: HttpRequest, dataset: str) -> HttpResponse:
    return _act(request, dataset, services.restore, "It is back in the lists.")
