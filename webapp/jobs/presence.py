"""Presence of Celery workers: each writes a broker key with a time to live every few seconds.

A blocking `inspect` of Celery would report the same more slowly, and not at all if the broker is slow.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import redis

from webapp.common.broker import make_client

PREFIX = "envarium:worker:"
SANDBOX_PREFIX = "envarium:sandbox:"
EVERY_SECONDS = 2.0
KEPT_SECONDS = 15
SANDBOX_KEPT_SECONDS = 600


@dataclass(frozen=True)
class WorkerPresence:
    """Worker as it last described itself. `name` is Celery's `kind@host`; `sandbox` is None until probed."""

    name: str
    pid: int
    queues: tuple[str, ...]
    seconds: float
    sandbox: dict[str, Any] | None


def report_worker(broker: redis.Redis, worker: str, pid: int, queues: list[str]) -> None:
    broker.set(PREFIX + worker, json.dumps({"pid": pid, "queues": queues}), ex=KEPT_SECONDS)


def remove_worker(broker: redis.Redis, worker: str) -> None:
    broker.delete(PREFIX + worker, SANDBOX_PREFIX + worker)


def report_sandbox(url: str, worker: str, report: dict[str, Any]) -> None:
    """Store a worker's report about its sandbox for the health page."""
    with make_client(url) as broker:
        broker.set(SANDBOX_PREFIX + worker, json.dumps(report), ex=SANDBOX_KEPT_SECONDS)


def list_workers(url: str) -> list[WorkerPresence]:
    """Return every worker that reported in the last `KEPT_SECONDS`. Raises redis.RedisError if the broker is away."""
    with make_client(url) as broker:
        keys = sorted(key.decode() for key in broker.scan_iter(match=PREFIX + "*", count=1000))
        answers = [_read_worker(broker, key) for key in keys]
    return [seen for seen in answers if seen is not None]


def _read_worker(broker: redis.Redis, key: str) -> WorkerPresence | None:
    name = key.removeprefix(PREFIX)
    pipe = broker.pipeline(transaction=False)
    pipe.get(key)
    pipe.pttl(key)
    pipe.get(SANDBOX_PREFIX + name)
    value, left, sandbox = pipe.execute()
    if value is None:
        return None
    worker = json.loads(value)
    seconds = max(0.0, KEPT_SECONDS - left / 1000)
    report = json.loads(sandbox) if sandbox else None
    return WorkerPresence(name, int(worker["pid"]), tuple(worker["queues"]), seconds, report)
