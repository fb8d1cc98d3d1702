"""Writes on exports of datasets: start one, or return the existing one; clear it."""

from __future__ import annotations

from typing import Any

from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import QuerySet

from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict
from webapp.datasets.export.export_job import KIND, clear_export
from webapp.datasets.export.files import require_executed
from webapp.datasets.export.record_shapes import require_fit, require_format
from webapp.datasets.models import Dataset, DatasetExport, ExportState
from webapp.jobs.services import enqueue_job


@transaction.atomic
def start_export(user: Any, dataset: Dataset, form: str, file_format: str) -> tuple[DatasetExport, bool]:
    """Return the export of a dataset in a form, and whether it starts now: one that is made, or being made, is reused.
    An empty format is the form's own.

    Raises InputError: there is no such form or format, or it does not suit; Conflict: the dataset is not ready.
    """
    about = require_fit(form, dataset.kind)
    written_as = require_format(file_format, about)
    require_executed(dataset)
    # The lock lets two requests at once start only one export.
    Dataset.objects.select_for_update(no_key=True).get(pk=dataset.pk)
    current_exports = list_dataset_exports(dataset).filter(form=form, format=written_as)
    current_exports = current_exports.filter(state__in=[ExportState.MAKING, ExportState.READY])
    for export in current_exports:
        if export.state == ExportState.MAKING or has_archive(export):
            return export, False
        clear_export(export)
    export = DatasetExport.objects.create(dataset=dataset, form=form, format=written_as, created_by=user)
    title = f"Export dataset {dataset.name} ({about.label}, {written_as})"
    export.job = enqueue_job(KIND, title, {"export": export.pk}, user, subject=f"dataset:{dataset.pk}")
    export.save(update_fields=["job"])
    write_audit_entry(user, "dataset.export", dataset, form=form, format=written_as)
    return export, True


@transaction.atomic
def drop_export(user: Any, export: DatasetExport) -> DatasetExport:
    """Remove an export's archive. Raises Conflict: it is being made."""
    row = DatasetExport.objects.select_for_update(no_key=True, of=("self",)).get(pk=export.pk)
    if row.state == ExportState.MAKING:
        raise Conflict("This export is being made. Stop its job, or wait for its end, then delete it.")
    if row.state == ExportState.READY:
        clear_export(row)
        write_audit_entry(user, "dataset.export_delete", row.dataset, form=row.form, format=row.format)
    return list_dataset_exports(row.dataset).get(pk=row.pk)


def list_dataset_exports(dataset: Dataset) -> QuerySet[DatasetExport]:
    """Return the exports of a dataset, newest first."""
    return dataset.exports.select_related("job", "created_by", "dataset").order_by("-pk")


def has_archive(export: DatasetExport) -> bool:
    """Return whether the archive of an export can be downloaded."""
    return export.state == ExportState.READY and bool(export.stored) and default_storage.exists(export.stored)
