"""Uploads of checkpoints: announced with sizes and hashes, sent in pieces, taken once all hashes are right.

Pieces are gathered in `incoming/` of this machine's own disk; a complete file goes into the file store. No transaction
is open while bytes are written or read.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import F, Sum

from synthesis.errors import InfrastructureError, InputError
from training.job import MANIFEST
from webapp.common.database.connections import release_connection
from webapp.common.disk import has_room, is_disk_full
from webapp.common.errors import Conflict, NotFound, Unusable
from webapp.runs import transitions
from webapp.runs.models import Checkpoint, CheckpointFile, CheckpointState, TrainingJob, TrainingState
from webapp.runs.rollouts.reported_keys import get_step_limit
from webapp.runs.topics import publish_job
from webapp.workers import claims
from webapp.workers.errors import IncompleteCheckpoint, TooManyUploads, WrongHash, WrongOffset
from webapp.workers.weights import SUFFIX, require_format, require_same_model

FOLDER = "checkpoints"
PIECE_BYTES = 8 * 1024 * 1024
BLOCK = 1 << 20
SUFFIXES = (".safetensors", ".json", ".jinja", ".txt", ".model", ".md")
RESUMING = re.compile(r"(optimizer|scheduler|scaler)\.pt|rng_state(_\d{1,6})?\.pth")
"""What a trainer that goes on loads with `weights_only`."""
PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
DEEPEST = 3
MOST_OPEN = 4
"""Announced by one attempt and not whole: a worker sends one after the other."""
LOCKS = 16
"""Number of files of locks that are shared by all checkpoints."""


@dataclass(frozen=True)
class AnnouncedFile:
    """File that will be sent."""

    path: str
    bytes: int
    sha256: str


class _MovableFile(File):
    """File of this disk that the file store may move to its place instead of copying it."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        super().__init__(file, name=path.name)
        self.path = path

    def temporary_file_path(self) -> str:
        return str(self.path)


def begin_checkpoint(
    public_id: str, number: int, step: int, final: bool, files: Sequence[AnnouncedFile], user: Any = None
) -> Checkpoint:
    """Announce a checkpoint; if it was announced before, return it with what was received of it.

    Raises as `claims.held`; Unusable: a file is not taken; Conflict: the step's checkpoint is another one;
    TooManyUploads; InfrastructureError: the disk has no room for the announced bytes.
    """
    _require_files(files, final)
    with transaction.atomic():
        job, _ = claims.require_attempt(public_id, number, user, lock=True)
        checkpoint = Checkpoint.objects.filter(job=job, attempt=number, step=step, final=final).first()
        if checkpoint is not None:
            same = {AnnouncedFile(file.path, file.bytes, file.sha256) for file in checkpoint.files.all()} == set(files)
            if same and checkpoint.state != CheckpointState.DELETED:
                return checkpoint
            if checkpoint.state == CheckpointState.READY:
                raise Conflict(f"The checkpoint of step {step} is here already, with other files.")
            drop_checkpoint(checkpoint)
        most = get_step_limit(job)
        if most and step > most:
            raise Unusable(f"A checkpoint of step {step} is not taken; the job has {most} steps.")
        _require_room(job, number, sum(file.bytes for file in files))
        row = Checkpoint.objects.create(
            job=job, attempt=number, step=step, final=final, bytes=sum(file.bytes for file in files)
        )
        CheckpointFile.objects.bulk_create(
            CheckpointFile(checkpoint=row, path=file.path, bytes=file.bytes, sha256=file.sha256) for file in files
        )
    return row


def take_piece(
    public_id: str, number: int, checkpoint: str, path: str, offset: int, piece: bytes, user: Any = None
) -> int:
    """Write the next bytes of a file; return how many are here now.

    Raises as `claims.held`; NotFound; WrongOffset; Unusable: more bytes than were announced.
    """
    row, file = _get_file(public_id, number, checkpoint, path, user)
    if row.state == CheckpointState.READY:
        return file.received
    at = _get_part_path(file)
    size_on_disk = at.stat().st_size if at.exists() else 0
    if size_on_disk < file.received:
        # Another machine, or a disk that was cleared: from the beginning.
        CheckpointFile.objects.filter(pk=file.pk).update(received=0)
        file.received = 0
    if offset != file.received:
        raise WrongOffset(path, file.received)
    if not piece or offset + len(piece) > file.bytes:
        raise Unusable(f"{path}: {offset + len(piece):,} bytes were sent of {file.bytes:,} that were announced.")
    _write_piece(at, offset, piece)
    with transaction.atomic():
        claims.require_attempt(public_id, number, user, lock=True)
        mine = CheckpointFile.objects.filter(pk=file.pk, received=offset)
        if not mine.update(received=offset + len(piece)):
            received = CheckpointFile.objects.filter(pk=file.pk).values_list("received", flat=True).first()
            raise WrongOffset(path, received or 0)
    return offset + len(piece)


def complete_checkpoint(public_id: str, number: int, checkpoint: str, user: Any = None) -> Checkpoint:
    """Check all files and take the checkpoint. Idempotent.

    Raises as `claims.held`; NotFound; IncompleteCheckpoint; WrongHash: those files begin anew; Unusable: weights that
    are not the job's model (`weights.py`).
    """
    row = _get_checkpoint(public_id, number, checkpoint, user)
    if row.state == CheckpointState.READY:
        return row
    with _lock_checkpoint(row):
        return _complete_locked(public_id, number, checkpoint, user)


@contextlib.contextmanager
def _lock_checkpoint(row: Checkpoint) -> Iterator[None]:
    """Lock a checkpoint while its files are taken: a second request would find them gone. No transaction is open
    meanwhile."""
    release_connection()
    with (open_incoming_folder() / f"lock-{row.pk % LOCKS}").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _complete_locked(public_id: str, number: int, checkpoint: str, user: Any) -> Checkpoint:
    row = _get_checkpoint(public_id, number, checkpoint, user)
    if row.state == CheckpointState.READY:
        return row
    files = list(row.files.all())
    missing = [{"path": file.path, "received": file.received} for file in files if file.received < file.bytes]
    if missing:
        message = f"{len(missing)} files are not whole yet: send the rest of them."
        raise IncompleteCheckpoint(message, facts={"files": missing[:100]})
    release_connection()
    wrong = [file.path for file in files if not file.stored and not _take_file(row, file)]
    if wrong:
        message = f"{', '.join(wrong[:5])}: not the bytes that were announced. Send them again from the beginning."
        raise WrongHash(message, facts={"files": [{"path": path, "received": 0} for path in wrong]})
    _require_weights(row)
    with transaction.atomic():
        job, _ = claims.require_attempt(public_id, number, user, lock=True)
        if not Checkpoint.objects.filter(pk=row.pk, state=CheckpointState.UPLOADING).update(
            state=CheckpointState.READY
        ):
            return Checkpoint.objects.get(pk=row.pk)
        _note_complete(job, row)
    row.refresh_from_db()
    return row


def _require_weights(row: Checkpoint) -> None:
    """Raise Unusable as `require_same_model`, and record an event of the job: without these weights it cannot end as
    done."""
    try:
        require_same_model(row)
    except Unusable as error:
        what = "The final model" if row.final else f"The checkpoint of step {row.step}"
        transitions.log_refusal(row.job, f"{what} was not taken. {error}", row.step)
        raise


def drop_checkpoint(checkpoint: Checkpoint) -> None:
    """Remove a checkpoint that was never complete, and its files after the commit."""
    remove_files(checkpoint)
    checkpoint.delete()


def remove_files(checkpoint: Checkpoint) -> None:
    """Remove the files of a checkpoint after the commit; their names and hashes remain in the rows."""
    for file in checkpoint.files.all():
        place, stored = _get_part_path(file), file.stored
        transaction.on_commit(lambda place=place: place.unlink(missing_ok=True))  # type: ignore[misc]
        if stored:
            transaction.on_commit(lambda stored=stored: default_storage.delete(stored))  # type: ignore[misc]
    checkpoint.files.update(stored="", received=0)


def open_incoming_folder() -> Path:
    folder = Path(settings.ENVARIUM_HOME) / "incoming"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def build_disk_error(error: OSError) -> InfrastructureError:
    """Return the error of a disk that cannot be written, after which a worker tries again."""
    full = "The disk of the web app is full."
    return InfrastructureError(full if is_disk_full(error) else f"Cannot be written: {error.strerror}.")


def _note_complete(job: TrainingJob, row: Checkpoint) -> None:
    TrainingJob.objects.filter(pk=job.pk).update(lost=0)
    what = "The final model" if row.final else f"The checkpoint of step {row.step}"
    transitions.log_event(job, "info", f"{what} is here.", kind="checkpoint", checkpoint=row.public_id, step=row.step)
    publish_job(job.pk)


def _require_files(files: Sequence[AnnouncedFile], final: bool) -> None:
    """Raise Unusable for files that a checkpoint cannot have."""
    paths = [file.path for file in files]
    for path in paths:
        _require_path(path, final)
    folded = [path.lower() for path in paths]
    inner = {parent.lower() for path in paths for parent in map(str, Path(path).parents)}
    if len(set(folded)) < len(folded) or inner & set(folded):
        raise Unusable("files: two of them have one path.")
    if final and "config.json" not in paths:
        raise Unusable("files: a final model has a config.json.")
    sharded = MANIFEST in paths and not final
    if not sharded and not any(path.endswith(".safetensors") for path in paths):
        raise Unusable("files: none of them holds weights (.safetensors).")
    most = settings.TRAINING_CHECKPOINT_GIB << 30
    if sum(file.bytes for file in files) > most:
        raise Unusable(
            f"files: larger than {settings.TRAINING_CHECKPOINT_GIB} GiB together "
            "(ENVARIUM_TRAINING_CHECKPOINT_GIB of the web app).",
        )


def _require_room(job: TrainingJob, number: int, size: int) -> None:
    """Raise TooManyUploads or InfrastructureError. The announced bytes of all running attempts that were not sent yet
    count."""
    uploading = Checkpoint.objects.filter(state=CheckpointState.UPLOADING)
    if uploading.filter(job=job, attempt=number).count() >= MOST_OPEN:
        raise TooManyUploads(
            f"{MOST_OPEN} checkpoints of this attempt are announced and not whole yet: send the rest of one first."
        )
    running = uploading.filter(job__state=TrainingState.RUNNING, job__attempt=F("attempt"))
    sums = CheckpointFile.objects.filter(checkpoint__in=running).aggregate(left=Sum(F("bytes") - F("received")))
    if not has_room(size + int(sums["left"] or 0)):
        raise InfrastructureError(
            f"The disk of the web app has no room for {size >> 20:,} MiB more in addition to other uploads and its "
            "reserve (ENVARIUM_DISK_RESERVE_MIB). Make room there; the checkpoint is announced again then."
        )


def _require_path(path: str, final: bool) -> None:
    parts = path.split("/")
    if len(parts) > DEEPEST or len(path) > 200 or not all(PART.fullmatch(part) for part in parts):
        raise Unusable(f"files: {path[:100]!a} is no path that is taken: folders and names of A-Z a-z 0-9 . _ -")
    resuming = not final and RESUMING.fullmatch(parts[-1])
    if not path.endswith(SUFFIXES) and not resuming:
        raise Unusable(
            f"files: {path[:100]!a} is not accepted. Weights are .safetensors; also allowed: "
            f"{', '.join(SUFFIXES[1:])}, "
            "and what resuming needs (optimizer.pt, scheduler.pt, rng_state.pth), which no final model has.",
        )


def _get_checkpoint(public_id: str, number: int, checkpoint: str, user: Any) -> Checkpoint:
    job, _ = claims.require_attempt(public_id, number, user)
    row = Checkpoint.objects.filter(job=job, attempt=number, public_id=checkpoint).first()
    if row is None or row.state == CheckpointState.DELETED:
        raise NotFound("There is no such checkpoint of this attempt: announce it first.")
    return row


def _get_file(public_id: str, number: int, checkpoint: str, path: str, user: Any) -> tuple[Checkpoint, CheckpointFile]:
    row = _get_checkpoint(public_id, number, checkpoint, user)
    file = row.files.filter(path=path).first()
    if file is None:
        raise NotFound(f"The checkpoint has no file {path[:100]!a}.")
    return row, file


def _get_part_path(file: CheckpointFile) -> Path:
    return open_incoming_folder() / f"checkpoint-file-{file.pk}"


def _write_piece(at: Path, offset: int, piece: bytes) -> None:
    # Two requests may write at the same moment: neither may truncate the file, or it loses the other's bytes.
    try:
        at.touch()
        with at.open("r+b") as file:
            file.seek(offset)
            file.write(piece)
    except OSError as error:
        raise build_disk_error(error) from error


def _take_file(row: Checkpoint, file: CheckpointFile) -> bool:
    """Move a complete file into the file store; return False if it is not the announced one: it begins anew."""
    at = _get_part_path(file)
    try:
        at.touch()
        with at.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            if digest != file.sha256 or at.stat().st_size != file.bytes:
                _restart_file(file, at)
                return False
            try:
                if file.path.endswith(SUFFIX):
                    require_format(file.path, stream, file.bytes)
            except InputError:
                _restart_file(file, at)
                raise
            stream.seek(0)
            name = f"{FOLDER}/{row.job.public_id}/{row.public_id}/{uuid.uuid4().hex}"
            stored = default_storage.save(name, _MovableFile(at, stream))
    except OSError as error:
        raise build_disk_error(error) from error
    CheckpointFile.objects.filter(pk=file.pk).update(stored=stored)
    at.unlink(missing_ok=True)
    return True


def _restart_file(file: CheckpointFile, at: Path) -> None:
    CheckpointFile.objects.filter(pk=file.pk).update(received=0)
    at.unlink(missing_ok=True)
