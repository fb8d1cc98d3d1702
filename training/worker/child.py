"""The trainer as a child of the worker: started, asked to stop, killed with all its processes, its exit read."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from training.job import EXIT, LLM_KEY, RECORD, STOP, THREADS_WAIT, Exit, JobFile
from training.lifeline import ALIVE
from training.worker.assignment import LOCK, LOG, Assignment

TOKEN = "ENVARIUM_WORKER_TOKEN"
ROOT = Path(__file__).resolve().parents[2]
CRASHED = "crashed"
LOG_BYTES = 16 * 1024
_TAIL_BYTES = 1024 * 1024
FULL_BYTES = 64 * 1024
"""With less than this free a disk is full."""


def start_trainer(folder: Path, told: Assignment, job: JobFile, gpus: int, token: str) -> subprocess.Popen[bytes]:
    """Start the trainer in a group of its own; it ends when the lock in its folder is free."""
    environment = {key: value for key, value in os.environ.items() if key != TOKEN}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", ALIVE: str(folder / LOCK)}
    environment.setdefault(*THREADS_WAIT)
    if job.threads:
        environment["OMP_NUM_THREADS"] = str(job.threads)
    if any(role is not None for role in (job.user, job.judge, job.policy)):
        environment[LLM_KEY] = token
    with (folder / LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *_build_command(folder, told, gpus)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )


def _build_command(folder: Path, told: Assignment, gpus: int) -> list[str]:
    if told.model.kind == "demo":
        return ["-m", "training.demo.start", str(folder), str(told.seed)]
    # An evaluation runs in one process: several would each make all attempts.
    if gpus < 2 or told.config.get("type") == "evaluation":
        return ["-m", "training.launch", str(folder)]
    several = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", str(gpus), "--num_machines", "1"]
    # Precision is the trainer's own setting.
    several += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    return [*several, "-m", "training.launch", str(folder)]


def ask_to_stop(folder: Path) -> None:
    """Ask the trainer to stop: it ends within a step, with a checkpoint."""
    (folder / STOP).touch()


def kill_trainer(process: subprocess.Popen[bytes]) -> None:
    """End the trainer's whole process group at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def read_exit_name(folder: Path, code: int | None) -> str:
    """Return the name of an `Exit`, or `crashed`. The launcher of several processes has its own exit codes, so the file
    is read then; `code` is None if the trainer's end was not observed.
    """
    names = {ending.name.lower() for ending in Exit}
    if code is not None and code in set(Exit) and code != Exit.FAULT:
        return Exit(code).name.lower()
    with contextlib.suppress(OSError, UnicodeDecodeError):
        name = (folder / EXIT).read_text(encoding="utf-8").strip()
        if name in names:
            return name
    return "fault" if code == Exit.FAULT else CRASHED


def read_end_message(folder: Path, name: str, code: int | None) -> str:
    """Return the reason why the trainer ended: the last error in its record, or the last line that it printed."""
    if name in ("done", "stopped", "out_of_time"):
        return ""
    if reason := _read_last_error(folder / RECORD):
        return reason
    if shutil.disk_usage(folder).free < FULL_BYTES:
        # Neither the record nor the log could take the reason.
        return f"The worker's disk is full ({folder.parent}): free some space there, then resume."
    if name == CRASHED and code is None:
        return "The worker was ended while the job was under way."
    if code is not None and code < 0:
        killed = f"The trainer's process was ended by signal {-code}"
        return killed + (" (SIGKILL): often memory had run out." if -code == signal.SIGKILL else ".")
    lines = [line for line in read_log_end(folder).splitlines() if line.strip()]
    return lines[-1][:2_000] if lines else f"The trainer ended with status {code} and gave no reason."


def _read_last_error(record: Path) -> str:
    for line in reversed(read_tail(record, _TAIL_BYTES).split(b"\n")):
        if b'"error"' not in line:
            continue
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and entry.get("kind") == "event" and entry.get("level") == "error":
                return str(entry.get("message", ""))[:4_000]
    return ""


def read_log_end(folder: Path) -> str:
    """Return the end of the trainer's output."""
    return read_tail(folder / LOG, LOG_BYTES).decode("utf-8", "replace").replace("\0", "�")


def read_tail(path: Path, most: int) -> bytes:
    """Return the last bytes of a file; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most))
            return file.read(most)
    except OSError:
        return b""
