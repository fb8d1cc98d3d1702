"""Assignment of a claimed job: its configuration, and the files to fetch with their sizes and hashes."""

from __future__ import annotations

from typing import Any, Literal

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from training.config import EngineKind
from webapp.datasets.models import Dataset
from webapp.datasets.storage import files_of
from webapp.runs.checkpoint_files import last_checkpoint, model_files, model_parts
from webapp.runs.evaluations.progress import reported, served_model
from webapp.runs.launch.estimates import spent
from webapp.runs.models import TrainingJob
from webapp.runs.spec import DEMO_MODEL, ENDPOINT


class FileToFetch(Frozen):
    """`url` is below the API's address and takes `Range`."""

    path: str
    bytes: int
    sha256: str
    url: str


class ModelToTrain(Frozen):
    """`demo`: the worker builds it from the dataset's words. `named`: it lies at the worker's place. `adapter`: its
    files are merged into `base`. `asked`: it is behind the assignment's `policy`."""

    name: str
    kind: Literal["demo", "files", "named", "adapter", "asked"]
    files: list[FileToFetch] = []
    base: ModelToTrain | None = None


class DatasetToFetch(Frozen):
    id: str
    sha256: str
    files: list[FileToFetch]


class ToResume(Frozen):
    """The last whole checkpoint, whose files go into `checkpoints/checkpoint-STEP`."""

    step: int
    files: list[FileToFetch]


class ModelToAsk(Frozen):
    """Who plays the user, judges or is evaluated: an OpenAI-compatible address of this API, whose key is the worker's
    token."""

    base_url: str
    model: str


class Assignment(Frozen):
    """A claimed job. Every later write names `attempt`. `spent_s` is what earlier attempts took of `limits.hours`. Of
    an evaluation the first `reported` reports are here."""

    job: str
    attempt: int
    config: dict[str, Any]
    model: ModelToTrain
    dataset: DatasetToFetch
    evaluation: DatasetToFetch | None = None
    resume: ToResume | None = None
    engine: EngineKind = "transformers"
    user: ModelToAsk | None = None
    judge: ModelToAsk | None = None
    policy: ModelToAsk | None = None
    reported: int = 0
    seed: int = 0
    spent_s: float = 0.0


def assignment(job: TrainingJob, base_url: str) -> Assignment:
    """The assignment of a claimed job; `base_url` is the API's. Raises InputError: something is gone."""
    at = f"{base_url}/training/jobs/{job.public_id}/attempts/{job.attempt}"
    resumed = last_checkpoint(job)
    return Assignment(
        job=job.public_id,
        attempt=job.attempt,
        config=job.config,
        model=_model(job, at),
        dataset=_dataset(job.dataset, "dataset", at),
        evaluation=_dataset(job.evaluation, "evaluation", at) if job.evaluation is not None else None,
        resume=ToResume(step=resumed.step, files=_files(resumed.files.all(), "resume", at)) if resumed else None,
        engine=_engine(job.engine),
        user=_to_ask(job.user_endpoint_id, job.user_model, f"{at}/llm/user/v1"),
        judge=_to_ask(job.judge_endpoint_id, job.judge_model, f"{at}/llm/judge/v1"),
        policy=_policy(job, f"{at}/llm/policy/v1"),
        reported=reported(job) if job.is_evaluation else 0,
        seed=int(job.config.get("seed", 0)),
        spent_s=round(spent(job) or 0.0, 3),
    )


def _model(job: TrainingJob, at: str) -> ModelToTrain:
    if job.model == DEMO_MODEL:
        return ModelToTrain(name=DEMO_MODEL, kind="demo")
    if job.model.startswith(ENDPOINT):
        return ModelToTrain(name=job.model, kind="asked")
    parts = model_parts(job)
    told = None if parts.whole else ModelToTrain(name=parts.name, kind="named")
    for depth, checkpoint in reversed(list(enumerate(parts.checkpoints))):
        name = f"ft:{checkpoint.job.public_id}" + ("" if checkpoint.final else f":step-{checkpoint.step}")
        files = _files(model_files(checkpoint), f"model-{depth}" if depth else "model", at)
        whole = checkpoint is parts.whole
        told = ModelToTrain(name=name, kind="files" if whole else "adapter", files=files, base=None if whole else told)
    assert told is not None
    return told


def _engine(name: str) -> EngineKind:
    known: dict[str, EngineKind] = {"vllm": "vllm", "vllm_server": "vllm_server"}
    return known.get(name, "transformers")


def _to_ask(endpoint: int | None, model: str, base_url: str) -> ModelToAsk | None:
    return ModelToAsk(base_url=base_url, model=model) if endpoint is not None else None


def _policy(job: TrainingJob, base_url: str) -> ModelToAsk | None:
    """Who is evaluated, where that is behind an address. Raises InputError: no endpoint lists the model any more."""
    if not job.model.startswith(ENDPOINT):
        return None
    return ModelToAsk(base_url=base_url, model=served_model(job)[1])


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
