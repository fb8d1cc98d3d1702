"""Downloads of the worker that holds a job: its dataset, its first model, the checkpoint it resumes from."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase

from synthesis.errors import InputError
from webapp.datasets.storage import stored_name
from webapp.errors import NotFound
from webapp.rest.file_response import file_response
from webapp.runs.checkpoint_files import last_checkpoint, model_files, model_parts
from webapp.runs.models import Checkpoint, TrainingJob
from webapp.workers import claims


def download(public_id: str, number: int, what: str, path: str, wanted: str, user: Any = None) -> HttpResponseBase:
    """A file, or the bytes of it that the header `Range` (`wanted`) names.

    Raises as `claims.held`; NotFound; RangeNotSatisfiable.
    """
    job, _ = claims.held(public_id, number, user)
    try:
        stored = _stored(job, what, path)
    except InputError as error:
        raise NotFound(str(error)) from error
    return file_response(stored, f"{what}: {path}", wanted)


def _stored(job: TrainingJob, what: str, path: str) -> str:
    """Raises InputError: there is no such file."""
    if what in ("dataset", "evaluation"):
        dataset = job.dataset if what == "dataset" else job.evaluation
        if dataset is None:
            raise InputError("evaluation: this job has no dataset of its own for that.")
        return stored_name(dataset, path)
    checkpoint = last_checkpoint(job) if what == "resume" else _part(job, what)
    if checkpoint is None:
        raise InputError(f"{what}: this job has no files of that kind.")
    files = list(checkpoint.files.all()) if what == "resume" else model_files(checkpoint)
    file = next((file for file in files if file.path == path and file.stored), None)
    if file is None:
        raise InputError(f"{what}: there is no file {path[:100]!a}.")
    return file.stored


def _part(job: TrainingJob, what: str) -> Checkpoint | None:
    """`model`, or below it `model-1` and so on. Raises InputError."""
    parts, depth = model_parts(job).checkpoints, int(what.partition("-")[2] or 0)
    return parts[depth] if depth < len(parts) else None
