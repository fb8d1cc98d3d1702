"""Shards of checkpoints near the worker: kept where a folder or URL says, named by a manifest, found again, removed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

fsspec = pytest.importorskip("fsspec")

from synthesis.errors import InfrastructureError  # noqa: E402
from training.job import MANIFEST  # noqa: E402
from training.worker import shards  # noqa: E402


def checkpoint(folder: Path, step: int) -> Path:
    at = folder / f"checkpoint-{step}"
    for name in ("model_0/.metadata", "model_0/__0_0.distcp", "optimizer_0/__1_0.distcp"):
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_bytes(f"{step} {name}".encode())
    (at / "trainer_state.json").write_text("{}")
    return at


@pytest.mark.parametrize("kind", ["folder", "url"])
def test_shards_go_to_the_store_and_come_back(tmp_path: Path, kind: str) -> None:
    store = str(tmp_path / "store") if kind == "folder" else f"memory://bucket-{tmp_path.name}"
    for step in (2, 4, 10):
        made = checkpoint(tmp_path, step)
        shards.store_shards(store, "job-1", made, ["model_0", "optimizer_0"])
    told = json.loads((made / MANIFEST).read_text())
    assert [shard["path"] for shard in told["shards"]] == [
        "model_0/.metadata", "model_0/__0_0.distcp", "optimizer_0/__1_0.distcp",
    ]  # fmt: skip
    for name in ("model_0", "optimizer_0"):
        shutil.rmtree(made / name)
    shards.fetch_shards(store, made)
    assert (made / "optimizer_0/__1_0.distcp").read_bytes() == b"10 optimizer_0/__1_0.distcp"
    shards.prune_checkpoints(store, "job-1", 2)
    files, root = fsspec.core.url_to_fs(store)
    assert sorted(path.rpartition("/")[2] for path in files.ls(f"{root}/job-1", detail=False)) == [
        "checkpoint-10", "checkpoint-4",
    ]  # fmt: skip
    files.pipe_file(f"{root}/job-1/checkpoint-10/model_0/.metadata", b"another")
    with pytest.raises(InfrastructureError, match="is not the file that was kept there"):
        shards.fetch_shards(store, made)
    shards.prune_checkpoints(store, "job-1", 0)
    assert not files.exists(f"{root}/job-1")
    with pytest.raises(InfrastructureError, match=r"start one with --checkpoints .*store|bucket"):
        shards.fetch_shards(store, made)


def test_manifest_leads_to_no_place_outside_the_store(tmp_path: Path) -> None:
    made = checkpoint(tmp_path, 2)
    shards.store_shards(str(tmp_path / "store"), "job-1", made, ["model_0"])
    told = json.loads((made / MANIFEST).read_text())
    (made / MANIFEST).write_text(json.dumps(told | {"place": "../checkpoint-2"}))
    with pytest.raises(Exception, match="cannot be read"):
        shards.fetch_shards(str(tmp_path / "store"), made)
    with pytest.raises(InfrastructureError, match="cannot be written"):
        shards.store_shards("nowhere://x", "job-1", made, ["model_0"])
