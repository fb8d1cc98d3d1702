"""Downloads of the worker that holds a job: its dataset, its first model, the checkpoint it resumes from."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase

from synthesis.errors import InputError
from webapp.common.errors import NotFound
from webapp.common.rest.file_response import build_file_response
from webapp.datasets.storage import stored_name
from webapp.runs.checkpoint_files import find_last_checkpoint, get_model_parts, list_model_files
from webapp.runs.models import Checkpoint, TrainingJob
from webapp.workers import claims


def download_file(public_id: str, number: int, what: str, path: str, wanted: str, user: Any = None) -> HttpResponseBase:
    """Return a file, or the bytes of it that the header `Range` (`wanted`) names.

    Raises as `claims.held`; NotFound; RangeNotSatisfiable.
    """
    job, _ = claims.require_attempt(public_id, number, user)
    try:
        stored = _get_stored_name(job, what, path)
    except InputError as error:
        raise NotFound(str(error)) from error
    return build_file_response(stored, f"{what}: {path}", wanted)


def _get_stored_name(job: TrainingJob, what: str, path: str) -> str:
    """Return the name of a file in the file store. Raises InputError: there is no such file."""
    if what in ("dataset", "evaluation"):
        dataset = job.dataset if what == "dataset" else job.evaluation
        if dataset is None:
            raise InputError("evaluation: this job has no dataset of its own for that.")
        return stored_name(dataset, path)
    checkpoint = find_last_checkpoint(job) if what == "resume" else _get_model_part(job, what)
    if checkpoint is None:
        raise InputError(f"{what}: this job has no files of that kind.")
    files = list(checkpoint.files.all()) if what == "resume" else list_model_files(checkpoint)
    file = next((file for file in files if file.path == path and file.stored), None)
    if file is None:
        raise InputError(f"{what}: there is no file {path[:100]!a}.")
    return file.stored


def _get_model_part(job: TrainingJob, what: str) -> Checkpoint | None:
    """Return the checkpoint of `model`, or of `model-1` and so on below it. Raises InputError."""
    parts, depth = get_model_parts(job).checkpoints, int(what.partition("-")[2] or 0)
    return parts[depth] if depth < len(parts) else None
