"""Uploads of a trainer's output: its record in order, and each file as the record names it. Both resume at their last
position.

Two readers of one append-only file, each with its position on disk, so that a large checkpoint does not delay the
curve.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthesis.errors import InfrastructureError
from training.job import MANIFEST, RECORD
from training.metrics import Artefact, Position, Record, read_records
from training.worker import shards
from training.worker.assignment import FILES_SENT, RECORDS_SENT, Assignment, read_position, store_position
from training.worker.client import Client, ServerRefusal, StaleAttempt, Unauthorised, build_attempt_path, hash_file

BATCH, BATCH_BYTES = 500, 1024 * 1024
PIECE_BYTES = 8 * 1024 * 1024
LOOK_S = 0.5
OUTGOING = "outgoing"
ROLLOUT_BYTES = 256 * 1024 * 1024
RESENT = 3
_SENT = re.compile(
    r"[A-Za-z0-9._-]+\.(safetensors|json|jinja|txt|model)|(optimizer|scheduler|scaler)\.pt|rng_state(_\d+)?\.pth"
)
"""What is uploaded of a checkpoint: no pickle but what resuming reads with `weights_only`."""
_FOLDER = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True)
class Sender:
    """Shared data of both readers. `given_up` is called while they wait; `say` prints a line; `store` is the store of
    checkpoint shards (`training.worker.shards`). Files that cannot be sent are listed in `unsent`, with the reason.
    """

    client: Client
    told: Assignment
    folder: Path
    given_up: Callable[[], bool]
    say: Callable[[str], None]
    store: str = ""
    unsent: list[str] = field(default_factory=list)

    def call(self, method: str, rest: str, body: Any = None, **more: Any) -> dict[str, Any]:
        path = build_attempt_path(self.told.job, self.told.attempt, rest)
        return self.client.call(method, path, body, given_up=self.given_up, **more) or {}


def send_records(sender: Sender, over: Callable[[], bool]) -> None:
    """Post new records until `over` and none is left. Raises as `Client.call`; FormatError: a damaged record."""
    position_file = sender.folder / RECORDS_SENT
    position = read_position(position_file)
    while True:
        last = over()
        records, after = read_records(sender.folder / RECORD, position, BATCH)
        if not records:
            if last:
                return
            time.sleep(LOOK_S)
            continue
        lines, size = _select_fitting(records)
        if len(lines) < len(records):
            _, after = read_records(sender.folder / RECORD, position, len(lines))
        try:
            reply = sender.call("POST", "records", {"records": lines})
        except ServerRefusal as error:
            if error.code != "gap":
                raise
            # The server has fewer records than expected: start again; it skips those that it has.
            if position == Position():
                raise InfrastructureError(f"the server misses records that it was sent: {error}") from error
            position = Position()
            continue
        position = after if int(reply.get("next_seq", after.next_seq)) >= after.next_seq else Position()
        store_position(position_file, position)
        if len(lines) < BATCH and size < BATCH_BYTES and not last:
            time.sleep(LOOK_S)


def _select_fitting(records: Sequence[Record]) -> tuple[list[dict[str, Any]], int]:
    lines: list[dict[str, Any]] = []
    size = 0
    for record in records:
        line = record.model_dump(mode="json")
        size += len(json.dumps(line))
        if lines and size > BATCH_BYTES:
            break
        lines.append(line)
    return lines, size


def send_files(sender: Sender, over: Callable[[], bool]) -> None:
    """Upload each file that the record names, in its order, until `over` and none is left. Raises as `send_records`."""
    position_file = sender.folder / FILES_SENT
    position = read_position(position_file)
    while True:
        last = over()
        records, after = read_records(sender.folder / RECORD, position)
        for number, record in enumerate(records, 1):
            if isinstance(record, Artefact):
                _send_artefact(sender, record)
                store_position(position_file, read_records(sender.folder / RECORD, position, number)[1])
        position = after
        if not records:
            if last:
                return
            time.sleep(LOOK_S)


def _send_artefact(sender: Sender, artefact: Artefact) -> None:
    path = sender.folder / artefact.path
    if not path.resolve().is_relative_to(sender.folder.resolve()):
        raise InfrastructureError(f"the record names a file outside its folder: {artefact.path[:200]}")
    try:
        if artefact.what == "rollouts":
            _send_rollouts(sender, artefact.step, path)
        else:
            names, folders = (artefact.data.get(name) for name in ("files", "shards"))
            if isinstance(folders, list) and folders:
                _store_shards(sender, path, [str(folder) for folder in folders])
            send_checkpoint(sender, artefact.step, path, names=names if isinstance(names, list) else [])
    except FileNotFoundError:
        # The trainer keeps only the latest checkpoints; some may be deleted while the server is unreachable.
        sender.say(f"{artefact.path} is gone, so it is not sent")
        if artefact.what == "rollouts":
            sender.unsent.append(f"{artefact.path} is gone")
    except (StaleAttempt, Unauthorised):
        raise
    except ServerRefusal as error:
        sender.say(f"{artefact.path} was refused: {error}")


def _store_shards(sender: Sender, checkpoint: Path, folders: list[str]) -> None:
    if any(not _FOLDER.fullmatch(name) for name in folders):
        raise InfrastructureError(f"the record names a folder outside its checkpoint: {str(folders)[:200]}")
    if not (checkpoint / MANIFEST).is_file():
        shards.store_shards(sender.store, sender.told.job, checkpoint, folders)
    limits = sender.told.config.get("limits")
    kept = limits.get("checkpoints_kept", 3) if isinstance(limits, dict) else 3
    shards.prune_checkpoints(sender.store, sender.told.job, int(kept))


def _send_rollouts(sender: Sender, step: int, path: Path) -> None:
    if path.stat().st_size > ROLLOUT_BYTES:
        words = f"{path.name} has more than {ROLLOUT_BYTES >> 20} MiB"
        sender.say(f"{words}, so it is not sent")
        sender.unsent.append(words)
        return
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    headers = {"X-Content-SHA256": digest, "Content-Type": "application/gzip"}
    sender.call("PUT", f"rollouts/{step}", content=content, headers=headers)
    # A long job's attempts would fill the disk; the server has this file now.
    path.unlink()


def send_checkpoint(sender: Sender, step: int, folder: Path, *, names: Sequence[str] = (), final: bool = False) -> None:
    """Upload a checkpoint's files, at least those in `names`, resuming an earlier try.

    Raises FileNotFoundError: it is gone, or partly gone; ServerRefusal: the server does not accept it, or has another
    hash.
    """
    linked_folder = _link_checkpoint(sender.folder / OUTGOING, folder)
    files = sorted(path for path in linked_folder.iterdir() if path.is_file() and _SENT.fullmatch(path.name))
    if any(not (linked_folder / Path(str(name)).name).is_file() for name in names):
        shutil.rmtree(linked_folder, ignore_errors=True)
        raise FileNotFoundError(folder)
    file_entries = [{"path": path.name, "bytes": path.stat().st_size, "sha256": hash_file(path)} for path in files]
    before, tries_left = -1, RESENT
    while True:
        begun = sender.call("POST", "checkpoints", {"step": step, "final": final, "files": file_entries})
        received = {str(file.get("path")): int(file.get("received", 0)) for file in begun.get("files", [])}
        before, tries_left = sum(received.values()), tries_left - 1 if sum(received.values()) <= before else RESENT
        at = f"checkpoints/{begun['id']}"
        try:
            for path in files:
                _send_rest(sender, at, path, received.get(path.name, 0))
            sender.call("POST", f"{at}/complete", {})
            break
        except (StaleAttempt, Unauthorised):
            raise
        except ServerRefusal as error:
            # A piece that was stored although its reply was lost, or a file that has to be sent again.
            if not tries_left or error.status not in (409, 422):
                raise
    shutil.rmtree(linked_folder, ignore_errors=True)


def _send_rest(sender: Sender, at: str, path: Path, offset: int) -> None:
    with path.open("rb") as file:
        file.seek(offset)
        while piece := file.read(PIECE_BYTES):
            sender.call(
                "PATCH", f"{at}/files", content=piece, params={"path": path.name, "offset": offset},
                headers={"Content-Type": "application/octet-stream"},
            )  # fmt: skip
            offset += len(piece)


def _link_checkpoint(outgoing: Path, folder: Path) -> Path:
    """Return a folder with hard links to the checkpoint's files, which the trainer does not know and so does not
    remove.
    """
    linked_folder = outgoing / folder.name
    if not folder.is_dir() and not linked_folder.is_dir():
        raise FileNotFoundError(folder)
    if folder.is_dir():
        linked_folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if path.is_file() and not (linked_folder / path.name).exists():
                os.link(path, linked_folder / path.name)
    return linked_folder
