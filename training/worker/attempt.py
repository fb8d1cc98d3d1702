"""One attempt from its claim to its end: laid out, carried out by a child, sent, told."""

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
from training.worker.assignment import ASSIGNMENT, LOCK, Assignment, write_whole
from training.worker.attempt_folder import lay_out
from training.worker.client import Client, GivenUp, ServerRefusal, StaleAttempt, Unauthorised, attempt_path, disk_of
from training.worker.uploads import Sender, send_checkpoint, send_files, send_records

LOOK_S = 0.2
STOP_S = 1_800.0
"""A trainer that was told to stop and has not after so long is ended."""
NAMED_UNSENT = 5
RESULT_BYTES = 1024 * 1024


@dataclass
class Control:
    """What threads tell each other of an attempt. `stale`: another holds the job; `failed`: sending cannot go on."""

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
    def asked_to_stop(self) -> bool:
        return bool(self.wish) or self.ending() or self.failed is not None

    @property
    def lost(self) -> bool:
        return self.stale or isinstance(self.failed, StaleAttempt | Unauthorised)

    def step(self) -> int | None:
        """The last step that is recorded; None before the first."""
        with contextlib.suppress(EnvariumError, OSError, ValueError, IndexError):
            line = child.tail(self.folder / RECORD, 512 * 1024).rstrip(b"\n").rsplit(b"\n", 1)[-1]
            return int(json.loads(line)["step"])
        return None


@dataclass(frozen=True)
class Workplace:
    """Where a worker works. `token` is for the child of a job whose users speak through the web app."""

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


def carry_out(place: Workplace, control: Control) -> None:
    """Carry an attempt out and tell its end; its folder is gone then. Raises Unauthorised, GivenUp: it stays."""
    told, folder = control.told, control.folder
    place.say(f"{told.job}: attempt {told.attempt} begins")
    try:
        code = _train(place, control)
        _send_rest(place, control)
        _tell_end(place, control, child.exit_of(folder, code), code)
    except StaleAttempt:
        place.say(f"{told.job}: attempt {told.attempt} does not hold the job any more; its folder is dropped")
    except (Unauthorised, GivenUp):
        raise
    except (InputError, InfrastructureError, OSError) as error:
        place.say(f"{told.job}: {error}")
        _tell(place, told, "input" if isinstance(error, InputError) else "infrastructure", str(error))
    shutil.rmtree(folder, ignore_errors=True)


def finish(place: Workplace, control: Control) -> None:
    """Send what an attempt left whose worker was ended, and tell its end. Raises as `carry_out`."""
    told, folder = control.told, control.folder
    place.say(f"{told.job}: attempt {told.attempt} was left behind; what is not sent yet is sent now")
    _wait_for_trainer(folder)
    control.trained.set()
    try:
        _send_rest(place, control)
        _tell_end(place, control, child.exit_of(folder, None), None)
    except StaleAttempt:
        place.say(f"{told.job}: attempt {told.attempt} does not hold the job any more; its folder is dropped")
    except (Unauthorised, GivenUp):
        raise
    except (InputError, InfrastructureError, OSError) as error:
        place.say(f"{told.job}: {error}")
        _tell(place, told, child.CRASHED, str(error))
    shutil.rmtree(folder, ignore_errors=True)


def _train(place: Workplace, control: Control) -> int | None:
    """The child's status; None where it was not begun, since the job was to stop before."""
    told, folder = control.told, control.folder
    with disk_of(folder / ASSIGNMENT):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / ASSIGNMENT, told.model_dump_json())
        held = lifeline.hold(folder / LOCK)
    try:
        job = lay_out(
            place.client, told, folder, place.cache, place.models, place.hub, place.threads,
            lambda: control.asked_to_stop or control.lost, place.server,
        )  # fmt: skip
        if told.resume is not None:
            shards.fetch(place.store, folder / CHECKPOINTS / f"checkpoint-{told.resume.step}")
        with disk_of(folder / LOCK):
            process = child.start(folder, told, job, len(machine.devices()), place.token)
        return _follow(place, control, process)
    except GivenUp:
        if control.lost:
            raise StaleAttempt(409, "stale_attempt", "", {}) from None
        return Exit.STOPPED
    finally:
        os.close(held)
        control.trained.set()


def _follow(place: Workplace, control: Control, process: subprocess.Popen[bytes]) -> int:
    """Send what the trainer writes until it has ended; returns its status."""
    control.pid = process.pid
    senders = [threading.Thread(target=_sending, args=(place, control, send)) for send in (send_records, send_files)]
    for sender in senders:
        sender.start()
    try:
        _supervise(process, control)
    finally:
        child.kill(process)
        control.pid = None
        control.trained.set()
        for sender in senders:
            sender.join()
    return process.returncode


def _supervise(process: subprocess.Popen[bytes], control: Control) -> None:
    """Wait for the trainer's end, obeying what was asked."""
    asked: float | None = None
    while process.poll() is None and not control.lost:
        if asked is None and control.asked_to_stop:
            asked = time.monotonic()
            try:
                child.ask_to_stop(control.folder)
            except OSError:
                # A full disk takes no file either. What starts several trainers gives them little time after a signal.
                process.terminate()
        if asked is not None and time.monotonic() - asked > STOP_S:
            return
        time.sleep(LOOK_S)


def _sending(place: Workplace, control: Control, send: Callable[[Sender, Callable[[], bool]], None]) -> None:
    """Boundary of a sending thread: what it meets is the main thread's to decide."""
    try:
        send(_sender(place, control), control.trained.is_set)
    except InfrastructureError as error:
        control.failed = control.failed or error
    except (EnvariumError, OSError, ValueError, KeyError) as error:
        control.failed = control.failed or InfrastructureError(f"What the trainer wrote cannot be sent: {error}")


def _sender(place: Workplace, control: Control) -> Sender:
    # A worker that is to end sends what it can; the rest is sent after its next start.
    given_up = lambda: control.lost or (control.ending() and control.trained.is_set())  # noqa: E731
    return Sender(place.client, control.told, control.folder, given_up, place.say, place.store, control.unsent)


def _send_rest(place: Workplace, control: Control) -> None:
    if control.stale:
        raise StaleAttempt(409, "stale_attempt", "", {})
    if control.failed is not None:
        raise control.failed
    sender = _sender(place, control)
    send_records(sender, lambda: True)
    send_files(sender, lambda: True)


def _tell_end(place: Workplace, control: Control, name: str, code: int | None) -> None:
    folder = control.folder
    result = _result(folder)
    if name == "done" and control.told.config.get("type") != "evaluation":
        step = int((result or {}).get("step", 0))
        send_checkpoint(_sender(place, control), step, folder / MODEL, final=True)
        shards.prune(place.store, control.told.job, 0)
    message = child.message_of(folder, name, code)
    if name == "done" and control.unsent:
        message = f"Attempts that could not be sent: {'; '.join(control.unsent[:NAMED_UNSENT])}."
    _tell(place, control.told, name, message, result, child.log_of(folder), control)


def _tell(
    place: Workplace,
    told: Assignment,
    name: str,
    message: str,
    result: dict[str, Any] | None = None,
    log: str = "",
    control: Control | None = None,
) -> None:
    body = {"exit": name, "message": message[:4_000], "code": name, "result": result, "log": log}
    given_up = _sender(place, control).given_up if control is not None else None
    try:
        place.client.call("POST", attempt_path(told.job, told.attempt, "end"), body, given_up=given_up)
    except ServerRefusal as error:
        if isinstance(error, StaleAttempt | Unauthorised):
            raise
        # The job is queued again when its lease is over; this worker has said all that it can.
        place.say(f"{told.job}: its end was refused: {error}")
    place.say(f"{told.job}: attempt {told.attempt} ended: {name}" + (f" ({message[:300]})" if message else ""))


def _result(folder: Path) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):
        if (folder / RESULT).stat().st_size <= RESULT_BYTES:
            result = json.loads((folder / RESULT).read_bytes())
            return result if isinstance(result, dict) else None
    return None


def _wait_for_trainer(folder: Path, seconds: float = 30.0) -> None:
    """Until nobody writes the record any more: the trainer ends a moment after its worker."""
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
