"""Uploaded files of training data: JSON Lines, checked line by line, kept under names made here."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection
from typing import Any, BinaryIO, Literal, cast

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import default_storage
from django.db import transaction
from django.utils import timezone

from synthesis.errors import InputError
from synthesis.formats.files import ARCHIVES
from synthesis.formats.values import clean_text
from synthesis.parser import ReadLimits, read_in_process
from training.dataset import DatasetKind, UploadLimits, UploadReport, drop_lines
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict, QuotaExceeded
from webapp.common.public_ids import new_id
from webapp.datasets.models import FileState, StoredFile
from webapp.datasets.storage import drop_file
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.services import enqueue_job

KIND = "check_file"
FOLDER = "training-files"
PURPOSE = "fine-tune"
LINES = "One JSON object a line is expected (JSON Lines)."
CHECK = "training.dataset.upload_check"
MOST_WAITING = 8
"""Number of a person's large files that may wait for their check."""
AT_ONCE_BYTES = 16 << 20
"""Larger files are checked by a job; until it has ended their state is `uploaded`."""


class BadFile(InputError):
    """A file with problems; nothing of it was kept."""

    def __init__(self, message: str, report: UploadReport | None = None) -> None:
        super().__init__(message)
        self.report = report

    @property
    def keepable(self) -> int:
        """Rows that would be kept if the lines with problems were left out."""
        can_be = (
            self.report is not None
            and self.report.complete
            and self.report.problem_count <= get_upload_limits().left_out
        )
        return self.report.rows if self.report is not None and can_be else 0


def get_upload_limits() -> UploadLimits:
    return UploadLimits(file_bytes=int(settings.UPLOAD_LIMIT_MIB) << 20)


def store_file(
    user: Any, file: File[bytes], kind: DatasetKind | Literal[""] = "", leave_out: bool = False
) -> StoredFile:
    """Check and store a file. `kind` is guessed from its first line if it is not given.

    With `leave_out` lines with problems are left out, otherwise they make the file invalid. A large one is stored at
    once and checked by a job. Raises BadFile, with the lines that are at fault; QuotaExceeded.
    """
    name = (
        clean_text(str(getattr(file, "name", "") or "upload").replace("\\", "/").rsplit("/", 1)[-1])[:200] or "upload"
    )
    size, most = file.size or 0, get_upload_limits().file_bytes
    _require_few_waiting(user, name)
    if not size:
        raise BadFile(f"{name}: the file is empty: one JSON object a line is expected.")
    if size > most:
        raise BadFile(f"{name}: larger than {settings.UPLOAD_LIMIT_MIB} MiB; split it.")
    _require_no_archive(name, file)
    stream = cast(BinaryIO, file)
    row = StoredFile(public_id=new_id("file"), filename=name, purpose=PURPOSE, bytes=size, created_by=user)
    row.kind, row.leave_out = kind, leave_out
    try:
        report = _check_file(row, stream) if size <= AT_ONCE_BYTES else None
        row.kind = row.kind or next(
            read_in_process(f"{CHECK}:detect_kind_as_json", stream, _build_check_arguments(row))
        )
    except InputError as error:
        raise BadFile(f"{name}: {error}") from error
    if report is not None and not report.ok:
        hint = f" {LINES}" if not kind and report.problems[0].line <= 1 else ""
        raise BadFile(f"{name}: {format_first_problem(row.report)}{hint}", report)
    if report is not None and report.left_out:
        _store_kept_lines(row, file, report.left_out, _build_original_name(row))
    else:
        file.seek(0)
        row.stored = default_storage.save(_build_original_name(row), file)
    return _save_file(user, row)


def _require_no_archive(name: str, file: File[bytes]) -> None:
    """Raise BadFile if the file is an archive. Exports of this site are archives that contain the file of rows."""
    head = file.read(4)
    file.seek(0)
    kind = next((kind for magic, kind in ARCHIVES.items() if head.startswith(magic)), "")
    if kind:
        raise BadFile(f"{name}: a {kind} archive; unpack it and upload the file of rows in it, such as train.jsonl.")


def _build_original_name(row: StoredFile) -> str:
    return f"{FOLDER}/{row.public_id}.jsonl"


def _store_kept_lines(row: StoredFile, file: File[bytes], left_out: Collection[int], name: str) -> None:
    """Put a file without these lines into the file store under this name."""
    file.seek(0)
    with tempfile.TemporaryFile() as kept_file:
        for piece in drop_lines(cast(BinaryIO, file), frozenset(left_out)):
            kept_file.write(piece)
        row.bytes = kept_file.tell()
        kept_file.seek(0)
        row.sha256 = hashlib.file_digest(kept_file, "sha256").hexdigest()
        drop_file(name)
        row.stored = default_storage.save(name, File(kept_file))


def _require_few_waiting(user: Any, name: str) -> None:
    unchecked = StoredFile.objects.filter(created_by=user, state=FileState.UPLOADED, deleted_at=None)
    waiting = unchecked.count() if user else 0
    if waiting >= MOST_WAITING:
        raise QuotaExceeded(f"{waiting} of your files wait for their check: send {name} once one of them is checked.")


@transaction.atomic
def _save_file(user: Any, row: StoredFile) -> StoredFile:
    row.save()
    write_audit_entry(user, "file.create", row, public_id=row.public_id, filename=row.filename, bytes=row.bytes)
    if row.state == FileState.UPLOADED:
        enqueue_job(KIND, f"Check the file {row.filename}", {"file": row.pk}, user, subject=f"file:{row.pk}")
    return row


def check_stored_file(context: JobContext) -> dict[str, Any]:
    """Check a large stored file, in its job. A file that is checked already is left alone."""
    row = StoredFile.objects.get(pk=context.payload["file"])
    if row.deleted_at is not None:
        return {"deleted": True}
    if row.state == FileState.UPLOADED:
        with default_storage.open(row.stored, "rb") as file:
            try:
                report = _check_file(row, cast(BinaryIO, file))
            except InputError as error:
                problems = [{"line": 0, "place": "", "message": str(error)}]
                row.state, row.report = FileState.ERROR, {"problems": problems, "problem_count": 1}
                row.save(update_fields=["state", "report"])
                raise
            if report.ok and report.left_out:
                _store_kept_lines(row, file, report.left_out, f"{FOLDER}/{row.public_id}.kept.jsonl")
        _save_checked_file(row)
    if row.stored != _build_original_name(row):
        drop_file(_build_original_name(row))
    if row.state == FileState.ERROR:
        raise InputError(f"{row.filename}: {format_first_problem(row.report)}")
    return {"rows": row.report["rows"], "left_out": len(row.report["left_out"])}


@transaction.atomic
def _save_checked_file(row: StoredFile) -> None:
    # The file may have been deleted during its check: then what the check stored must be deleted too.
    deleted = StoredFile.objects.select_for_update(no_key=True).get(pk=row.pk).deleted_at
    row.save(update_fields=["state", "report", "sha256", "stored", "bytes", "kind"])
    if deleted is not None:
        drop_file(row.stored)


def close_check(job: int) -> None:
    """Mark the file of a check that ended without its handler as unusable, so that it does not wait for ever."""
    payload = Job.objects.values_list("payload", flat=True).get(pk=job)
    report = {"problems": [{"line": 0, "place": "", "message": "Its check did not end; upload it again."}]}
    StoredFile.objects.filter(pk=payload["file"], state=FileState.UPLOADED).update(state=FileState.ERROR, report=report)


@transaction.atomic
def delete_file(user: Any, file: StoredFile) -> None:
    """Delete a file. Raises Conflict: a dataset was made of it, whose results name it."""
    row = StoredFile.objects.select_for_update(no_key=True).get(pk=file.pk)
    used = row.datasets.order_by("pk").first()
    if used is not None:
        raise Conflict(
            f"The file {row.public_id} cannot be deleted: the dataset {used.public_id} was made of it, and results "
            "name that. Archive the dataset if it should not be listed."
        )
    if row.deleted_at is None:
        row.deleted_at = timezone.now()
        row.save(update_fields=["deleted_at"])
        write_audit_entry(user, "file.delete", row, public_id=row.public_id, filename=row.filename)
        stored_name = row.stored
        transaction.on_commit(lambda: default_storage.delete(stored_name) if stored_name else None)


def _build_check_arguments(row: StoredFile) -> dict[str, Any]:
    return {"limits": get_upload_limits().model_dump(), "leave_out": row.leave_out}


def _check_file(row: StoredFile, file: BinaryIO) -> UploadReport:
    asked = {"kind": row.kind, **_build_check_arguments(row)}
    row.report = next(read_in_process(f"{CHECK}:check_upload_as_json", file, asked, ReadLimits(cpu_s=300, wall_s=900)))
    report = UploadReport.model_validate(row.report)
    row.kind = report.kind
    row.sha256 = report.sha256
    row.state = FileState.PROCESSED if report.ok else FileState.ERROR
    return report


def format_first_problem(report: dict[str, Any]) -> str:
    """Return the first problem of a stored report, with its line, and how many more there are."""
    problems = report.get("problems") or [{"message": "it holds no rows"}]
    line, place, message = (problems[0].get(name) for name in ("line", "place", "message"))
    where = [f"line {line}"] if line else []
    where += [str(place)] if place else []
    others = int(report.get("problem_count") or len(problems)) - 1
    more = f". {others} more problem{'s' * (others > 1)}" if others else ""
    return f"{': '.join([', '.join(where), str(message)] if where else [str(message)])}{more}."
