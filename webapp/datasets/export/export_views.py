"""Views of a dataset's exports: started, followed, downloaded, deleted. They are a part of the dataset's page."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.accounts.services import write_audit_entry
from webapp.datasets import queries
from webapp.datasets.export import services
from webapp.datasets.export.package import get_package_id
from webapp.datasets.export.record_shapes import FORMS, FormatName, format_loading_snippet
from webapp.datasets.models import Dataset, DatasetExport, ExportState
from webapp.trajectories.export.archive import build_attachment, read_stored_file

SHOWN = 20
FORMATS: dict[FormatName, str] = {"jsonl": "JSON Lines", "parquet": "Parquet", "wheel": "Python package"}


def build_exports_context(dataset: Dataset) -> dict[str, Any]:
    """Return the context of a dataset's exports, and of the forms that it can be exported in."""
    rows = list(services.list_dataset_exports(dataset)[:SHOWN])
    suiting = [about for about in FORMS.values() if about.suits(dataset.kind)]
    fit = [(name, about.label, about.holds[dataset.kind]) for name, about in FORMS.items() if about in suiting]
    return {
        "exports": [_build_export_line(row) for row in rows],
        "making": any(row.state == ExportState.MAKING for row in rows),
        "forms": fit,
        "formats": [(name, words) for name, words in FORMATS.items() if any(name in form.formats for form in suiting)],
        "unfit": [(about.label, about.why_not) for about in FORMS.values() if not about.suits(dataset.kind)],
    }


def _build_export_line(row: DatasetExport) -> dict[str, Any]:
    is_available = services.has_archive(row)
    lost = row.state == ExportState.READY and not is_available
    return {
        "row": row,
        "state": ExportState.CLEARED if lost else row.state,
        "label": next((about.label for name, about in FORMS.items() if name == row.form), row.form),
        "format": next((words for name, words in FORMATS.items() if name == row.format), row.format),
        "there": is_available,
        "snippet": format_loading_snippet(row.form, row.dataset.kind, row.format, get_package_id(row.dataset)),
    }


def _get_dataset_or_404(ident: str) -> Dataset:
    return get_object_or_404(queries.select_datasets(), public_id=ident)


def _redirect_to_exports(dataset: Dataset) -> HttpResponse:
    return redirect(reverse("datasets:dataset", args=[dataset.public_id]) + "#exports")


@require_scope("read")
@require_safe
@never_cache
def list_exports(request: HttpRequest, dataset: str) -> HttpResponse:
    """Show the part that changes while an export is made."""
    row = _get_dataset_or_404(dataset)
    return render(request, "datasets/page/exports.html", {"dataset": row, **build_exports_context(row)})


@require_scope("train")
@require_POST
def start_export(request: HttpRequest, dataset: str) -> HttpResponse:
    """Queue an export; report it if it exists already."""
    row, form = _get_dataset_or_404(dataset), request.POST.get("form", "trl")
    # If a form has only one format, the value of the format field belongs to another form.
    only = any(name == form and len(about.formats) == 1 for name, about in FORMS.items())
    try:
        _, now = services.start_export(request.user, row, form, "" if only else request.POST.get("format", "jsonl"))
    except InputError as error:
        messages.error(request, str(error))
        return _redirect_to_exports(row)
    if not now:
        messages.info(request, "This export already exists: the dataset never changes, and neither does its export.")
    return _redirect_to_exports(row)


@require_scope("read")
@require_safe
def download_export(request: HttpRequest, dataset: str, export: str) -> StreamingHttpResponse:
    """Download the archive of an export."""
    row = get_object_or_404(services.list_dataset_exports(_get_dataset_or_404(dataset)), public_id=export)
    if not services.has_archive(row):
        raise Http404("This export has no archive: it is not done, or it was cleared away. Export again.")
    write_audit_entry(request.user, "dataset.download", row.dataset, form=row.form, format=row.format)
    return build_attachment(read_stored_file(row.stored), f"{row.dataset.public_id}-{row.form}-{row.format}.zip")


@require_scope("train")
@require_POST
def delete_export(request: HttpRequest, dataset: str, export: str) -> HttpResponse:
    """Remove the archive of an export."""
    dataset_row = _get_dataset_or_404(dataset)
    try:
        services.drop_export(
            request.user, get_object_or_404(services.list_dataset_exports(dataset_row), public_id=export)
        )
        messages.success(request, "The archive is deleted. The same export can be made again.")
    except InputError as error:
        messages.error(request, str(error))
    return _redirect_to_exports(dataset_row)
