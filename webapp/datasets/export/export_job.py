"""Job that makes the files of an export, packs them and keeps the archive."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from django.core.files.base import File
from django.core.files.storage import default_storage

from synthesis.errors import EnvariumError, InputError
from webapp.datasets.export.files import WrittenExport, pack, write_files
from webapp.datasets.export.record_forms import FORMS, FormName, require_format
from webapp.datasets.models import DatasetExport, ExportState
from webapp.datasets.storage import drop
from webapp.error_responses import unavailable
from webapp.events.services import publish
from webapp.jobs.claims import Cancelled
from webapp.jobs.context import JobContext

KIND = "export_dataset"
FOLDER = "exports/datasets"
GONE = "Making it ended without a result; see its job."
STOPPED = "It was stopped. Export again when you want it."
KEPT = 20
"""Archives of so many exports are kept, of all datasets; older ones are made again when somebody wants them."""


def export_dataset(context: JobContext) -> dict[str, Any]:
    """Make the export that the payload names. A second attempt begins anew; one that is ready is left alone."""
    export = DatasetExport.objects.select_related("dataset").filter(pk=context.payload["export"]).first()
    if export is None:
        raise InputError("The export is gone.")
    if export.state == ExportState.READY:
        return result_of(export)
    DatasetExport.objects.filter(pk=export.pk).update(state=ExportState.MAKING, error="")
    why = GONE
    try:
        left_out = _make(export, context)
    except Cancelled:
        why = STOPPED
        raise
    except EnvariumError as error:
        why = str(error)
        raise
    finally:
        # What passes by itself, as a full disk does, begins the job again.
        if not unavailable(sys.exception()) and context.claim.held().exists():
            waiting = DatasetExport.objects.filter(pk=export.pk, state=ExportState.MAKING)
            waiting.update(state=ExportState.FAILED, error=why[:10_000])
        publish([f"job:{context.job_id}"])
    clear_old()
    return result_of(export) | ({"left_out": left_out} if left_out else {})


def _make(export: DatasetExport, context: JobContext) -> int:
    """Make the files and keep them; says how many rows do not fit the form."""
    form, total = form_of(export), export.dataset.train_rows + export.dataset.test_rows
    name = f"{FOLDER}/{export.public_id}-{context.claim.number}.zip"
    with tempfile.TemporaryDirectory(prefix="envarium-export-") as made:
        folder, archive = Path(made) / "files", Path(made) / "export.zip"
        folder.mkdir()
        told = f"Writing {FORMS[form].label} rows"
        written = write_files(
            export.dataset,
            form,
            require_format(export.format, FORMS[form]),
            folder,
            lambda rows: context.progress(rows, total, told),
        )
        context.progress(total, total, "Packing them")
        pack(folder, archive, context.check)
        drop(name)
        with archive.open("rb") as file:
            stored = default_storage.save(name, File(file))
        _write(export, written, stored, archive.stat().st_size, context)
        return written.left_out


def _write(export: DatasetExport, written: WrittenExport, stored: str, size: int, context: JobContext) -> None:
    before = export.stored
    export.stored, export.bytes = stored, size
    export.sha256, export.rows = written.sha256, written.rows
    export.files = [file.model_dump() for file in written.files]
    export.state, export.error = ExportState.READY, ""
    context.check()
    export.save(update_fields=["stored", "bytes", "sha256", "rows", "files", "state", "error"])
    if before and before != stored:
        drop(before)


def form_of(export: DatasetExport) -> FormName:
    return next(name for name in FORMS if name == export.form)


def clear_old() -> None:
    """Remove the archives of all but the newest exports."""
    ready = DatasetExport.objects.filter(state=ExportState.READY)
    for export in ready.order_by("-pk")[KEPT:]:
        clear(export)


def clear(export: DatasetExport) -> None:
    """Remove an export's archive; its row stays, with its hashes."""
    DatasetExport.objects.filter(pk=export.pk).update(state=ExportState.CLEARED, stored="")
    if export.stored:
        drop(export.stored)


def result_of(export: DatasetExport) -> dict[str, Any]:
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
