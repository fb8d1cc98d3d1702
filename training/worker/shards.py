"""Shards of checkpoints, kept near the worker: in a folder, or at a URL of fsspec (`s3://bucket/jobs`).

A checkpoint of a model that is spread over GPUs has one file per rank, which together are as large as weights and
optimiser: too large to send to the site. It gets a manifest (`MANIFEST`) with their sizes and hashes, by which a
resumed attempt finds them, on any worker with the same store.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from synthesis.errors import InfrastructureError, InputError
from training.job import MANIFEST
from training.worker.assignment import RelativePath, ServerMessage, write_atomically
from training.worker.client import hash_file


class Shard(ServerMessage):
    path: RelativePath
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(ServerMessage):
    """Manifest of shards. `place` is their path below the worker's own store; `store` names that store for people."""

    store: str = Field(max_length=500)
    place: RelativePath
    shards: tuple[Shard, ...] = Field(min_length=1, max_length=100_000)


def store_shards(store: str, job: str, checkpoint: Path, folders: Sequence[str]) -> None:
    """Copy a checkpoint's shards (the files in its `folders`) into the store, and write the manifest beside them.

    Raises InfrastructureError: the store cannot be written; FileNotFoundError: the checkpoint is gone.
    """
    paths = sorted(path for name in folders for path in (checkpoint / name).iterdir() if path.is_file())
    if not paths or any(not (checkpoint / name).is_dir() for name in folders):
        raise FileNotFoundError(checkpoint)
    shards = [
        Shard(path=str(path.relative_to(checkpoint)), bytes=path.stat().st_size, sha256=hash_file(path))
        for path in paths
    ]
    place = f"{job}/{checkpoint.name}"
    with _open_store(store, "written") as (files, root):
        for path in paths:
            to = f"{root}/{place}/{path.relative_to(checkpoint)}"
            files.makedirs(to.rpartition("/")[0], exist_ok=True)
            files.put_file(str(path), to)
    manifest = Manifest(store=store, place=place, shards=tuple(shards))
    write_atomically(checkpoint / MANIFEST, manifest.model_dump_json(indent=1))


def fetch_shards(store: str, checkpoint: Path) -> None:
    """Copy the shards that a checkpoint's manifest names back into its folder; without a manifest, do nothing.

    Raises InfrastructureError: they are not in this worker's store, or have changed; InputError: the manifest is
    invalid.
    """
    if not (checkpoint / MANIFEST).is_file():
        return
    try:
        manifest = Manifest.model_validate_json((checkpoint / MANIFEST).read_bytes())
    except ValidationError as error:
        raise InputError(f"{MANIFEST} of {checkpoint.name} cannot be read; resume from another checkpoint") from error
    with _open_store(store, "read") as (files, root):
        for shard in manifest.shards:
            source, to = f"{root}/{manifest.place}/{shard.path}", checkpoint / shard.path
            if not files.exists(source):
                raise InfrastructureError(
                    f"The shards of {checkpoint.name} lie at {manifest.store[:200]}, and this worker keeps its own at "
                    f"{store[:200]}: start one with --checkpoints {manifest.store[:200]}, then resume"
                )
            to.parent.mkdir(parents=True, exist_ok=True)
            files.get_file(source, str(to))
            if to.stat().st_size != shard.bytes or hash_file(to) != shard.sha256:
                raise InfrastructureError(
                    f"{source[:300]} is not the file that was kept there; take another checkpoint"
                )


def prune_checkpoints(store: str, job: str, kept: int) -> None:
    """Remove all but a job's latest checkpoints; with 0 all of them. Errors of the store are ignored."""
    with contextlib.suppress(InfrastructureError), _open_store(store, "read") as (files, root):
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
def _open_store(store: str, done: str) -> Iterator[tuple[Any, str]]:
    """Yield (file system, path) of a store. Raises InfrastructureError that names the store for any error."""
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
