"""The worker's main loop: it registers, claims a job, runs it and claims the next; it needs only an address and a
token.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.util
import os
import shutil
import signal
import socket
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from synthesis.errors import EnvariumError, InfrastructureError, InputError
from training.job import ANY_MODEL, VllmServer, can_fetch_models
from training.worker import machine
from training.worker.assignment import (
    Assignment,
    ServerMessage,
    parse_reply,
    read_assignment,
    read_worker_id,
    store_worker_id,
)
from training.worker.attempt import Control, Workplace, finish_attempt, run_attempt
from training.worker.attempt_folder import prune_cache
from training.worker.child import TOKEN
from training.worker.client import Client, GivenUp, ServerRefusal, StaleAttempt, Unauthorised, build_attempt_path
from training.worker.serving.model_server import choose_server_kind
from training.worker.serving.slots import Slots

HOUSE = Path(__file__).resolve().parents[2]
CLAIM_WAIT_S = 5.0
"""A claim waits so long at the server; a worker that is to end waits for its answer, lest a job be lost with it."""
IDLE_CLAIMS = 3
"""With `--until-idle` so many claims in a row find nothing."""


class Registered(ServerMessage):
    id: str = Field(max_length=100)
    heartbeat_s: float = Field(gt=0, le=3_600)


@dataclass
class WorkerProcess:
    """State of the process. `current` is the attempt that it runs; `ending` returns whether the process was asked to
    end.
    """

    place: Workplace
    given: argparse.Namespace
    ending: Callable[[], bool]
    id: str = ""
    heartbeat_s: float = 5.0
    current: Control | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def say(self, line: str) -> None:
        self.place.say(line)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the worker. Return the exit status: 0, 1 for a fault of the environment or server, 2 for invalid
    arguments.
    """
    options = _build_parser().parse_args(arguments)
    signals: list[int] = []

    def is_ending() -> bool:
        return bool(signals)

    # The handler must not take a lock: a second signal interrupts it, and would deadlock.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: signals.append(number))
    try:
        with contextlib.ExitStack() as resources:
            token = _read_token(options.token_file)
            home = _lock_home(options.home, resources)
            client = resources.enter_context(
                contextlib.closing(Client(options.url, token, given_up=is_ending, say=_print_line))
            )
            place = Workplace(
                client, home, options.models, tuple(options.hub), options.threads, token, _print_line,
                _parse_vllm_server(options), options.checkpoints,
            )  # fmt: skip
            _run_worker(WorkerProcess(place, options, is_ending))
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except GivenUp:
        # The server was unreachable when the worker was asked to end: the rest is sent after the next start.
        return 0
    except EnvariumError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.worker", description="Carries out training jobs of an Envarium server."
    )
    parser.add_argument("--url", required=True, help="the server's address, such as https://envarium.example.org")
    parser.add_argument("--token-file", type=Path, help=f"a file with an API token of scope worker (else ${TOKEN})")
    parser.add_argument("--home", type=Path, required=True, help="a folder for attempts and what they are made of")
    parser.add_argument("--models", type=Path, help="a folder with models, NAME or OWNER/NAME below it")
    parser.add_argument(
        "--hub",
        action="append",
        default=[],
        metavar="OWNER/NAME",
        help="a model it may fetch from Hugging Face, and no other; without this any, unless HF_HUB_OFFLINE=1",
    )
    parser.add_argument(
        "--checkpoints",
        default="",
        metavar="FOLDER|URL",
        help="where shards of checkpoints are kept: a folder, or a URL that fsspec knows (s3://bucket/jobs with s3fs); "
        "else below --home",
    )
    parser.add_argument("--name", default="", help="what the worker is called (else the host's name)")
    parser.add_argument("--threads", type=int, default=0, help="threads that the CPU computes with; 0: torch decides")
    parser.add_argument("--cache-gib", type=float, default=50.0, help="size of what is kept for the next job")
    parser.add_argument(
        "--serve",
        type=int,
        nargs="?",
        const=1,
        default=0,
        metavar="N",
        help="serve checkpoints, N at once (else 1), and train nothing",
    )
    parser.add_argument(
        "--serve-with",
        choices=("auto", "vllm", "transformers"),
        default="auto",
        help="what serves them; auto: vLLM if it is installed and there is a GPU",
    )
    parser.add_argument(
        "--vllm-server", metavar="URL", help="a vLLM server for attempts of RL, on GPUs of its own (docs/training.md)"
    )
    parser.add_argument(
        "--vllm-server-sleeps",
        action="store_true",
        help="it lies on the trainer's GPUs, and sleeps while the model learns",
    )
    parser.add_argument("--once", action="store_true", help="end after one job")
    parser.add_argument("--until-idle", action="store_true", help="end when no job waits")
    parser.add_argument("--beside", action="store_true", help="this installation's own queue started it")
    return parser


def _parse_vllm_server(given: argparse.Namespace) -> VllmServer | None:
    if not given.vllm_server:
        return None
    try:
        return VllmServer(url=given.vllm_server, sleep=given.vllm_server_sleeps)
    except ValidationError:
        raise InputError("--vllm-server: an address such as http://127.0.0.1:8000 is wanted") from None


def _read_token(file: Path | None) -> str:
    try:
        token = (file.read_text(encoding="utf-8") if file is not None else os.environ.get(TOKEN, "")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--token-file: {file} cannot be read: {error}") from error
    if not token or not token.isascii() or not token.isprintable():
        raise InputError(f"No token: give --token-file, or an API token of scope worker in {TOKEN}.")
    return token


def _lock_home(folder: Path, held: contextlib.ExitStack) -> Path:
    """Return the folder, created if missing and locked against other workers."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("trl") is None:
        raise InputError("Training needs torch and trl in this Python: install Envarium's extra `train`.")
    try:
        (folder / "attempts").mkdir(parents=True, exist_ok=True)
        lock = held.enter_context((folder / "lock").open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(f"--home: another worker uses {folder}; give each its own") from error
    except OSError as error:
        raise InfrastructureError(f"--home: {folder} cannot be used: {error.strerror}") from error
    return folder.resolve()


def _run_worker(worker: WorkerProcess) -> None:
    _register_worker(worker)
    beats = threading.Thread(target=_send_heartbeats, args=(worker,), name="heartbeat", daemon=True)
    beats.start()
    try:
        if worker.given.serve > 0:
            _make_slots(worker).run(worker.given.serve)
        else:
            _finish_left_attempts(worker)
            _claim_jobs(worker)
    finally:
        worker.over.set()
    with contextlib.suppress(InfrastructureError):
        worker.place.client.call("POST", f"workers/{worker.id}/goodbye", {}, tries=2)


def _make_slots(worker: WorkerProcess) -> Slots:
    given, place = worker.given, worker.place
    return Slots(
        place.client, lambda: worker.id, place.home, choose_server_kind(given.serve_with), given.threads,
        worker.heartbeat_s, given.until_idle, worker.ending, worker.say,
    )  # fmt: skip


def _register_worker(worker: WorkerProcess) -> None:
    options, host = worker.given, socket.gethostname()
    registration = {
        "name": options.name or host,
        "host": host,
        "pid": os.getpid(),
        "version": _read_version(),
        "devices": machine.list_devices(),
        "main_memory_mib": machine.read_main_memory_mib(),
        "software": machine.list_software(),
        "engines": machine.list_engines(worker.place.server),
        "models": _list_models(options),
        "beside": options.beside,
        "serves": max(0, options.serve),
        "store": worker.place.store[:500],
        "was": read_worker_id(worker.place.home),
    }
    reply = parse_reply(Registered, worker.place.client.call("POST", "workers", registration))
    worker.id, worker.heartbeat_s = reply.id, reply.heartbeat_s
    store_worker_id(worker.place.home, worker.id)
    worker.say(f"registered as {worker.id}")


def _list_models(given: argparse.Namespace) -> list[str]:
    """Return the models it can load: local ones, those it may fetch, and `ANY_MODEL` if it may fetch any."""
    fetched = given.hub or ([ANY_MODEL] if can_fetch_models() else [])
    return sorted({*machine.list_models(given.models), *fetched})[:200]


def _read_version() -> str:
    """Return the version in the pyproject.toml of this code."""
    try:
        return str(tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
    except (OSError, tomllib.TOMLDecodeError, KeyError):
        return ""


def _claim_jobs(worker: WorkerProcess) -> None:
    idle = 0
    while not worker.ending():
        try:
            path = f"workers/{worker.id}/claim"
            reply = worker.place.client.call(
                "POST", path, {}, params={"wait_s": int(CLAIM_WAIT_S)}, wait_s=CLAIM_WAIT_S
            )
        except Unauthorised:
            raise
        except ServerRefusal as error:
            if error.status != 404:
                raise
            _register_worker(worker)
            continue
        if reply is None:
            idle += 1
            if worker.given.until_idle and idle >= IDLE_CLAIMS:
                return
            continue
        idle = 0
        _run_claimed_job(worker, reply)
        prune_cache(worker.place.cache, int(worker.given.cache_gib * 2**30))
        if worker.given.once:
            return


def _run_claimed_job(worker: WorkerProcess, reply: dict[str, Any]) -> None:
    try:
        assignment = parse_reply(Assignment, reply)
    except InfrastructureError as error:
        worker.say(str(error))
        path = build_attempt_path(str(reply.get("job"))[:64], int(reply.get("attempt") or 0), "end")
        with contextlib.suppress(StaleAttempt):
            worker.place.client.call("POST", path, {"exit": "fault", "message": str(error)})
        return
    control = Control(assignment, worker.place.attempts / assignment.name, worker.ending)
    worker.current = control
    try:
        run_attempt(worker.place, control)
    finally:
        worker.current = None


def _finish_left_attempts(worker: WorkerProcess) -> None:
    """Finish the attempts that a killed worker left behind."""
    for folder in sorted(worker.place.attempts.iterdir()):
        assignment = read_assignment(folder)
        if assignment is None or assignment.name != folder.name:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        # `worker.current` stays None, so heartbeats do not hold the job: it is no longer trained here.
        finish_attempt(worker.place, Control(assignment, folder, worker.ending))


def _send_heartbeats(worker: WorkerProcess) -> None:
    while not worker.over.wait(worker.heartbeat_s):
        control = worker.current
        body: dict[str, Any] = {"usage": machine.measure_usage(control.pid if control else None)}
        if control is not None:
            body |= {"job": control.told.job, "attempt": control.told.attempt, "step": control.step()}
        with contextlib.suppress(GivenUp, ServerRefusal):
            reply = worker.place.client.call("POST", f"workers/{worker.id}/heartbeat", body, tries=1) or {}
            if control is not None:
                control.wish = str(reply.get("wish", ""))[:20] or control.wish
                control.stale = control.stale or reply.get("stale") is True


def _print_line(line: str) -> None:
    print(time.strftime("%H:%M:%S"), line.replace("\n", " ")[:2_000], file=sys.stderr, flush=True)
