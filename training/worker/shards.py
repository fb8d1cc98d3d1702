"""Shards of checkpoints, kept near the worker: in a folder, or where a URL of fsspec leads (`s3://bucket/jobs`).

A checkpoint of a model that is spread over GPUs has a file a rank, which together are as large as weights and
optimiser: they are no load for the site. It gets a manifest (`MANIFEST`) with their sizes and hashes, and with that an
attempt that goes on finds them again, on any worker that is given the same place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from synthesis.errors import InfrastructureError, InputError
from training.job import MANIFEST
from training.worker.assignment import RelativePath, ServerMessage, write_whole
from training.worker.client import hash_of


class Shard(ServerMessage):
    path: RelativePath
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(ServerMessage):
    """`place` is where the shards lie, below the worker's own store; `store` says to people which one that is."""

    store: str = Field(max_length=500)
    place: RelativePath
    shards: tuple[Shard, ...] = Field(min_length=1, max_length=100_000)


def put(store: str, job: str, checkpoint: Path, folders: Sequence[str]) -> None:
    """Copy a checkpoint's shards (what lies in its `folders`) into the store, and write the manifest beside them.

    Raises InfrastructureError: the store cannot be written; FileNotFoundError: the checkpoint is gone.
    """
    paths = sorted(path for name in folders for path in (checkpoint / name).iterdir() if path.is_file())
    if not paths or any(not (checkpoint / name).is_dir() for name in folders):
        raise FileNotFoundError(checkpoint)
    shards = [
        Shard(path=str(path.relative_to(checkpoint)), bytes=path.stat().st_size, sha256=hash_of(path)) for path in paths
    ]
    place = f"{job}/{checkpoint.name}"
    with _files(store, "written") as (files, root):
        for path in paths:
            to = f"{root}/{place}/{path.relative_to(checkpoint)}"
            files.makedirs(to.rpartition("/")[0], exist_ok=True)
            files.put_file(str(path), to)
    told = Manifest(store=store, place=place, shards=tuple(shards))
    write_whole(checkpoint / MANIFEST, told.model_dump_json(indent=1))


def fetch(store: str, checkpoint: Path) -> None:
    """Bring the shards that a checkpoint's manifest names back into its folder; without a manifest, nothing.

    Raises InfrastructureError: they are not in this worker's store, or not as they were; InputError: no manifest.
    """
    if not (checkpoint / MANIFEST).is_file():
        return
    try:
        told = Manifest.model_validate_json((checkpoint / MANIFEST).read_bytes())
    except ValidationError as error:
        raise InputError(f"{MANIFEST} of {checkpoint.name} cannot be read; resume from another checkpoint") from error
    with _files(store, "read") as (files, root):
        for shard in told.shards:
            source, to = f"{root}/{told.place}/{shard.path}", checkpoint / shard.path
            if not files.exists(source):
                raise InfrastructureError(
                    f"The shards of {checkpoint.name} lie at {told.store[:200]}, and this worker keeps its own at "
                    f"{store[:200]}: start one with --checkpoints {told.store[:200]}, then resume"
                )
            to.parent.mkdir(parents=True, exist_ok=True)
            files.get_file(source, str(to))
            if to.stat().st_size != shard.bytes or hash_of(to) != shard.sha256:
                raise InfrastructureError(
                    f"{source[:300]} is not the file that was kept there; take another checkpoint"
                )


def prune(store: str, job: str, kept: int) -> None:
    """Remove all but a job's latest checkpoints; with 0 all of them. What cannot be removed stays."""
    with contextlib.suppress(InfrastructureError), _files(store, "read") as (files, root):
        if not files.exists(f"{root}/{job}"):
            return
        names = [str(path).rstrip("/").rpartition("/")[2] for path in files.ls(f"{root}/{job}", detail=False)]
        names = sorted(
            (n for n in names if n.startswith("checkpoint-") and n[11:].isdigit()), key=lambda n: int(n[11:])
        )
        for name in names[: max(0, len(names) - kept)]:
            files.rm(f"{root}/{job}/{name}", recursive=True)
        if not kept:
            files.rm(f"{root}/{job}", recursive=True)


@contextlib.contextmanager
def _files(store: str, done: str) -> Iterator[tuple[Any, str]]:
    """(file system, path) of a store. Raises InfrastructureError that names the store for whatever goes wrong."""
    try:
        import fsspec

        files, root = fsspec.core.url_to_fs(store)
        yield files, root.rstrip("/")
    except FileNotFoundError:
        raise
    except (ImportError, OSError, ValueError) as error:
        raise InfrastructureError(
            f"the store of checkpoints {store[:200]} cannot be {done}: {str(error)[:300]} (--checkpoints of the worker)"
        ) from error
