"""One attempt from its claim to its end: prepared, run by a child process, sent, reported."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthesis.errors import EnvariumError, InfrastructureError, InputError
from training import lifeline
from training.job import CHECKPOINTS, MODEL, RECORD, RESULT, Exit, VllmServer
from training.worker import child, machine, shards
from training.worker.assignment import ASSIGNMENT, LOCK, Assignment, write_atomically
from training.worker.attempt_folder import prepare_folder
from training.worker.client import (
    Client,
    GivenUp,
    ServerRefusal,
    StaleAttempt,
    Unauthorised,
    build_attempt_path,
    translate_full_disk,
)
from training.worker.uploads import Sender, send_checkpoint, send_files, send_records

LOOK_S = 0.2
STOP_S = 1_800.0
"""A trainer that was asked to stop and has not stopped after this time is ended."""
NAMED_UNSENT = 5
RESULT_BYTES = 1024 * 1024


@dataclass
class Control:
    """Shared state of the threads of an attempt. `stale`: another attempt holds the job; `failed`: sending cannot
    continue.
    """

    told: Assignment
    folder: Path
    ending: Callable[[], bool]
    wish: str = ""
    stale: bool = False
    failed: Exception | None = None
    pid: int | None = None
    unsent: list[str] = field(default_factory=list)
    """Files of attempts that could not be sent: why numbers of a finished job have no attempts behind them."""
    trained: threading.Event = field(default_factory=threading.Event)

    @property
    def is_asked_to_stop(self) -> bool:
        return bool(self.wish) or self.ending() or self.failed is not None

    @property
    def lost(self) -> bool:
        return self.stale or isinstance(self.failed, StaleAttempt | Unauthorised)

    def step(self) -> int | None:
        """Return the last recorded step, or None before the first."""
        with contextlib.suppress(EnvariumError, OSError, ValueError, IndexError):
            line = child.read_tail(self.folder / RECORD, 512 * 1024).rstrip(b"\n").rsplit(b"\n", 1)[-1]
            return int(json.loads(line)["step"])
        return None


@dataclass(frozen=True)
class Workplace:
    """Environment of a worker. `token` is for the child of a job whose users speak through the web app."""

    client: Client
    home: Path
    models: Path | None
    hub: tuple[str, ...]
    threads: int
    token: str
    say: Callable[[str], None]
    server: VllmServer | None = None
    checkpoints: str = ""
    """Where shards of checkpoints are kept, if not in the worker's home."""

    @property
    def store(self) -> str:
        return self.checkpoints or str(self.home / "checkpoints")

    @property
    def attempts(self) -> Path:
        return self.home / "attempts"

    @property
    def cache(self) -> Path:
        return self.home / "cache"


def run_attempt(place: Workplace, control: Control) -> None:
    """Run an attempt, report its end and delete its folder. Raises Unauthorised, GivenUp: the folder stays."""
    assignment, folder = control.told, control.folder
    place.say(f"{assignment.job}: attempt {assignment.attempt} begins")
    try:
        code = _train_attempt(place, control)
        _send_rest(place, control)
        _report_end(place, control, child.read_exit_name(folder, code), code)
    except StaleAttempt:
        place.say(
            f"{assignment.job}: attempt {assignment.attempt} does not hold the job any more; its folder is dropped"
        )
    except (Unauthorised, GivenUp):
        raise
    except (InputError, InfrastructureError, OSError) as error:
        place.say(f"{assignment.job}: {error}")
        _post_end(place, assignment, "input" if isinstance(error, InputError) else "infrastructure", str(error))
    shutil.rmtree(folder, ignore_errors=True)


def finish_attempt(place: Workplace, control: Control) -> None:
    """Send the remaining data of an attempt whose worker was ended, and report its end. Raises as `run_attempt`."""
    assignment, folder = control.told, control.folder
    place.say(f"{assignment.job}: attempt {assignment.attempt} was left behind; what is not sent yet is sent now")
    _wait_for_trainer(folder)
    control.trained.set()
    try:
        _send_rest(place, control)
        _report_end(place, control, child.read_exit_name(folder, None), None)
    except StaleAttempt:
        place.say(
            f"{assignment.job}: attempt {assignment.attempt} does not hold the job any more; its folder is dropped"
        )
    except (Unauthorised, GivenUp):
        raise
    except (InputError, InfrastructureError, OSError) as error:
        place.say(f"{assignment.job}: {error}")
        _post_end(place, assignment, child.CRASHED, str(error))
    shutil.rmtree(folder, ignore_errors=True)


def _train_attempt(place: Workplace, control: Control) -> int | None:
    """Return the child's status, or `Exit.STOPPED` if the job was stopped before it began."""
    assignment, folder = control.told, control.folder
    with translate_full_disk(folder / ASSIGNMENT):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / ASSIGNMENT, assignment.model_dump_json())
        lock_file = lifeline.hold_lock(folder / LOCK)
    try:
        job = prepare_folder(
            place.client, assignment, folder, place.cache, place.models, place.hub, place.threads,
            lambda: control.is_asked_to_stop or control.lost, place.server,
        )  # fmt: skip
        if assignment.resume is not None:
            shards.fetch_shards(place.store, folder / CHECKPOINTS / f"checkpoint-{assignment.resume.step}")
        with translate_full_disk(folder / LOCK):
            process = child.start_trainer(folder, assignment, job, len(machine.list_devices()), place.token)
        return _follow_trainer(place, control, process)
    except GivenUp:
        if control.lost:
            raise StaleAttempt(409, "stale_attempt", "", {}) from None
        return Exit.STOPPED
    finally:
        os.close(lock_file)
        control.trained.set()


def _follow_trainer(place: Workplace, control: Control, process: subprocess.Popen[bytes]) -> int:
    """Send the trainer's output until it has ended; return its status."""
    control.pid = process.pid
    senders = [
        threading.Thread(target=_run_sending, args=(place, control, send)) for send in (send_records, send_files)
    ]
    for sender in senders:
        sender.start()
    try:
        _supervise_trainer(process, control)
    finally:
        child.kill_trainer(process)
        control.pid = None
        control.trained.set()
        for sender in senders:
            sender.join()
    return process.returncode


def _supervise_trainer(process: subprocess.Popen[bytes], control: Control) -> None:
    """Wait for the trainer's end; pass on a request to stop."""
    asked_at: float | None = None
    while process.poll() is None and not control.lost:
        if asked_at is None and control.is_asked_to_stop:
            asked_at = time.monotonic()
            try:
                child.ask_to_stop(control.folder)
            except OSError:
                # On a full disk the file cannot be written. A signal is the last resort, since the launcher of several
                # trainers gives them little time after one.
                process.terminate()
        if asked_at is not None and time.monotonic() - asked_at > STOP_S:
            return
        time.sleep(LOOK_S)


def _run_sending(place: Workplace, control: Control, send: Callable[[Sender, Callable[[], bool]], None]) -> None:
    """Run a sending thread. Boundary: its errors are stored for the main thread."""
    try:
        send(_make_sender(place, control), control.trained.is_set)
    except InfrastructureError as error:
        control.failed = control.failed or error
    except (EnvariumError, OSError, ValueError, KeyError) as error:
        control.failed = control.failed or InfrastructureError(f"What the trainer wrote cannot be sent: {error}")


def _make_sender(place: Workplace, control: Control) -> Sender:
    # A worker that is ending does not wait for the server; the rest is sent after its next start.
    given_up = lambda: control.lost or (control.ending() and control.trained.is_set())  # noqa: E731
    return Sender(place.client, control.told, control.folder, given_up, place.say, place.store, control.unsent)


def _send_rest(place: Workplace, control: Control) -> None:
    if control.stale:
        raise StaleAttempt(409, "stale_attempt", "", {})
    if control.failed is not None:
        raise control.failed
    sender = _make_sender(place, control)
    send_records(sender, lambda: True)
    send_files(sender, lambda: True)


def _report_end(place: Workplace, control: Control, name: str, code: int | None) -> None:
    folder = control.folder
    result = _read_result(folder)
    if name == "done" and control.told.config.get("type") != "evaluation":
        step = int((result or {}).get("step", 0))
        send_checkpoint(_make_sender(place, control), step, folder / MODEL, final=True)
        shards.prune_checkpoints(place.store, control.told.job, 0)
    message = child.read_end_message(folder, name, code)
    if name == "done" and control.unsent:
        message = f"Attempts that could not be sent: {'; '.join(control.unsent[:NAMED_UNSENT])}."
    _post_end(place, control.told, name, message, result, child.read_log_end(folder), control)


def _post_end(
    place: Workplace,
    told: Assignment,
    name: str,
    message: str,
    result: dict[str, Any] | None = None,
    log: str = "",
    control: Control | None = None,
) -> None:
    body = {"exit": name, "message": message[:4_000], "code": name, "result": result, "log": log}
    given_up = _make_sender(place, control).given_up if control is not None else None
    try:
        place.client.call("POST", build_attempt_path(told.job, told.attempt, "end"), body, given_up=given_up)
    except ServerRefusal as error:
        if isinstance(error, StaleAttempt | Unauthorised):
            raise
        # The job is queued again when its lease is over; this worker can do nothing more.
        place.say(f"{told.job}: its end was refused: {error}")
    place.say(f"{told.job}: attempt {told.attempt} ended: {name}" + (f" ({message[:300]})" if message else ""))


def _read_result(folder: Path) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):
        if (folder / RESULT).stat().st_size <= RESULT_BYTES:
            result = json.loads((folder / RESULT).read_bytes())
            return result if isinstance(result, dict) else None
    return None


def _wait_for_trainer(folder: Path, seconds: float = 30.0) -> None:
    """Wait until the trainer no longer holds the record: it ends a moment after its worker."""
    until = time.monotonic() + seconds
    with contextlib.suppress(FileNotFoundError):
        file = os.open(folder / RECORD, os.O_RDONLY)
        try:
            while time.monotonic() < until:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    return
                time.sleep(LOOK_S)
        finally:
            os.close(file)
