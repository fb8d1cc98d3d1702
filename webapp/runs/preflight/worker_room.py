"""Room for a job at a worker: its memory, the packages that the job needs, and the place of its last checkpoint."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

from synthesis.errors import InputError
from training.config import read_config
from training.job import MANIFEST
from webapp.runs.checkpoint_files import find_last_checkpoint, read_object
from webapp.runs.models import CheckpointFile, TrainingJob
from webapp.runs.preflight import packages
from webapp.runs.preflight.candidates import Candidate
from webapp.runs.preflight.job_lookup import ResolvedJob, get_base_model
from webapp.runs.preflight.memory import Memory, estimate_memory, get_room
from webapp.runs.preflight.remarks import Remark

LARGEST_MANIFEST = 64 * 1024 * 1024
TOO_LARGE = "too_large"
_GIB = 2**30


@dataclass(frozen=True)
class Needs:
    """Needs of a job at a worker. `store` is the place of the shards that it goes on from (empty: none), `packages`
    those that its settings need. With `despite_memory` a person decided that the estimate of its memory keeps it
    from no worker."""

    base: str
    config: str
    engine: str
    store: str = ""
    packages: tuple[packages.Package, ...] = ()
    despite_memory: bool = False

    def find_lack(self, candidate: Candidate) -> Remark | None:
        """Return why a candidate cannot do the job; None if it can, as far as is known."""
        if self.store and candidate.store and candidate.store != self.store:
            message = (
                f"The shards of its last checkpoint lie at {self.store[:300]}, and no worker that is here keeps its "
                f"own there: start one with --checkpoints {self.store[:300]}."
            )
            return Remark(param="", code="shards_elsewhere", message=message)
        for package in self.packages:
            if packages.lacks_package(candidate, package):
                instead = f"create the job again with {package.setting} = {package.instead}"
                return packages.build_missing_remark(package, [candidate.name], instead)
        if self.despite_memory or get_room(candidate) is None:
            return None
        memory = _estimate_memory(self.base, self.config, self.engine, candidate.devices, candidate.main_memory)
        if memory is None or memory.fits:
            return None
        if memory.bar:
            message = f"{memory.bar} ({candidate.name}, and no other worker can take it): it waits until one comes."
        else:
            needed, where, _ = memory.tightest
            message = (
                f"By the estimate the job needs {needed / _GIB:.0f} GiB {where}, and no worker here has so much "
                f"({candidate.name}: {memory.there}): it waits until one comes that has."
            )
        if memory.remedies:
            message += f" It would fit with {'; or with '.join(memory.remedies)}: as a job of its own."
        message += " If you know the estimate to be too high, let a worker try the job all the same."
        return Remark(param="changes.hardware.sharding", code=TOO_LARGE, message=message)


def get_needs(job: TrainingJob) -> Needs:
    """Return the needs of a job's next attempt."""
    needed = packages.list_packages(job.config)
    return Needs(
        get_base_model(job), _serialize_config(job.config), job.engine, _find_store(job), needed, job.despite_memory
    )


def get_new_job_needs(asked: ResolvedJob) -> Needs | None:
    """Return the needs of a job that is not created yet; None if its configuration does not fit."""
    if asked.config is None:
        return None
    config = asked.config.model_dump(mode="json")
    return Needs(asked.base, _serialize_config(config), asked.new.engine, packages=packages.list_packages(config))


def _serialize_config(config: dict[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


def _find_store(job: TrainingJob) -> str:
    """Return the place of the shards of the job's last checkpoint, as its worker reported it."""
    last = find_last_checkpoint(job) if job.attempt and not job.is_evaluation else None
    file = last.files.filter(path=MANIFEST).first() if last is not None else None
    return _read_store(file.stored, file.sha256) if _is_readable(file) and file is not None else ""


def _is_readable(file: CheckpointFile | None) -> bool:
    return file is not None and bool(file.stored) and file.bytes <= LARGEST_MANIFEST


@functools.lru_cache(maxsize=256)
def _read_store(stored: str, sha256: str) -> str:
    """Return the store that a manifest names; empty if it cannot be read, which the worker that takes the job will
    report."""
    store = read_object(stored).get("store")
    return store if isinstance(store, str) else ""


@functools.lru_cache(maxsize=1024)
def _estimate_memory(base: str, config: str, engine: str, devices: tuple[int, ...], main_memory: int) -> Memory | None:
    try:
        asked = read_config(json.loads(config))
    except (InputError, ValueError):
        return None
    alone = Candidate("", (engine,), frozenset(), devices=devices, main_memory=main_memory)
    return estimate_memory(base, asked, engine, [alone])[0]
