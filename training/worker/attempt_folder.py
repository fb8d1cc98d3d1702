"""Folder of an attempt: files are fetched, or taken from a cache by hash; `job.json` is written last."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from synthesis.errors import InfrastructureError, InputError
from training.config import read_config
from training.job import CHECKPOINTS, JOB, AskedModelFile, JobFile, VllmServer, is_model_name
from training.worker.assignment import AssignedModel, AssignedRole, Assignment, RemoteFile, write_atomically
from training.worker.client import Client, hash_file, translate_full_disk

BASE, ADAPTER, DATASET, EVALUATION = "base", "adapter", "dataset", "evaluation"
SPARE_BYTES = 256 * 1024 * 1024
"""So much of the disk stays free for what the attempt itself writes first."""
WANTED = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"]
"""Of a model's repository; weights in other forms are not loaded."""


def prepare_folder(
    client: Client,
    told: Assignment,
    folder: Path,
    cache: Path,
    models: Path | None,
    hub: Sequence[str],
    threads: int,
    given_up: Callable[[], bool],
    server: VllmServer | None = None,
) -> JobFile:
    """Fetch the files of the attempt and write its job's file. `hub`: the only models to fetch from Hugging Face, if
    any.

    Raises InputError: configuration or model cannot be used here; InfrastructureError: the disk is too small; and as
    `Client.fetch`.
    """
    config = read_config(told.config)
    if told.model.kind == "demo" and config.type != "supervised":
        raise InputError("model: the demo's untrained model has to learn words first; begin with supervised training")
    require_room(told.files, folder, cache)

    def fetch_files(files: Iterable[RemoteFile], into: Path, kept: bool) -> None:
        for file in files:
            place_file(client, file, into / file.path, cache, kept, given_up)

    fetch_files(told.dataset.files, folder / DATASET, True)
    if told.evaluation is not None:
        fetch_files(told.evaluation.files, folder / EVALUATION, True)
    if told.resume is not None:
        # A trainer may overwrite its own checkpoints: they must not be links into the cache.
        fetch_files(told.resume.files, folder / CHECKPOINTS / f"checkpoint-{told.resume.step}", False)
    *adapters, base = told.model.parts
    adapter_names = [f"{ADAPTER}-{depth}" for depth in range(len(adapters))]
    for name, adapter in zip(adapter_names, adapters, strict=True):
        fetch_files(adapter.files, folder / name, True)
    if base.kind == "files":
        fetch_files(base.files, folder / BASE, True)
    job = JobFile(
        config=config,
        model=_find_base_model(base, models, hub),
        adapters=tuple(reversed(adapter_names)),
        dataset=DATASET,
        evaluation=EVALUATION if told.evaluation is not None else "",
        resume=told.resume is not None,
        threads=threads,
        engine=told.engine,
        server=server if told.engine == "vllm_server" else None,
        spent_s=told.spent_s,
        user=_build_asked_model(client, told.user),
        judge=_build_asked_model(client, told.judge),
        policy=_build_asked_model(client, told.policy),
        reported=told.reported,
    )
    with translate_full_disk(folder / JOB):
        write_atomically(folder / JOB, job.model_dump_json(indent=1))
    return job


def _find_base_model(base: AssignedModel, models: Path | None, hub: Sequence[str]) -> str:
    """Return what the job's file calls the model below all adapters; empty if it is asked over the network."""
    if base.kind == "named":
        return _find_named_model(base.name, models, hub)
    return "" if base.kind == "asked" else BASE


def _build_asked_model(client: Client, told: AssignedRole | None) -> AskedModelFile | None:
    return AskedModelFile(base_url=client.own(told.base_url), model=told.model) if told is not None else None


def require_room(files: Iterable[RemoteFile], folder: Path, cache: Path) -> None:
    """Raise InfrastructureError if the disk has no room for the files that are not cached yet."""
    needed_bytes = sum(file.bytes for file in files if not (cache / file.sha256).exists())
    free = shutil.disk_usage(folder).free
    if needed_bytes + SPARE_BYTES > free:
        raise InfrastructureError(
            f"The worker's disk is too full ({folder.parent}): {(needed_bytes + SPARE_BYTES) >> 20} MiB are needed, "
            f"{free >> 20} MiB are free. Free some space there, then resume."
        )


def place_file(
    client: Client, file: RemoteFile, to: Path, cache: Path, kept: bool, given_up: Callable[[], bool]
) -> None:
    """Put a file in its place from the cache, fetching it first if it is missing; `kept` leaves it in the cache."""
    cached_file = cache / file.sha256
    with translate_full_disk(to):
        cache.mkdir(parents=True, exist_ok=True)
        to.parent.mkdir(parents=True, exist_ok=True)
        # After a crash of the machine a cached file may be damaged: check its size and hash.
        if cached_file.exists() and (cached_file.stat().st_size != file.bytes or hash_file(cached_file) != file.sha256):
            cached_file.unlink()
        if not cached_file.exists():
            client.fetch(file.url, cached_file, file.bytes, file.sha256, given_up)
        os.utime(cached_file)
        if not kept:
            shutil.copyfile(cached_file, to)
            cached_file.unlink()
            return
        try:
            os.link(cached_file, to)
        except OSError:
            shutil.copyfile(cached_file, to)


def _find_named_model(name: str, models: Path | None, hub: Sequence[str]) -> str:
    if not is_model_name(name):
        raise InputError(f"model: {name[:200]!r} names no model; it is NAME or OWNER/NAME")
    if models is not None and (models / name / "config.json").is_file():
        return str((models / name).resolve())
    return _fetch_from_hub(name, models, hub)


def _fetch_from_hub(name: str, models: Path | None, hub: Sequence[str]) -> str:
    where = f"not in {models}" if models is not None else "this worker was given no folder with models (--models)"
    if hub and name not in hub:
        raise InputError(f"model: {name!r}: {where}, and it may fetch only {', '.join(hub)[:300]} (--hub)")
    try:
        from huggingface_hub import constants, snapshot_download
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
    except ImportError as error:
        raise InputError(f"model: {name!r}: {where}, and huggingface_hub is not installed") from error
    try:
        return str(snapshot_download(name, allow_patterns=WANTED))
    except (OSError, ValueError) as error:
        message = (
            f"model: {name!r}: {where}, and it cannot be fetched from Hugging Face ({type(error).__name__}: "
            f"{str(error)[:300]}); put its folder below --models"
        )
        unknown = isinstance(error, RepositoryNotFoundError | RevisionNotFoundError | ValueError)
        if unknown or constants.HF_HUB_OFFLINE:
            raise InputError(f"{message}, or correct the name") from error
        # An unreachable hub does not mean that the model does not exist.
        raise InfrastructureError(f"{message}, or wait until the hub answers") from error


def prune_cache(cache: Path, most: int) -> None:
    """Remove the least recently used files, until the cache has at most so many bytes."""
    if not cache.is_dir():
        return
    files = [(path.stat(), path) for path in cache.iterdir() if path.is_file()]
    total = 0
    for stat, path in sorted(files, key=lambda entry: -entry[0].st_mtime):
        total += stat.st_size
        if total > most:
            path.unlink(missing_ok=True)
