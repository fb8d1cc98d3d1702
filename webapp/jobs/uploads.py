"""Uploaded files between the request that stores them and the job that reads them."""

from __future__ import annotations

import uuid
import zlib
from typing import Any

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import default_storage

from synthesis.errors import InputError
from synthesis.formats.atif_reader import has_atif_mark
from synthesis.formats.files import Entry, parse_entries
from synthesis.formats.values import clean_text
from webapp.common.errors import QuotaExceeded
from webapp.jobs.models import OPEN_STATES, Job
from webapp.jobs.services import FailedWithResult

FOLDER = "imports"
IMPORTS = ("import_envscaler", "import_trajectories", "import_mcp_servers", "import_tool_documents")
MOST_WAITING = 8
HEAD_BYTES = 1 << 16
"""Bytes of a file, unpacked, that are read to determine its kind."""


def is_atif(file: File[bytes]) -> bool:
    """Return whether a file begins as trajectories in ATIF do, plain or gzipped."""
    head = file.read(HEAD_BYTES)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        except zlib.error:  # the reader reports it
            return False
    return has_atif_mark(head)


def require_no_atif(field: str, file: File[bytes] | None, holds: str) -> None:
    """Raise `InputError` if a file sent to the API holds trajectories in ATIF, which the endpoint does not read."""
    if file is not None and is_atif(file):
        told = f"{field}: this file holds trajectories in ATIF (Harbor), not {holds}."
        raise InputError(f"{told} Send it to POST /imports/trajectories.")


def get_upload_limit() -> int:
    return int(settings.UPLOAD_LIMIT_MIB) << 20


def require_few_waiting(user: Any) -> None:
    """Raise `QuotaExceeded` if too many imports of a user wait or run: their files could fill the disk."""
    if user is None:
        return
    waiting = Job.objects.filter(created_by=user, kind__in=IMPORTS, state__in=OPEN_STATES).count()
    if waiting >= MOST_WAITING:
        raise QuotaExceeded(f"{waiting} of your imports wait or run: send this file once one of them has ended.")


def store_upload(user: Any, file: File[bytes]) -> dict[str, str]:
    """Store an uploaded file under a name made here. Raises `InputError`: it is empty or too large; `QuotaExceeded`."""
    require_few_waiting(user)
    original = str(getattr(file, "name", "") or "upload").replace("\\", "/").rsplit("/", 1)[-1][:200]
    if not file.size:
        raise InputError(f"{original}: the file is empty.")
    if file.size > get_upload_limit():
        raise InputError(f"{original}: larger than {settings.UPLOAD_LIMIT_MIB} MiB; split it, or compress it.")
    return {"name": default_storage.save(f"{FOLDER}/{uuid.uuid4().hex}", file), "original": original}


def read_upload(stored: dict[str, Any] | None) -> list[Entry]:
    """Return the records of a stored upload; none if there was no file. Raises `InputError`."""
    return parse_entries(read_upload_bytes(stored), stored["original"], limit=get_upload_limit()) if stored else []


def read_upload_bytes(stored: dict[str, Any]) -> bytes:
    """Return a stored upload as it came, at most one byte more than is allowed. Raises `InputError`: it is gone."""
    try:
        with default_storage.open(stored["name"], "rb") as stream:
            return bytes(stream.read(get_upload_limit() + 1))
    except FileNotFoundError as error:
        raise InputError(f"{stored['original']}: the uploaded file is no longer here; upload it again.") from error


def require_records(*parts: tuple[dict[str, Any] | None, list[Entry]]) -> None:
    """Raise `InputError` if no file of an upload holds a record: an import of nothing is a mistake."""
    if not any(entries for _, entries in parts):
        names = " and ".join(stored["original"] for stored, _ in parts if stored)
        raise InputError(f"{names}: no records: the list or object in it is empty. Nothing was imported.")


USED = ("created", "updated", "unchanged", "beside", "kept")
"""Counts of an import's result that are of records which could be used."""


def require_success(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result of an import. Raises `FailedWithResult` if every record failed."""
    parts = [result, *(part for part in result.values() if isinstance(part, dict))]
    parts += [part for part in result.get("brought", {}).values() if isinstance(part, dict)]
    used = sum(part[name] for part in parts for name in USED if isinstance(part.get(name), int))
    # A scenario and its task are one record, which both list.
    failed = {f"{failure['place']}: {failure['reason']}": None for part in parts for failure in part.get("failed", ())}
    if failed and not used:
        message = f"{len(failed):,} of {len(failed):,} records failed, so nothing was imported. The first: "
        raise FailedWithResult(clean_text(message + next(iter(failed)))[:1_000], result)
    return result


def drop_uploads(*stored: dict[str, Any] | None) -> None:
    for item in stored:
        if item:
            default_storage.delete(item["name"])
