"""What workers send as files: checkpoints in pieces, a step's attempts; whole and right, or not taken. Then pruning."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import resource
import tempfile
from typing import Any

import pytest
from django.core.files.storage import default_storage

from synthesis.errors import InfrastructureError, InputError
from tests.workers.worker_support import (
    FINAL,
    announced,
    at_once,
    blob,
    checkpoint_files,
    claimed,
    line,
    weights,
)
from webapp.common.claims import StaleClaim
from webapp.common.disk import count_free_bytes
from webapp.common.errors import Conflict, NotFound, Unusable
from webapp.runs.checkpoint_files import find_last_checkpoint, find_model_checkpoint
from webapp.runs.models import (
    Checkpoint,
    CheckpointState,
    RolloutFile,
    TrainingJob,
)
from webapp.workers import checkpoint_uploads, rollout_uploads
from webapp.workers.checkpoint_uploads import AnnouncedFile
from webapp.workers.errors import IncompleteCheckpoint, TooManyUploads, WrongHash, WrongOffset

pytestmark = pytest.mark.django_db


def begin(job: TrainingJob, files: dict[str, bytes], step: int = 2, final: bool = False) -> Checkpoint:
    return checkpoint_uploads.begin_checkpoint(job.public_id, job.attempt, step, final, announced(files))


def piece(job: TrainingJob, row: Checkpoint, path: str, offset: int, content: bytes) -> int:
    return checkpoint_uploads.take_piece(job.public_id, job.attempt, row.public_id, path, offset, content)


def complete(job: TrainingJob, row: Checkpoint) -> Checkpoint:
    return checkpoint_uploads.complete_checkpoint(job.public_id, job.attempt, row.public_id)


def upload(job: TrainingJob, step: int, files: dict[str, bytes] | None = None, final: bool = False) -> Checkpoint:
    files = files or (FINAL if final else checkpoint_files(step))
    row = begin(job, files, step, final)
    for path, content in files.items():
        piece(job, row, path, 0, content)
    return complete(job, row)


def rollouts(job: TrainingJob, content: bytes, step: int = 1, sha256: str = "") -> int:
    digest = sha256 or hashlib.sha256(content).hexdigest()
    return rollout_uploads.take_rollouts(job.public_id, job.attempt, step, io.BytesIO(content), digest)


def stored_names(folder: str) -> set[str]:
    try:
        folders, files = default_storage.listdir(folder)
    except FileNotFoundError:
        return set()
    return {*files, *(name for inner in folders for name in stored_names(f"{folder}/{inner}"))}


def test_a_checkpoint_arrives_in_pieces_and_goes_on_after_a_break() -> None:
    job, _, _ = claimed()
    files = checkpoint_files(2)
    content = files["model.safetensors"]
    row = begin(job, files)
    assert piece(job, row, "model.safetensors", 0, content[:50]) == 50
    with pytest.raises(WrongOffset) as refused:
        piece(job, row, "model.safetensors", 0, content[:50])  # its answer was lost
    assert refused.value.facts == {"received": 50}
    again = begin(job, files)  # after the worker's restart
    assert again.pk == row.pk
    assert {file.path: file.received for file in again.files.all()}["model.safetensors"] == 50
    with pytest.raises(IncompleteCheckpoint):
        complete(job, row)
    piece(job, row, "model.safetensors", 50, content[50:])
    for path in ("trainer_state.json", "optimizer.pt"):
        piece(job, row, path, 0, files[path])
    assert complete(job, row).state == CheckpointState.READY
    for file in row.files.all():
        with default_storage.open(file.stored) as kept:
            assert kept.read() == files[file.path]
    assert not list(checkpoint_uploads.open_incoming_folder().glob(f"checkpoint-file-{row.files.first().pk}"))  # type: ignore[union-attr]
    assert complete(job, row).pk == row.pk, "said again, it is answered alike"
    assert begin(job, files).state == CheckpointState.READY
    assert piece(job, row, "model.safetensors", 0, b"x") == len(content)


def test_bytes_that_are_not_those_announced_begin_anew() -> None:
    job, _, _ = claimed()
    files = checkpoint_files(2)
    row = begin(job, files)
    wrong = bytes(len(files["model.safetensors"]))
    for path, content in (files | {"model.safetensors": wrong}).items():
        piece(job, row, path, 0, content)
    with pytest.raises(WrongHash) as refused:
        complete(job, row)
    assert refused.value.facts["files"] == [{"path": "model.safetensors", "received": 0}]
    assert Checkpoint.objects.get().state == CheckpointState.UPLOADING
    piece(job, row, "model.safetensors", 0, files["model.safetensors"])
    assert complete(job, row).state == CheckpointState.READY


def test_uploads_left_open_are_bounded_by_number_and_by_the_disk(settings: Any) -> None:
    """The disk is this machine's own, which has room for one of two that take two thirds of what is free."""
    job, _, _ = claimed()
    free = min(count_free_bytes(place) for place in (tempfile.gettempdir(), settings.ENVARIUM_HOME))
    room = (free >> 20) - settings.DISK_RESERVE_MIB
    half = [AnnouncedFile("model.safetensors", (room * 2 // 3) << 20, "0" * 64)]
    settings.TRAINING_CHECKPOINT_GIB = 1 << 20
    checkpoint_uploads.begin_checkpoint(job.public_id, job.attempt, 1, False, half)
    with pytest.raises(InfrastructureError, match="has no room for"):
        checkpoint_uploads.begin_checkpoint(job.public_id, job.attempt, 2, False, half)
    assert Checkpoint.objects.count() == 1
    for step in range(2, 1 + checkpoint_uploads.MOST_OPEN):
        begin(job, checkpoint_files(step), step)
    with pytest.raises(TooManyUploads, match="not whole yet"):
        begin(job, checkpoint_files(9), 9)
    begin(job, checkpoint_files(2), 2)  # announced again


def test_shards_stay_near_the_worker_and_their_manifest_is_taken() -> None:
    job, _, _ = claimed()
    files = {name: held for name, held in checkpoint_files(2).items() if not name.endswith(".safetensors")}
    with pytest.raises(Unusable, match="none of them holds weights"):
        begin(job, files)
    told = {"store": "s3://x", "place": f"{job.public_id}/checkpoint-2", "shards": []}
    files["shards.json"] = json.dumps(told).encode()
    row = upload(job, 2, files)
    assert find_last_checkpoint(job) == row
    with pytest.raises(Unusable):
        begin(job, {**files, "config.json": b"{}"}, 3, final=True)
    job.model = f"ft:{job.public_id}:step-2"
    with pytest.raises(InputError, match="kept in shards near its worker"):
        find_model_checkpoint(job)


def test_a_pickle_under_another_name_is_not_taken() -> None:
    job, _, _ = claimed()
    evil = {"model.safetensors": pickle.dumps({"a": 1}), "trainer_state.json": b"{}"}
    row = begin(job, evil)
    for path, content in evil.items():
        piece(job, row, path, 0, content)
    with pytest.raises(WrongHash):
        complete(job, row)


def test_a_header_of_countless_values_is_refused_before_it_is_built() -> None:
    job, _, _ = claimed()
    header = b'{"a":[' + b"[]," * (4 << 20) + b"[]]}"
    evil = {"model.safetensors": len(header).to_bytes(8, "little") + header, "trainer_state.json": b"{}"}
    row = begin(job, evil)
    content = evil["model.safetensors"]
    for offset in range(0, len(content), 8 << 20):
        piece(job, row, "model.safetensors", offset, content[offset : offset + (8 << 20)])
    piece(job, row, "trainer_state.json", 0, b"{}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(WrongHash, match=r"model\.safetensors .* more than 256 MiB of memory"):
        complete(job, row)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 << 10


@pytest.mark.parametrize(
    "path",
    [
        "../evil.json", "/etc/passwd.json", "a/../../b.json", "a\\b.json", "..", ".hidden.json", "a//b.json",
        "a/b/c/d.json", "model.bin", "pytorch_model.pt", "training_args.bin", "evil.pkl", "evil.pickle", "evil.py",
        "model.safetensors.sh", "a\x00.json", "ä.json", "a b.json", "a\n.json", "x" * 101 + ".json",
        "optimizer.pt.json/../x.pt", "",
    ],
)  # fmt: skip
def test_paths_and_kinds_that_are_not_taken(path: str) -> None:
    job, _, _ = claimed()
    with pytest.raises(Unusable):
        begin(job, {"model.safetensors": weights(), path: b"x"})
    assert not Checkpoint.objects.exists()


def test_what_a_final_model_holds() -> None:
    job, _, _ = claimed()
    for files in (
        FINAL | {"optimizer.pt": b"x"},
        {"model.safetensors": weights()},
        {"config.json": b"{}"},
        FINAL | {"Config.json": b"{}"},
        FINAL | {"config.json/x.json": b"{}"},
    ):
        with pytest.raises(Unusable):
            begin(job, files, final=True)
    assert upload(job, 4, final=True).final


def test_sizes_are_kept(settings: Any) -> None:
    settings.TRAINING_CHECKPOINT_GIB = 1
    job, _, _ = claimed()
    large = AnnouncedFile("model.safetensors", (1 << 30) + 1, "0" * 64)
    with pytest.raises(Unusable) as refused:
        checkpoint_uploads.begin_checkpoint(job.public_id, 1, 2, False, [large])
    assert "1 GiB" in str(refused.value)
    files = checkpoint_files(2)
    row = begin(job, files)
    for offset, content in ((0, files["trainer_state.json"] + b"!"), (0, b"")):
        with pytest.raises(Unusable):
            piece(job, row, "trainer_state.json", offset, content)
    for path in ("unknown.json", "../model.safetensors"):
        with pytest.raises(NotFound):
            piece(job, row, path, 0, b"x")


def test_another_checkpoint_of_the_same_step() -> None:
    job, _, _ = claimed()
    files = checkpoint_files(2)
    begin(job, files)
    other = files | {"trainer_state.json": b'{"global_step": 2, "again": true}'}
    assert {file.bytes for file in begin(job, other).files.all()} == {len(one) for one in other.values()}
    upload(job, 2, other)
    with pytest.raises(Conflict):
        begin(job, files)


@pytest.mark.django_db(transaction=True)
def test_two_senders_of_one_file_leave_it_whole() -> None:
    """A worker that was thought dead, and its next process."""
    job, _, _ = claimed()
    files = checkpoint_files(2) | {"model.safetensors": weights(bytes(range(256)) * 64)}
    row = begin(job, files)
    content = files["model.safetensors"]

    def send() -> None:
        at = 0
        while at < len(content):
            try:
                at = piece(job, row, "model.safetensors", at, content[at : at + 100_000])
            except WrongOffset as refused:
                at = refused.facts["received"]

    assert at_once(send, send, send) == [None] * 3
    for path in ("trainer_state.json", "optimizer.pt"):
        piece(job, row, path, 0, files[path])
    ended = at_once(*(lambda: complete(job, row).state for _ in range(3)))
    row.refresh_from_db()
    assert row.state == CheckpointState.READY
    assert CheckpointState.READY in ended
    with default_storage.open(row.files.get(path="model.safetensors").stored) as kept:
        assert kept.read() == content


def test_a_disk_that_was_cleared_begins_a_file_anew() -> None:
    job, _, _ = claimed()
    files = checkpoint_files(2)
    row = begin(job, files)
    piece(job, row, "model.safetensors", 0, files["model.safetensors"][:50])
    (
        checkpoint_uploads.open_incoming_folder() / f"checkpoint-file-{row.files.get(path='model.safetensors').pk}"
    ).unlink()
    with pytest.raises(WrongOffset) as refused:
        piece(job, row, "model.safetensors", 50, files["model.safetensors"][50:])
    assert refused.value.facts == {"received": 0}
    assert piece(job, row, "model.safetensors", 0, files["model.safetensors"]) == len(files["model.safetensors"])


def test_a_stale_attempt_sends_nothing() -> None:
    job, _, _ = claimed()
    files = checkpoint_files(2)
    row = begin(job, files)
    for path, content in files.items():
        piece(job, row, path, 0, content)
    TrainingJob.objects.filter(pk=job.pk).update(attempt=2)
    before = stored_names("rollouts")
    for act in (
        lambda: complete(job, row),
        lambda: piece(job, row, "model.safetensors", 0, b"x"),
        lambda: begin(job, files, step=9),
        lambda: rollouts(job, blob([line()])),
    ):
        with pytest.raises(StaleClaim):
            act()
    assert Checkpoint.objects.get().state == CheckpointState.UPLOADING
    assert not RolloutFile.objects.exists()
    assert stored_names("rollouts") == before
