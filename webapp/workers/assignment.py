"""Assignment of a claimed job: its configuration, and the files to fetch with their sizes and hashes."""

from __future__ import annotations

from typing import Any, Literal

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from training.config import EngineKind
from webapp.datasets.models import Dataset
from webapp.datasets.storage import list_dataset_files
from webapp.runs.checkpoint_files import find_last_checkpoint, get_model_parts, list_model_files
from webapp.runs.evaluations.progress import count_reports, get_served_model
from webapp.runs.models import TrainingJob
from webapp.runs.preflight.estimates import get_spent_seconds
from webapp.runs.spec import DEMO_MODEL, ENDPOINT


class FileToFetch(Frozen):
    """File to fetch. `url` is below the API's address and takes `Range`."""

    path: str
    bytes: int
    sha256: str
    url: str


class ModelToTrain(Frozen):
    """Model to train. `demo`: the worker builds it from the dataset's words. `named`: it lies at the worker's place.
    `adapter`: its files are merged into `base`. `asked`: it is behind the assignment's `policy`."""

    name: str
    kind: Literal["demo", "files", "named", "adapter", "asked"]
    files: list[FileToFetch] = []
    base: ModelToTrain | None = None


class DatasetToFetch(Frozen):
    id: str
    sha256: str
    files: list[FileToFetch]


class ToResume(Frozen):
    """Last complete checkpoint, whose files go into `checkpoints/checkpoint-STEP`."""

    step: int
    files: list[FileToFetch]


class ModelToAsk(Frozen):
    """Model that plays the user, judges or is evaluated: an OpenAI-compatible address of this API, whose key is the
    worker's token."""

    base_url: str
    model: str


class Assignment(Frozen):
    """Claimed job. Every later write names `attempt`. `spent_s` is what earlier attempts took of `limits.hours`. Of an
    evaluation the first `reported` reports are here."""

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


def build_assignment(job: TrainingJob, base_url: str) -> Assignment:
    """Return the assignment of a claimed job; `base_url` is the API's. Raises InputError: a file or a model is gone."""
    at = f"{base_url}/training/jobs/{job.public_id}/attempts/{job.attempt}"
    resumed = find_last_checkpoint(job)
    return Assignment(
        job=job.public_id,
        attempt=job.attempt,
        config=job.config,
        model=_build_model(job, at),
        dataset=_build_dataset(job.dataset, "dataset", at),
        evaluation=_build_dataset(job.evaluation, "evaluation", at) if job.evaluation is not None else None,
        resume=ToResume(step=resumed.step, files=_list_files(resumed.files.all(), "resume", at)) if resumed else None,
        engine=_parse_engine(job.engine),
        user=_build_model_to_ask(job.user_endpoint_id, job.user_model, f"{at}/llm/user/v1"),
        judge=_build_model_to_ask(job.judge_endpoint_id, job.judge_model, f"{at}/llm/judge/v1"),
        policy=_build_policy(job, f"{at}/llm/policy/v1"),
        reported=count_reports(job) if job.is_evaluation else 0,
        seed=int(job.config.get("seed", 0)),
        spent_s=round(get_spent_seconds(job) or 0.0, 3),
    )


def _build_model(job: TrainingJob, at: str) -> ModelToTrain:
    if job.model == DEMO_MODEL:
        return ModelToTrain(name=DEMO_MODEL, kind="demo")
    if job.model.startswith(ENDPOINT):
        return ModelToTrain(name=job.model, kind="asked")
    parts = get_model_parts(job)
    model = None if parts.whole else ModelToTrain(name=parts.name, kind="named")
    for depth, checkpoint in reversed(list(enumerate(parts.checkpoints))):
        name = f"ft:{checkpoint.job.public_id}" + ("" if checkpoint.final else f":step-{checkpoint.step}")
        files = _list_files(list_model_files(checkpoint), f"model-{depth}" if depth else "model", at)
        whole = checkpoint is parts.whole
        model = ModelToTrain(
            name=name, kind="files" if whole else "adapter", files=files, base=None if whole else model
        )
    assert model is not None
    return model


def _parse_engine(name: str) -> EngineKind:
    engines: dict[str, EngineKind] = {"vllm": "vllm", "vllm_server": "vllm_server"}
    return engines.get(name, "transformers")


def _build_model_to_ask(endpoint: int | None, model: str, base_url: str) -> ModelToAsk | None:
    return ModelToAsk(base_url=base_url, model=model) if endpoint is not None else None


def _build_policy(job: TrainingJob, base_url: str) -> ModelToAsk | None:
    """Return the model that is evaluated if it is behind an address, else None. Raises InputError: no endpoint lists
    the model any more."""
    if not job.model.startswith(ENDPOINT):
        return None
    return ModelToAsk(base_url=base_url, model=get_served_model(job)[1])


def _list_files(files: Any, what: str, at: str) -> list[FileToFetch]:
    return [_build_file(file.path, file.bytes, file.sha256, what, at) for file in files]


def _build_file(path: str, size: int, sha256: str, what: str, at: str) -> FileToFetch:
    return FileToFetch(path=path, bytes=size, sha256=sha256, url=f"{at}/download?what={what}&path={path}")


def _build_dataset(dataset: Dataset, what: str, at: str) -> DatasetToFetch:
    try:
        files = [_build_file(file.path, file.bytes, file.sha256, what, at) for file in list_dataset_files(dataset)]
    except InputError as error:
        raise InputError(f"{what}: {error}") from error
    return DatasetToFetch(id=dataset.public_id, sha256=dataset.sha256, files=files)
