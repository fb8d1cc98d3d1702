"""Room for a job at a worker: its memory, the packages that the job needs, and where its last checkpoint lies."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

from synthesis.errors import InputError
from training.config import read_config
from training.job import MANIFEST
from webapp.runs.candidates import Candidate
from webapp.runs.checkpoint_files import last_checkpoint, read_object
from webapp.runs.launch import packages
from webapp.runs.launch.job_lookup import Remark, ResolvedJob, base_of
from webapp.runs.launch.memory import Memory, memory_of, room_at
from webapp.runs.models import CheckpointFile, TrainingJob

LARGEST_MANIFEST = 64 * 1024 * 1024
TOO_LARGE = "too_large"
_GIB = 2**30


@dataclass(frozen=True)
class Needs:
    """What a job needs of a worker. `store` is where the shards that it goes on from lie (empty: none do),
    `packages` what its settings need. With `despite_memory` a person said that the estimate of its memory shall keep it
    from no worker."""

    base: str
    config: str
    engine: str
    store: str = ""
    packages: tuple[packages.Package, ...] = ()
    despite_memory: bool = False

    def lacking(self, candidate: Candidate) -> Remark | None:
        """Why a candidate cannot do the job; None where it can, as far as is known."""
        if self.store and candidate.store and candidate.store != self.store:
            message = (
                f"The shards of its last checkpoint lie at {self.store[:300]}, and no worker that is here keeps its "
                f"own there: start one with --checkpoints {self.store[:300]}."
            )
            return Remark(param="", code="shards_elsewhere", message=message)
        for package in self.packages:
            if packages.lacks(candidate, package):
                instead = f"create the job anew with {package.setting} = {package.instead}"
                return packages.missing(package, [candidate.name], instead)
        if self.despite_memory or room_at(candidate) is None:
            return None
        memory = _memory(self.base, self.config, self.engine, candidate.devices, candidate.main_memory)
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


def needs_of(job: TrainingJob) -> Needs:
    """What a job's next attempt needs."""
    needed = packages.packages_of(job.config)
    return Needs(base_of(job), _text(job.config), job.engine, _store(job), needed, job.despite_memory)


def needs_of_new(asked: ResolvedJob) -> Needs | None:
    """What a job that is not created yet will need; None where its configuration does not fit."""
    if asked.config is None:
        return None
    config = asked.config.model_dump(mode="json")
    return Needs(asked.base, _text(config), asked.new.engine, packages=packages.packages_of(config))


def _text(config: dict[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


def _store(job: TrainingJob) -> str:
    """Where the shards of the job's last checkpoint lie, as its worker said."""
    last = last_checkpoint(job) if job.attempt and not job.is_evaluation else None
    file = last.files.filter(path=MANIFEST).first() if last is not None else None
    return _told(file.stored, file.sha256) if _readable(file) and file is not None else ""


def _readable(file: CheckpointFile | None) -> bool:
    return file is not None and bool(file.stored) and file.bytes <= LARGEST_MANIFEST


@functools.lru_cache(maxsize=256)
def _told(stored: str, sha256: str) -> str:
    """The store that a manifest names; empty where it cannot be read, which whoever takes the job is told."""
    store = read_object(stored).get("store")
    return store if isinstance(store, str) else ""


@functools.lru_cache(maxsize=1024)
def _memory(base: str, config: str, engine: str, devices: tuple[int, ...], main_memory: int) -> Memory | None:
    try:
        asked = read_config(json.loads(config))
    except (InputError, ValueError):
        return None
    alone = Candidate("", (engine,), frozenset(), devices=devices, main_memory=main_memory)
    return memory_of(base, asked, engine, [alone])[0]
