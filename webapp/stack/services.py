"""Envarium's own processes: the site, the workers and the clock."""

from __future__ import annotations

import http.client
import json
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from signal import SIGQUIT, SIGTERM
from typing import Any

import redis

from webapp.jobs.presence import list_workers
from webapp.stack.config import HOST, ROOT
from webapp.stack.process import Service

GRACE_SECONDS = 3
"""Streams that are open at a stop get so long; without a limit uvicorn waits for them for ever."""
WORKERS = {"llm": 2, "sandbox": 2}
"""Queue and how many jobs it runs at a time; each queue has a worker of its own name."""
GPU = "gpu"
"""The queue of training, one job at a time, and of serving. Its worker comes up when the site is ready already."""
GPU_JOBS = 2
"""A worker that trains and one that serves."""
GPU_STOP_STEPS = ((SIGTERM, 30.0), (SIGQUIT, 4.0))
"""A trainer that is asked to stop ends its step and uploads a checkpoint, so that the next start continues from it."""


@dataclass(frozen=True)
class Health:
    """Answer of `/healthz`; `code` is 0 if there was none."""

    code: int
    body: dict[str, Any]

    def missing(self) -> str:
        """Return what is not healthy, in one line."""
        if not self.body:
            return "the site does not answer"
        parts = [
            f"{name}: {self.body[name].get('error') or 'not ok'}"
            for name in ("postgres", "broker", "sandbox")
            if name in self.body and not self.body[name].get("ok")
        ]
        if self.body.get("missing_queues"):
            parts.append(f"no worker for {', '.join(self.body['missing_queues'])}")
        return "; ".join(parts) or f"status {self.body.get('status')}"


def fetch_health(port: int, *, seconds: float = 6.0) -> Health:
    """Ask the site for its health. Never raises."""
    connection = http.client.HTTPConnection(HOST, port, timeout=seconds)
    try:
        connection.request("GET", "/healthz", headers={"Accept": "application/json"})
        answer = connection.getresponse()
        return Health(answer.status, json.loads(answer.read()))
    except (OSError, http.client.HTTPException, ValueError):
        return Health(0, {})
    finally:
        connection.close()


def is_listening(port: int) -> bool:
    """Return whether the site accepts connections. Nothing more is asked: waiting for an answer would keep the
    supervisor from other services."""
    try:
        socket.create_connection((HOST, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def build_python_command(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def build_prepare_service(environment: Mapping[str, str]) -> Service:
    """Return the service of migrations, the first user and the demo content, in one process that shows its steps."""
    return Service(
        "prepare",
        build_python_command("-m", "webapp.stack.prepare"),
        lambda: True,
        environment,
        folder=ROOT,
        in_view=True,
    )


def build_web_service(environment: Mapping[str, str], port: int) -> Service:
    command = ["-m", "webapp.stack.web_processes", "--host", HOST, "--port", str(port), "--grace", str(GRACE_SECONDS)]
    return Service(
        "web",
        build_python_command(*command),
        lambda: is_listening(port),
        environment,
        folder=ROOT,
        stop_steps=((SIGTERM, GRACE_SECONDS + 5.0),),
    )


def build_worker_service(environment: Mapping[str, str], queue: str, size: int, records: Path) -> Service:
    """Return the service of a Celery worker. TERM lets it finish its jobs, QUIT drops them (their leases bring them
    back)."""
    name = f"worker-{queue}"
    stopping = GPU_STOP_STEPS if queue == GPU else ((SIGTERM, 6.0), (SIGQUIT, 4.0))
    options = ["-Q", queue, "-n", f"{queue}@%h", "-c", str(size), "--loglevel", "INFO"]
    options += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    return Service(
        name,
        build_python_command("-m", "celery", "-A", "webapp.celery", "worker", *options),
        lambda: is_worker_ready(environment["BROKER_URL"], queue, records / f"{name}.json"),
        environment,
        folder=ROOT,
        stop_steps=stopping,
    )


def is_worker_ready(broker_url: str, queue: str, record: Path) -> bool:
    """Return whether the worker of that record (this very process, not an earlier one) takes jobs from `queue`."""

    try:
        pid = int(json.loads(record.read_text())["pid"])
        return any(seen.pid == pid and queue in seen.queues for seen in list_workers(broker_url))
    except (OSError, ValueError, redis.RedisError):
        return False


def build_beat_service(environment: Mapping[str, str]) -> Service:
    """Return the service of the clock. It keeps nothing between runs, so it is ready when it runs."""
    command = ["-m", "celery", "-A", "webapp.celery", "beat", "--loglevel", "WARNING", "--pidfile", ""]
    return Service("beat", build_python_command(*command), lambda: True, environment, folder=ROOT)
