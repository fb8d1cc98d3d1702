"""What a worker is told of a job: configuration, and which files it fetches with their sizes and hashes."""

from __future__ import annotations

from typing import Any, Literal

from django.db.models import QuerySet

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from webapp.runs.dataset_files import files_of
from webapp.runs.models import Checkpoint, CheckpointFile, CheckpointState, Dataset, TrainingJob
from webapp.runs.spec import AFTER, DEMO_MODEL

RESUME_ONLY = (".pt", ".pth")
"""What only a trainer that goes on reads, with `weights_only`; never handed out as a model."""


class FileToFetch(Frozen):
    """`url` is below the API's address and takes `Range`."""

    path: str
    bytes: int
    sha256: str
    url: str


class ModelToTrain(Frozen):
    """`demo`: the worker builds it from the dataset's words. `named`: it lies at the worker's place."""

    name: str
    kind: Literal["demo", "files", "named"]
    files: list[FileToFetch] = []


class DatasetToFetch(Frozen):
    id: str
    sha256: str
    files: list[FileToFetch]


class ToResume(Frozen):
    """The last whole checkpoint, whose files go into `checkpoints/checkpoint-STEP`."""

    step: int
    files: list[FileToFetch]


class UserModel(Frozen):
    """Who plays the user: an OpenAI-compatible address of this API; the worker's token is the key."""

    base_url: str
    model: str


class Assignment(Frozen):
    """A claimed job. Every later write names `attempt`."""

    job: str
    attempt: int
    config: dict[str, Any]
    model: ModelToTrain
    dataset: DatasetToFetch
    evaluation: DatasetToFetch | None = None
    resume: ToResume | None = None
    engine: Literal["transformers", "vllm"] = "transformers"
    user: UserModel | None = None
    seed: int = 0


def assignment(job: TrainingJob, base_url: str) -> Assignment:
    """What the holder of a claimed job is told; `base_url` is the API's. Raises InputError: something is gone."""
    at = f"{base_url}/training/jobs/{job.public_id}/attempts/{job.attempt}"
    resumed = last_checkpoint(job)
    user = None
    if job.user_endpoint_id is not None:
        user = UserModel(base_url=f"{at}/llm/v1", model=job.user_model)
    return Assignment(
        job=job.public_id,
        attempt=job.attempt,
        config=job.config,
        model=_model(job, at),
        dataset=_dataset(job.dataset, "dataset", at),
        evaluation=_dataset(job.evaluation, "evaluation", at) if job.evaluation is not None else None,
        resume=ToResume(step=resumed.step, files=_files(resumed.files.all(), "resume", at)) if resumed else None,
        engine="vllm" if job.engine == "vllm" else "transformers",
        user=user,
        seed=int(job.config.get("seed", 0)),
    )


def whole(checkpoints: QuerySet[Checkpoint]) -> QuerySet[Checkpoint]:
    return checkpoints.filter(state=CheckpointState.READY)


def last_checkpoint(job: TrainingJob) -> Checkpoint | None:
    """The whole checkpoint that the job's next attempt goes on from."""
    rows = whole(Checkpoint.objects.filter(job=job, final=False, superseded=False))
    return rows.order_by("-step", "-attempt").first()


def model_checkpoint(job: TrainingJob) -> Checkpoint | None:
    """The checkpoint that is the job's model (`after`, `ft:JOB`, `ft:JOB:step-N`); None for a model of another kind.

    Raises InputError: it is not there.
    """
    if job.model == AFTER:
        source = job.after
        if source is None:
            raise InputError("model: `after` needs a job in `after` whose model is taken.")
        return _final(source)
    if not job.model.startswith("ft:"):
        return None
    name, _, step = job.model.removeprefix("ft:").partition(":step-")
    found = TrainingJob.objects.filter(public_id=name).first()
    if found is None:
        raise InputError(f"model: there is no training job {name[:60]}.")
    if not step:
        return _final(found)
    rows = whole(Checkpoint.objects.filter(job=found, final=False, superseded=False))
    row = rows.filter(step=int(step)).order_by("-attempt").first() if step.isdecimal() and len(step) < 10 else None
    if row is None:
        raise InputError(f"model: {job.model[:100]} is no checkpoint that is kept; choose one of the job's list.")
    return row


def model_files(checkpoint: Checkpoint) -> list[CheckpointFile]:
    """The files of a checkpoint that make a model."""
    return [file for file in checkpoint.files.all() if not file.path.endswith(RESUME_ONLY)]


def _final(job: TrainingJob) -> Checkpoint:
    row = whole(Checkpoint.objects.filter(job=job, final=True)).order_by("-attempt").first()
    if row is None:
        raise InputError(f"model: the job {job.public_id} has no final model; it ended as {job.state}.")
    return row


def _model(job: TrainingJob, at: str) -> ModelToTrain:
    if job.model == DEMO_MODEL:
        return ModelToTrain(name=DEMO_MODEL, kind="demo")
    checkpoint = model_checkpoint(job)
    if checkpoint is None:
        return ModelToTrain(name=job.model, kind="named")
    name = f"ft:{checkpoint.job.public_id}" + ("" if checkpoint.final else f":step-{checkpoint.step}")
    return ModelToTrain(name=name, kind="files", files=_files(model_files(checkpoint), "model", at))


def _files(files: Any, what: str, at: str) -> list[FileToFetch]:
    return [_file(file.path, file.bytes, file.sha256, what, at) for file in files]


def _file(path: str, size: int, sha256: str, what: str, at: str) -> FileToFetch:
    return FileToFetch(path=path, bytes=size, sha256=sha256, url=f"{at}/download?what={what}&path={path}")


def _dataset(dataset: Dataset, what: str, at: str) -> DatasetToFetch:
    try:
        told = [_file(file.path, file.bytes, file.sha256, what, at) for file in files_of(dataset)]
    except InputError as error:
        raise InputError(f"{what}: {error}") from error
    return DatasetToFetch(id=dataset.public_id, sha256=dataset.sha256, files=told)
