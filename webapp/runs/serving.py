"""Files for the worker that holds a job (its dataset, the model it begins with, the checkpoint it goes on from), and
those of checkpoints for people. Whole, or the part that `Range` names."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import IO, Any

from asgiref.sync import sync_to_async
from django.core.files.storage import default_storage
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from synthesis.errors import InputError
from webapp.accounts.services import audit
from webapp.rest.problems import Problem
from webapp.runs import claims
from webapp.runs.assigning import last_checkpoint, model_checkpoint, model_files
from webapp.runs.dataset_files import stored_name
from webapp.runs.models import Checkpoint, CheckpointFile, CheckpointState, TrainingJob

BLOCK = 1 << 20
IN_ONE_PIECE = 16 * BLOCK
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@dataclass(frozen=True)
class Span:
    """Bytes from `first` up to, not with, `end`, of a file of `size`."""

    first: int
    end: int
    size: int


def download(public_id: str, number: int, what: str, path: str, wanted: str, user: Any = None) -> HttpResponseBase:
    """A file, or the bytes of it that the header `Range` (`wanted`) names.

    Raises Problem: as `claims.held`, 404, 416.
    """
    job, _ = claims.held(public_id, number, user)
    try:
        stored = _stored(job, what, path)
    except InputError as error:
        raise Problem(404, str(error)) from error
    return _answer(stored, f"{what}: {path}", wanted)


def files_of(checkpoint: Checkpoint) -> list[CheckpointFile]:
    """What people may have of a checkpoint: never what resuming alone needs, where a pickle may hide."""
    if checkpoint.state != CheckpointState.READY:
        return []
    return [file for file in checkpoint.files.all() if file.is_handed_out]


def checkpoint_file(checkpoint: Checkpoint, path: str, wanted: str, user: Any) -> HttpResponseBase:
    """A file of a checkpoint, or the bytes of it that the header `Range` (`wanted`) names.

    Raises Problem: 404 with the reason, 416.
    """
    if checkpoint.state != CheckpointState.READY:
        raise Problem(404, f"The checkpoint {checkpoint.public_id} is {checkpoint.state}: it has no files to download.")
    file = next((one for one in checkpoint.files.all() if one.path == path), None)
    if file is None or not file.stored:
        raise Problem(404, f"The checkpoint {checkpoint.public_id} has no file {path[:100]!a}.")
    if not file.is_handed_out:
        raise Problem(404, f"{path} is for resuming, which workers do; it is not handed out.")
    response = _answer(file.stored, path, wanted, path.rpartition("/")[2])
    if not wanted or wanted.startswith("bytes=0-"):
        audit(user, "checkpoint.download", checkpoint, path=path)
    response["X-Content-SHA256"] = file.sha256
    return response


def _answer(stored: str, what: str, wanted: str, name: str = "") -> HttpResponseBase:
    """Raises Problem: 404, 416."""
    try:
        size = default_storage.size(stored)
        file = default_storage.open(stored, "rb")
    except FileNotFoundError as error:
        raise Problem(404, f"{what} is not in the file store any more.") from error
    claims.rest()
    try:
        span = _span(wanted, size)
    except Problem:
        file.close()
        raise
    return _response(file, span, name, partial=bool(wanted))


def _stored(job: TrainingJob, what: str, path: str) -> str:
    """Raises InputError: there is no such file."""
    if what in ("dataset", "evaluation"):
        dataset = job.dataset if what == "dataset" else job.evaluation
        if dataset is None:
            raise InputError("evaluation: this job has no dataset of its own for that.")
        return stored_name(dataset, path)
    checkpoint = last_checkpoint(job) if what == "resume" else model_checkpoint(job)
    if checkpoint is None:
        raise InputError(f"{what}: this job has no files of that kind.")
    files = list(checkpoint.files.all()) if what == "resume" else model_files(checkpoint)
    found = next((file for file in files if file.path == path and file.stored), None)
    if found is None:
        raise InputError(f"{what}: there is no file {path[:100]!a}.")
    return found.stored


def _span(wanted: str, size: int) -> Span:
    """Raises Problem (416)."""
    if not wanted:
        return Span(0, size, size)
    found = RANGE.fullmatch(wanted.strip())
    first, last = (found[1], found[2]) if found else ("", "")
    if found and first:
        begin, end = int(first), min(int(last) + 1, size) if last else size
    elif found and last:
        begin, end = max(0, size - int(last)), size
    else:
        begin, end = size, size
    if begin >= end:
        said = f"The file has {size:,} bytes; Range names one part of it, such as bytes=0-1048575."
        raise Problem(416, said, code="bad_range", headers={"Content-Range": f"bytes */{size}"})
    return Span(begin, end, size)


def _response(file: IO[bytes], span: Span, name: str, *, partial: bool) -> HttpResponseBase:
    file.seek(span.first)
    length = span.end - span.first
    response: HttpResponseBase
    if length <= IN_ONE_PIECE:
        with file:
            response = HttpResponse(file.read(length), content_type="application/octet-stream")
    else:
        response = StreamingHttpResponse(_pieces(file, length), content_type="application/octet-stream")
    if partial:
        response.status_code = 206
        response["Content-Range"] = f"bytes {span.first}-{span.end - 1}/{span.size}"
    response["Content-Length"] = str(length)
    response["Accept-Ranges"] = "bytes"
    response["Content-Disposition"] = content_disposition_header(True, name) if name else "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response


async def _pieces(file: IO[bytes], length: int) -> AsyncIterator[bytes]:
    with file:
        while length > 0 and (block := await sync_to_async(file.read)(min(BLOCK, length))):
            length -= len(block)
            yield block
