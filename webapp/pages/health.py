"""`/healthz`: whether this installation can do its work, for people, probes and `make run`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from typing import Any

import psycopg
import redis
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from synthesis.errors import EnvariumError
from synthesis.runtime import get_default_sandbox
from webapp.accounts.access import require_scope
from webapp.celery import REQUIRED_QUEUES
from webapp.common.broker import make_client
from webapp.common.disk import MIB, get_disk
from webapp.jobs import presence

PROBE_SECONDS = 2.0
LATE_SECONDS = 8.0
"""A worker that said nothing for so long is shown as not well, before its key runs out."""

Answer = dict[str, Any]


class HealthProbe:
    """One question with a time limit. While an answer is pending, the question is not asked again: neither a dead
    server nor many visitors accumulate threads."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self.ask = ask
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="health")
        self._running: Future[Answer] | None = None

    def begin(self) -> Future[Answer]:
        with self._lock:
            if self._running is None or self._running.done():
                self._running = self._executor.submit(self.ask)
            return self._running


def probe_postgres() -> Answer:
    options = {**connection.get_connection_params()}
    for name in ("cursor_factory", "context", "server_side_binding"):
        options.pop(name, None)
    began = time.perf_counter()
    try:
        with psycopg.connect(**{**options, "connect_timeout": 2}) as server:
            row = server.execute("show server_version").fetchone()
    except psycopg.Error:
        return {"ok": False, "error": "the database does not answer"}
    return {"ok": True, "version": str(row[0]) if row else "", "latency_ms": _measure_milliseconds(began)}


def probe_broker() -> Answer:
    began = time.perf_counter()
    try:
        with make_client(settings.BROKER_URL) as server:
            server.ping()
    except redis.RedisError:
        return {"ok": False, "error": "the broker does not answer"}
    return {"ok": True, "latency_ms": _measure_milliseconds(began)}


def probe_sandbox() -> Answer:
    try:
        report = get_default_sandbox().report()
    except EnvariumError as error:
        return {"ok": False, "mode": "none", "layers": [], "error": str(error)}
    return {"ok": True, "mode": report.mode, "layers": [layer.model_dump() for layer in report.layers]}


def probe_workers() -> Answer:
    """Return workers by the part of their name before the host, which must not be public."""
    answer: Answer = {}
    try:
        present_workers = presence.list_workers(settings.BROKER_URL)
    except redis.RedisError:
        return answer
    for worker in present_workers:
        kind = name = worker.name.split("@", 1)[0]
        number = 1
        while name in answer:
            number += 1
            name = f"{kind}-{number}"
        bad_sandbox = worker.sandbox is not None and not worker.sandbox.get("ok")
        answer[name] = {
            "ok": worker.seconds < LATE_SECONDS and not bad_sandbox,
            "queues": list(worker.queues),
            "last_seen_s": round(worker.seconds, 1),
            "sandbox": worker.sandbox,
        }
    return answer


PROBES = {
    name: HealthProbe(ask)
    for name, ask in (("postgres", probe_postgres), ("broker", probe_broker), ("sandbox", probe_sandbox))
}
WORKERS = HealthProbe(probe_workers)


def check_health() -> Answer:
    """Ask everything at once; at most about `PROBE_SECONDS`."""
    deadline = time.monotonic() + PROBE_SECONDS
    running = {name: probe.begin() for name, probe in PROBES.items()}
    team = WORKERS.begin()
    parts = {name: _get_result(future, deadline) for name, future in running.items()}
    try:
        people = team.result(timeout=max(0.0, deadline - time.monotonic()))
    except Late:
        people = {}
    served = {queue for worker in people.values() for queue in worker["queues"]}
    missing = [queue for queue in REQUIRED_QUEUES if queue not in served]
    down = missing or not all(part["ok"] for part in parts.values())
    unwell = not all(worker["ok"] for worker in people.values()) or parts["sandbox"].get("mode") == "reduced"
    status = "down" if down else "degraded" if unwell else "ok"
    room = get_disk()
    if room.is_short and status == "ok":
        status = "degraded"
    parts["disk"] = {"ok": not room.is_short, "free_mib": room.free // MIB, "reserve_mib": room.reserve // MIB}
    if room.is_short:
        parts["disk"]["error"] = room.sentence
    return {"status": status, **parts, "workers": people, "missing_queues": missing}


def _get_result(future: Future[Answer], deadline: float) -> Answer:
    try:
        return future.result(timeout=max(0.0, deadline - time.monotonic()))
    except Late:
        return {"ok": False, "error": f"no answer within {PROBE_SECONDS:.0f} s"}


def _measure_milliseconds(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 2)


@require_safe
@never_cache
@require_scope("public")
def show_health(request: HttpRequest) -> JsonResponse:
    """Return 200 while everything that jobs need is available (`ok`, `degraded`), 503 otherwise (`down`)."""
    answer = check_health()
    return JsonResponse(answer, status=503 if answer["status"] == "down" else 200)
