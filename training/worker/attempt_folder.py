"""Lays out an attempt's folder: what it needs is fetched, or taken out of a cache by hash; `job.json` comes last."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from synthesis.errors import InfrastructureError, InputError
from training.config import read_config
from training.job import CHECKPOINTS, JOB, AskedModelFile, JobFile, VllmServer, is_model_name
from training.worker.assignment import AssignedRole, Assignment, RemoteFile, write_whole
from training.worker.client import Client, disk_of, hash_of

BASE, ADAPTER, DATASET, EVALUATION = "base", "adapter", "dataset", "evaluation"
SPARE_BYTES = 256 * 1024 * 1024
"""So much of the disk stays free for what the attempt itself writes first."""
WANTED = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"]
"""Of a model's repository; weights in other forms are not loaded."""


def lay_out(
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
    """Fetch what the attempt needs and write its job's file. `hub`: what alone Hugging Face is asked for, if any.

    Raises InputError: configuration or model cannot be used here; InfrastructureError: the disk is too small; and what
    `Client.fetch` does.
    """
    config = read_config(told.config)
    if told.model.kind == "demo" and config.type != "supervised":
        raise InputError("model: the demo's untrained model has to learn words first; begin with supervised training")
    require_room(told.files, folder, cache)

    def fetch(files: Iterable[RemoteFile], into: Path, kept: bool) -> None:
        for file in files:
            bring(client, file, into / file.path, cache, kept, given_up)

    fetch(told.dataset.files, folder / DATASET, True)
    if told.evaluation is not None:
        fetch(told.evaluation.files, folder / EVALUATION, True)
    if told.resume is not None:
        # A trainer may write over its own checkpoints: they are no links into the cache.
        fetch(told.resume.files, folder / CHECKPOINTS / f"checkpoint-{told.resume.step}", False)
    *adapters, last = told.model.parts
    for depth, adapter in enumerate(adapters):
        fetch(adapter.files, folder / f"{ADAPTER}-{depth}", True)
    model = BASE
    if last.kind == "files":
        fetch(last.files, folder / BASE, True)
    elif last.kind == "named":
        model = _named(last.name, models, hub)
    elif last.kind == "asked":
        model = ""
    job = JobFile(
        config=config,
        model=model,
        adapters=tuple(f"{ADAPTER}-{depth}" for depth in reversed(range(len(adapters)))),
        dataset=DATASET,
        evaluation=EVALUATION if told.evaluation is not None else "",
        resume=told.resume is not None,
        threads=threads,
        engine=told.engine,
        server=server if told.engine == "vllm_server" else None,
        spent_s=told.spent_s,
        user=_asked_model(client, told.user),
        judge=_asked_model(client, told.judge),
        policy=_asked_model(client, told.policy),
        reported=told.reported,
    )
    with disk_of(folder / JOB):
        write_whole(folder / JOB, job.model_dump_json(indent=1))
    return job


def _asked_model(client: Client, told: AssignedRole | None) -> AskedModelFile | None:
    return AskedModelFile(base_url=client.own(told.base_url), model=told.model) if told is not None else None


def require_room(files: Iterable[RemoteFile], folder: Path, cache: Path) -> None:
    """Raises InfrastructureError: the disk has no room for what is not cached yet."""
    wanted = sum(file.bytes for file in files if not (cache / file.sha256).exists())
    free = shutil.disk_usage(folder).free
    if wanted + SPARE_BYTES > free:
        raise InfrastructureError(
            f"The worker's disk is too full ({folder.parent}): {(wanted + SPARE_BYTES) >> 20} MiB are needed, "
            f"{free >> 20} MiB are free. Free some space there, then resume."
        )


def bring(client: Client, file: RemoteFile, to: Path, cache: Path, kept: bool, given_up: Callable[[], bool]) -> None:
    """Put a file in its place out of the cache, fetched first where it is not there; `kept` leaves it in the cache."""
    held = cache / file.sha256
    with disk_of(to):
        cache.mkdir(parents=True, exist_ok=True)
        to.parent.mkdir(parents=True, exist_ok=True)
        # What a crash of the machine left in the cache is not trusted by its name.
        if held.exists() and (held.stat().st_size != file.bytes or hash_of(held) != file.sha256):
            held.unlink()
        if not held.exists():
            client.fetch(file.url, held, file.bytes, file.sha256, given_up)
        os.utime(held)
        if not kept:
            shutil.copyfile(held, to)
            held.unlink()
            return
        try:
            os.link(held, to)
        except OSError:
            shutil.copyfile(held, to)


def _named(name: str, models: Path | None, hub: Sequence[str]) -> str:
    if not is_model_name(name):
        raise InputError(f"model: {name[:200]!r} names no model; it is NAME or OWNER/NAME")
    if models is not None and (models / name / "config.json").is_file():
        return str((models / name).resolve())
    return _from_hub(name, models, hub)


def _from_hub(name: str, models: Path | None, hub: Sequence[str]) -> str:
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
        # A hub that is away says nothing about the model.
        raise InfrastructureError(f"{message}, or wait until the hub answers") from error


def prune(cache: Path, most: int) -> None:
    """Remove what was used longest ago, until the cache has at most so many bytes."""
    if not cache.is_dir():
        return
    files = [(path.stat(), path) for path in cache.iterdir() if path.is_file()]
    total = 0
    for stat, path in sorted(files, key=lambda entry: -entry[0].st_mtime):
        total += stat.st_size
        if total > most:
            path.unlink(missing_ok=True)
