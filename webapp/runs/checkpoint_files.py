"""Files of checkpoints: the model a job begins with, the state it resumes from, downloads for people."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.core.files.storage import default_storage
from django.db.models import QuerySet
from django.http.response import HttpResponseBase

from synthesis.errors import InputError
from training.job import MANIFEST
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import NotFound
from webapp.common.query_params import parse_whole_number
from webapp.common.rest.file_response import build_file_response
from webapp.runs.models import Checkpoint, CheckpointFile, CheckpointState, TrainingJob
from webapp.runs.spec import AFTER, DEMO_MODEL

RESUME_ONLY = (".pt", ".pth")
"""What only a trainer that goes on reads, with `weights_only`; never handed out as a model."""

ADAPTER = "adapter_config.json"
"""What a checkpoint of a job that trains adapters holds in place of a model's `config.json`."""
DEEPEST = 8
"""Adapters upon adapters of earlier jobs, at most."""


@dataclass(frozen=True)
class ModelParts:
    """Parts of a job's first model: adapters, the outermost first, upon a `whole` model of an earlier job,
    or else upon the model of this `name`."""

    adapters: tuple[Checkpoint, ...]
    whole: Checkpoint | None
    name: str

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Checkpoints by depth, as downloads name them."""
        return self.adapters if self.whole is None else (*self.adapters, self.whole)


def ready_checkpoints(checkpoints: QuerySet[Checkpoint]) -> QuerySet[Checkpoint]:
    return checkpoints.filter(state=CheckpointState.READY)


def find_last_checkpoint(job: TrainingJob) -> Checkpoint | None:
    """Return the complete checkpoint that the job's next attempt resumes from, if any."""
    rows = ready_checkpoints(Checkpoint.objects.filter(job=job, final=False, superseded=False))
    return rows.order_by("-step", "-attempt").first()


def find_model_checkpoint(job: TrainingJob) -> Checkpoint | None:
    """Return the checkpoint that is the job's model (`after`, `ft:JOB`, `ft:JOB:step-N`); None for a model of another
    kind.

    Raises InputError: it does not exist.
    """
    if job.model == AFTER:
        source = job.after
        if source is None:
            raise InputError("model: `after` needs a job in `after` whose model is taken.")
        _require_no_doubt(source)
        return _get_final_checkpoint(source)
    return find_named_checkpoint(job.model)


def find_named_checkpoint(model: str) -> Checkpoint | None:
    """Return the checkpoint that `ft:JOB` or `ft:JOB:step-N` names; None for a name of another kind.

    Raises InputError: it does not exist.
    """
    if not model.startswith("ft:"):
        return None
    name, _, step = model.removeprefix("ft:").partition(":step-")
    source = TrainingJob.objects.filter(public_id=name).first()
    if source is None:
        raise InputError(f"model: there is no training job {name[:60]}.")
    _require_no_doubt(source)
    if not step:
        return _get_final_checkpoint(source)
    rows = ready_checkpoints(Checkpoint.objects.filter(job=source, final=False, superseded=False))
    number = parse_whole_number(step)
    row = rows.filter(step=number).order_by("-attempt").first() if number is not None else None
    if row is None:
        raise InputError(f"model: {model[:100]} is no checkpoint that is kept; choose one of the job's list.")
    if row.files.filter(path=MANIFEST).exists():
        raise InputError(
            f"model: {model[:100]} is kept in shards near its worker, for its own job to go on from; take the "
            "job's final model, or a job with hardware.sharding = copies."
        )
    return row


def get_model_parts(job: TrainingJob) -> ModelParts:
    """Return the parts of the job's first model.

    Raises InputError: a part does not exist (any more), or is stored nowhere: the demo's model is built on the spot.
    """
    adapters: list[Checkpoint] = []
    while (checkpoint := find_model_checkpoint(job)) is not None:
        if not _is_adapter(checkpoint):
            return ModelParts(tuple(adapters), checkpoint, "")
        adapters.append(checkpoint)
        job = checkpoint.job
        if len(adapters) > DEEPEST:
            raise InputError(f"model: more than {DEEPEST} adapters lie upon one another; begin with a final model.")
    if adapters and job.model == DEMO_MODEL:
        raise InputError(
            f"model: the steps of {job.public_id} are adapters, upon a model that was built on the spot for it and is "
            f"kept nowhere. Begin with the model that it ends with (ft:{job.public_id}), which is whole."
        )
    return ModelParts(tuple(adapters), None, job.model)


def get_first_model(job: TrainingJob) -> str:
    """Return the model that a worker has to have or fetch by itself: the one below the adapters, else the job's own."""
    if not (job.model.startswith("ft:") and ":step-" in job.model):
        return job.model
    try:
        return get_model_parts(job).name or job.model
    except InputError:
        return job.model  # the worker that takes the job gets the error


def _is_adapter(checkpoint: Checkpoint) -> bool:
    paths = {file.path for file in checkpoint.files.all()}
    return ADAPTER in paths and "config.json" not in paths


def list_model_files(checkpoint: Checkpoint) -> list[CheckpointFile]:
    """Return the files of a checkpoint that make a model."""
    return [file for file in checkpoint.files.all() if not file.path.endswith(RESUME_ONLY)]


def read_object(stored: str) -> dict[str, Any]:
    """Return a JSON object in the file store; empty if none can be read, which the worker that takes the job will
    report."""
    try:
        with default_storage.open(stored, "rb") as file:
            value = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _require_no_doubt(job: TrainingJob) -> None:
    """Raise InputError if what the job's worker reported is not true, and no person has resumed the job in spite of
    it."""
    if job.doubt:
        raise InputError(
            f"model: what the worker of {job.public_id} reported is not true, so its models are not given out. Look at "
            "the job's page, and resume it there if they count all the same."
        )


def _get_final_checkpoint(job: TrainingJob) -> Checkpoint:
    row = ready_checkpoints(Checkpoint.objects.filter(job=job, final=True)).order_by("-attempt").first()
    if row is None:
        raise InputError(f"model: the job {job.public_id} has no final model; it ended as {job.state}.")
    return row


def list_public_files(checkpoint: Checkpoint) -> list[CheckpointFile]:
    """Return the files of a checkpoint that people may download: none of the resume state, which may hold a pickle."""
    if checkpoint.state != CheckpointState.READY:
        return []
    return [file for file in checkpoint.files.all() if file.is_handed_out]


def serve_checkpoint_file(checkpoint: Checkpoint, path: str, wanted: str, user: Any) -> HttpResponseBase:
    """Return a file of a checkpoint, or the bytes of it that the header `Range` (`wanted`) names.

    Raises NotFound with the reason; RangeNotSatisfiable.
    """
    if checkpoint.state != CheckpointState.READY:
        raise NotFound(f"The checkpoint {checkpoint.public_id} is {checkpoint.state}: it has no files to download.")
    file = next((file for file in checkpoint.files.all() if file.path == path), None)
    if file is None or not file.stored:
        raise NotFound(f"The checkpoint {checkpoint.public_id} has no file {path[:100]!a}.")
    if not file.is_handed_out:
        raise NotFound(f"{path} is for resuming, which workers do; it is not handed out.")
    response = build_file_response(file.stored, path, wanted, path.rpartition("/")[2])
    if not wanted or wanted.startswith("bytes=0-"):
        write_audit_entry(user, "checkpoint.download", checkpoint, path=path)
    response["X-Content-SHA256"] = file.sha256
    return response
