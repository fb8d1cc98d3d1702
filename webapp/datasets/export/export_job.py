"""Job that makes the files of an export, packs them and keeps the archive."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from django.core.files.base import File
from django.core.files.storage import default_storage

from synthesis.errors import EnvariumError, InputError
from webapp.common.error_responses import describe_outage
from webapp.common.events.services import publish_topics
from webapp.datasets.export.files import WrittenExport, pack_folder, write_files
from webapp.datasets.export.record_shapes import FORMS, FormName, require_format
from webapp.datasets.models import DatasetExport, ExportState
from webapp.datasets.storage import drop_file
from webapp.jobs.claims import Cancelled
from webapp.jobs.context import JobContext

KIND = "export_dataset"
FOLDER = "exports/datasets"
GONE = "Making it ended without a result; see its job."
STOPPED = "It was stopped. Export again when you want it."
KEPT = 20
"""Number of exports whose archives are kept, of all datasets; older ones are made again on request."""


def export_dataset(context: JobContext) -> dict[str, Any]:
    """Make the export that the payload names. A second attempt starts over; a finished export is left alone."""
    export = DatasetExport.objects.select_related("dataset").filter(pk=context.payload["export"]).first()
    if export is None:
        raise InputError("The export no longer exists.")
    if export.state == ExportState.READY:
        return build_export_result(export)
    DatasetExport.objects.filter(pk=export.pk).update(state=ExportState.MAKING, error="")
    why = GONE
    try:
        left_out = _make_archive(export, context)
    except Cancelled:
        why = STOPPED
        raise
    except EnvariumError as error:
        why = str(error)
        raise
    finally:
        # A temporary failure, such as a full disk, starts the job again: the export must not be marked as failed.
        if not describe_outage(sys.exception()) and context.claim.held().exists():
            making_rows = DatasetExport.objects.filter(pk=export.pk, state=ExportState.MAKING)
            making_rows.update(state=ExportState.FAILED, error=why[:10_000])
        publish_topics([f"job:{context.job_id}"])
    clear_old_exports()
    return build_export_result(export) | ({"left_out": left_out} if left_out else {})


def _make_archive(export: DatasetExport, context: JobContext) -> int:
    """Make the files and store them; return how many rows do not fit the form."""
    form, total = get_form_name(export), export.dataset.train_rows + export.dataset.test_rows
    name = f"{FOLDER}/{export.public_id}-{context.claim.number}.zip"
    with tempfile.TemporaryDirectory(prefix="envarium-export-") as temporary_folder:
        folder, archive = Path(temporary_folder) / "files", Path(temporary_folder) / "export.zip"
        folder.mkdir()
        note = f"Writing {FORMS[form].label} rows"
        written_export = write_files(
            export.dataset,
            form,
            require_format(export.format, FORMS[form]),
            folder,
            lambda rows: context.progress(rows, total, note),
        )
        context.progress(total, total, "Packing them")
        pack_folder(folder, archive, context.check)
        drop_file(name)
        with archive.open("rb") as file:
            stored_name = default_storage.save(name, File(file))
        _save_result(export, written_export, stored_name, archive.stat().st_size, context)
        return written_export.left_out


def _save_result(export: DatasetExport, written: WrittenExport, stored: str, size: int, context: JobContext) -> None:
    before = export.stored
    export.stored, export.bytes = stored, size
    export.sha256, export.rows = written.sha256, written.rows
    export.files = [file.model_dump() for file in written.files]
    export.state, export.error = ExportState.READY, ""
    context.check()
    export.save(update_fields=["stored", "bytes", "sha256", "rows", "files", "state", "error"])
    if before and before != stored:
        drop_file(before)


def get_form_name(export: DatasetExport) -> FormName:
    return next(name for name in FORMS if name == export.form)


def clear_old_exports() -> None:
    """Remove the archives of all but the newest exports."""
    ready = DatasetExport.objects.filter(state=ExportState.READY)
    for export in ready.order_by("-pk")[KEPT:]:
        clear_export(export)


def clear_export(export: DatasetExport) -> None:
    """Remove an export's archive; its row stays, with its hashes."""
    DatasetExport.objects.filter(pk=export.pk).update(state=ExportState.CLEARED, stored="")
    if export.stored:
        drop_file(export.stored)


def build_export_result(export: DatasetExport) -> dict[str, Any]:
    return {
        "export": export.public_id,
        "dataset": export.dataset.public_id,
        "rows": export.rows,
        "bytes": export.bytes,
        "sha256": export.sha256,
    }


def close_export(job_id: int) -> None:
    """Mark the export of a job that ended without its handler as failed."""
    DatasetExport.objects.filter(job=job_id, state=ExportState.MAKING).update(state=ExportState.FAILED, error=GONE)
