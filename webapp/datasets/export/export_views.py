"""Views of a dataset's exports: begun, followed, fetched, deleted. They are a part of the dataset's page."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import access
from webapp.accounts.services import audit
from webapp.datasets import queries
from webapp.datasets.export import services
from webapp.datasets.export.package import package_of
from webapp.datasets.export.record_forms import FORMS, FormatName, snippet
from webapp.datasets.models import Dataset, DatasetExport, ExportState
from webapp.trajectories.export.archive import attachment, stored

SHOWN = 20
FORMATS: dict[FormatName, str] = {"jsonl": "JSON Lines", "parquet": "Parquet", "wheel": "Python package"}


def shown_exports(dataset: Dataset) -> dict[str, Any]:
    """What the dataset's page shows of its exports, and of the forms that it can be exported in."""
    rows = list(services.exports_of(dataset)[:SHOWN])
    suiting = [about for about in FORMS.values() if about.suits(dataset.kind)]
    fit = [(name, about.label, about.holds[dataset.kind]) for name, about in FORMS.items() if about in suiting]
    return {
        "exports": [_line(row) for row in rows],
        "making": any(row.state == ExportState.MAKING for row in rows),
        "forms": fit,
        "formats": [(name, words) for name, words in FORMATS.items() if any(name in form.formats for form in suiting)],
        "unfit": [(about.label, about.why_not) for about in FORMS.values() if not about.suits(dataset.kind)],
    }


def _line(row: DatasetExport) -> dict[str, Any]:
    there = services.is_there(row)
    lost = row.state == ExportState.READY and not there
    return {
        "row": row,
        "state": ExportState.CLEARED if lost else row.state,
        "label": next((about.label for name, about in FORMS.items() if name == row.form), row.form),
        "format": next((words for name, words in FORMATS.items() if name == row.format), row.format),
        "there": there,
        "snippet": snippet(row.form, row.dataset.kind, row.format, package_of(row.dataset)),
    }


def _found(ident: str) -> Dataset:
    return get_object_or_404(queries.known(), public_id=ident)


def _back(dataset: Dataset) -> HttpResponse:
    return redirect(reverse("datasets:dataset", args=[dataset.public_id]) + "#exports")


@access("read")
@require_safe
@never_cache
def exports(request: HttpRequest, dataset: str) -> HttpResponse:
    """The part that changes while one of them is made."""
    row = _found(dataset)
    return render(request, "datasets/page/exports.html", {"dataset": row, **shown_exports(row)})


@access("train")
@require_POST
def start(request: HttpRequest, dataset: str) -> HttpResponse:
    """Queue an export; one that is there already is said to be."""
    row, form = _found(dataset), request.POST.get("form", "trl")
    # Where a form has one format, what stands in the field beside it is of another form.
    only = any(name == form and len(about.formats) == 1 for name, about in FORMS.items())
    try:
        _, now = services.start_export(request.user, row, form, "" if only else request.POST.get("format", "jsonl"))
    except InputError as error:
        messages.error(request, str(error))
        return _back(row)
    if not now:
        messages.info(request, "This export is there already: the dataset never changes, and neither does its export.")
    return _back(row)


@access("read")
@require_safe
def fetch(request: HttpRequest, dataset: str, export: str) -> StreamingHttpResponse:
    """The archive of an export."""
    row = get_object_or_404(services.exports_of(_found(dataset)), public_id=export)
    if not services.is_there(row):
        raise Http404("This export has no archive: it is not done, or it was cleared away. Export again.")
    audit(request.user, "dataset.download", row.dataset, form=row.form, format=row.format)
    return attachment(stored(row.stored), f"{row.dataset.public_id}-{row.form}-{row.format}.zip")


@access("train")
@require_POST
def delete(request: HttpRequest, dataset: str, export: str) -> HttpResponse:
    """Remove the archive of an export."""
    found = _found(dataset)
    try:
        services.drop_export(request.user, get_object_or_404(services.exports_of(found), public_id=export))
        messages.success(request, "The archive is deleted. The same export can be made again.")
    except InputError as error:
        messages.error(request, str(error))
    return _back(found)
