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

from webapp.jobs.presence import workers
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
"""A trainer that is told to stop ends its step and hands in a checkpoint, so that the next start goes on from there."""


@dataclass(frozen=True)
class Health:
    """`/healthz` as it answered; `code` 0 when it did not."""

    code: int
    body: dict[str, Any]

    def missing(self) -> str:
        """What is not well, in one line."""
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


def health(port: int, *, seconds: float = 6.0) -> Health:
    """Ask the site how it is. Never raises."""
    connection = http.client.HTTPConnection(HOST, port, timeout=seconds)
    try:
        connection.request("GET", "/healthz", headers={"Accept": "application/json"})
        answer = connection.getresponse()
        return Health(answer.status, json.loads(answer.read()))
    except (OSError, http.client.HTTPException, ValueError):
        return Health(0, {})
    finally:
        connection.close()


def listens(port: int) -> bool:
    """Whether the site takes connections. Nothing more is asked: who waits for an answer tends no other service."""
    try:
        socket.create_connection((HOST, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def prepare(environment: Mapping[str, str]) -> Service:
    """Migrations, the first user and the demo content, in one process that shows its steps."""
    return Service(
        "prepare",
        python("-m", "webapp.stack.prepare"),
        lambda: True,
        environment,
        folder=ROOT,
        in_view=True,
    )


def web(environment: Mapping[str, str], port: int) -> Service:
    command = ["-m", "webapp.stack.web_processes", "--host", HOST, "--port", str(port), "--grace", str(GRACE_SECONDS)]
    return Service(
        "web",
        python(*command),
        lambda: listens(port),
        environment,
        folder=ROOT,
        stop_steps=((SIGTERM, GRACE_SECONDS + 5.0),),
    )


def worker(environment: Mapping[str, str], queue: str, size: int, records: Path) -> Service:
    """A Celery worker. TERM lets it finish what it runs, QUIT drops that (its lease brings the job back)."""
    name = f"worker-{queue}"
    stopping = GPU_STOP_STEPS if queue == GPU else ((SIGTERM, 6.0), (SIGQUIT, 4.0))
    options = ["-Q", queue, "-n", f"{queue}@%h", "-c", str(size), "--loglevel", "INFO"]
    options += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    return Service(
        name,
        python("-m", "celery", "-A", "webapp.celery", "worker", *options),
        lambda: has_said(environment["BROKER_URL"], queue, records / f"{name}.json"),
        environment,
        folder=ROOT,
        stop_steps=stopping,
    )


def has_said(broker_url: str, queue: str, record: Path) -> bool:
    """Whether the worker of that record (this very process, not an earlier one) takes jobs from `queue`."""

    try:
        pid = int(json.loads(record.read_text())["pid"])
        return any(seen.pid == pid and queue in seen.queues for seen in workers(broker_url))
    except (OSError, ValueError, redis.RedisError):
        return False


def beat(environment: Mapping[str, str]) -> Service:
    """The clock. It keeps nothing between runs, so it is ready when it runs."""
    command = ["-m", "celery", "-A", "webapp.celery", "beat", "--loglevel", "WARNING", "--pidfile", ""]
    return Service("beat", python(*command), lambda: True, environment, folder=ROOT)
