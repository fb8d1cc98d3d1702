"""One child process: started so that it cannot outlive the run, recognized later, stopped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from webapp.stack import account as accounts

LOG_BYTES = 16 * 1024 * 1024
SAME_START_SECONDS = 2.0
"""The clock that start times are computed from may be corrected by so much between two looks."""


@dataclass(frozen=True)
class Service:
    """A child process: how it starts, when it is ready, how it is stopped.

    `ready` is a real probe, called until it is true. `stop_steps` are signals with the seconds that each is given;
    SIGKILL follows. `death_signal` is the signal that the kernel sends if the supervisor is killed.
    """

    name: str
    command: Sequence[str | Path]
    ready: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    account: accounts.Account | None = None
    stop_steps: Sequence[tuple[signal.Signals, float]] = ((signal.SIGTERM, 8.0),)
    death_signal: signal.Signals = signal.SIGKILL
    before: Callable[[], None] = lambda: None
    """Runs before every start, restarts included: removes what a killed predecessor left."""
    retry_seconds: float | None = None
    """Pause before a restart when the process ends while it comes up; None leaves it to the back-off."""
    folder: Path = Path("/")
    """Working directory. The default is one that every account may enter."""
    in_view: bool = False
    """Its output goes to the person who started the run instead of a log."""


class Child:
    """A running `Service`. Its record file lets the next run recognize it if this one is killed."""

    def __init__(self, service: Service, *, logs: Path, records: Path) -> None:
        self.service = service
        self.record = records / f"{service.name}.json"
        self.started = time.monotonic()
        service.before()
        with open(logs / f"{service.name}.log", "ab") as log:
            self.process = spawn_process(service, sys.stdout.fileno() if service.in_view else log.fileno())
        # On a full disk it runs without: only a run that is killed meanwhile would miss it.
        with contextlib.suppress(OSError):
            self.record.write_text(json.dumps(identify_process(self.process.pid)))

    @property
    def pid(self) -> int:
        return self.process.pid

    def find_exit_code(self) -> int | None:
        """Return the exit code, or None while it runs. The rest of its process group ends with it."""
        if self.process.returncode is None and _has_ended(self.pid):
            signal_group(self.pid, signal.SIGKILL)
            self.process.wait()
            self.record.unlink(missing_ok=True)
        return self.process.returncode

    def send(self, number: signal.Signals) -> None:
        if self.find_exit_code() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        if self.find_exit_code() is None:
            signal_group(self.pid, signal.SIGKILL)
            self.process.kill()


def spawn_process(service: Service, output: int) -> subprocess.Popen[bytes]:
    """Start the process in a session of its own, so that Ctrl-C in the terminal reaches only the supervisor."""
    parent = os.getpid()
    account, death_signal = service.account, service.death_signal

    def prepare_child() -> None:
        if account is not None:
            accounts.switch_to_account(account)
        accounts.die_with_parent(parent, death_signal)

    return subprocess.Popen(
        [str(part) for part in service.command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=service.folder,
        env=dict(service.environment),
        start_new_session=True,
        preexec_fn=prepare_child,
    )


def _has_ended(pid: int) -> bool:
    """Return whether a child has ended. It stays unreaped on Linux, so that its group's number is still its own."""
    if sys.platform == "linux":
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def kill_group(process: subprocess.Popen[Any], *, seconds: float = 5.0) -> None:
    """Kill a child that leads its own process group, with all of it, and wait until none of them runs.

    The end of a grandchild cannot be waited for: its state is polled, for `seconds` at most.
    """
    signal_group(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + seconds
    while _is_group_running(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)


def _is_group_running(group: int) -> bool:
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
        except (psutil.Error, ProcessLookupError, PermissionError):
            continue
    return False


def identify_process(pid: int) -> dict[str, float]:
    """Return data that distinguish a process from a later one with the same number."""
    try:
        return {"pid": pid, "started": psutil.Process(pid).create_time()}
    except psutil.NoSuchProcess:
        return {"pid": pid, "started": 0.0}


def find_survivors(records: Path) -> list[tuple[str, psutil.Process]]:
    """Return processes that an earlier run of this home started and that still run; never others with a reused
    number."""
    processes = []
    for record in sorted(records.glob("*.json")):
        try:
            recorded = json.loads(record.read_text())
            process = psutil.Process(int(recorded["pid"]))
            same = abs(process.create_time() - float(recorded["started"])) < SAME_START_SECONDS
        except (OSError, ValueError, KeyError, TypeError, psutil.NoSuchProcess):
            record.unlink(missing_ok=True)
            continue
        if same and process.status() != psutil.STATUS_ZOMBIE:
            processes.append((record.stem, process))
        else:
            record.unlink(missing_ok=True)
    return processes


def end_survivor(name: str, process: psutil.Process, *, seconds: float = 20.0) -> None:
    """Stop a process of a killed run: PostgreSQL quickly and in order, anything else with TERM, then KILL."""
    try:
        family = process.children(recursive=True)
        process.send_signal(signal.SIGINT if name == "postgres" else signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
    except psutil.NoSuchProcess:
        return
    _gone, alive = psutil.wait_procs([process], timeout=seconds)
    for rest in [*alive, *(family if name != "postgres" else [])]:
        try:
            rest.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(alive, timeout=5)


def truncate_log(path: Path, limit: int = LOG_BYTES) -> None:
    """Keep a log under `limit` bytes: the end of a longer one moves to `NAME.1`, and the open file continues empty."""
    try:
        if path.stat().st_size <= limit:
            return
        older = path.with_name(path.name + ".1")
        try:
            older.write_bytes(path.read_bytes()[-limit:])
        except OSError:  # a full disk: the room is worth more than the lines
            older.unlink(missing_ok=True)
        os.truncate(path, 0)
    except OSError:
        return
