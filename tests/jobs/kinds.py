"""Kinds of jobs that exist for tests; the worker of the tests loads them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from billiard.exceptions import SoftTimeLimitExceeded
from django.db import connection

from webapp.jobs.context import JobContext
from webapp.jobs.registry import register_job_handler


@register_job_handler("tests.count", queue="llm")
def count(context: JobContext) -> dict[str, Any]:
    """Count to `payload.to`, a step each `payload.pause` seconds, leaving a line per step and attempt."""
    steps = int(context.payload["to"])
    for done in range(steps):
        context.progress(done, steps, f"step {done}")
        context.check()
        time.sleep(float(context.payload.get("pause", 0)))
    context.log("counted")
    context.progress(steps, steps)
    return {"counted": steps, "attempt": context.claim.number, "pid": os.getpid()}


@register_job_handler("tests.fail", queue="sandbox")
def fail(context: JobContext) -> dict[str, Any]:
    raise ValueError("on purpose")


@register_job_handler("tests.hoard", queue="llm")
def hoard(context: JobContext) -> dict[str, Any]:
    """Take `payload.mib` at once; or in pieces of a KiB, and tell what came of it in words of its own."""
    mib = int(context.payload["mib"])
    if not context.payload.get("pieces"):
        return {"bytes": len(bytearray(mib << 20))}
    try:
        return {"pieces": len([bytes(1_000 + piece % 2) for piece in range(mib << 10)])}
    except MemoryError as error:
        raise ValueError("The pieces did not fit.") from error


@register_job_handler("tests.die", queue="llm")
def die(context: JobContext) -> dict[str, Any]:
    """Kill the process that runs it; after `payload.times` deaths, finish."""
    marks = Path(context.payload["marks"])
    (marks / str(context.claim.number)).touch()
    if len(list(marks.iterdir())) <= int(context.payload["times"]):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"attempt": context.claim.number}


@register_job_handler("tests.connection", queue="llm")
def backend(context: JobContext) -> dict[str, Any]:
    """The PostgreSQL process behind this worker process's connection, held while others ask the same."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        row = cursor.fetchone()
        time.sleep(float(context.payload.get("hold", 0)))
    return {"backend": row[0], "pid": os.getpid()}


@register_job_handler("tests.linger", queue="llm")
def linger(context: JobContext) -> dict[str, Any]:
    """Work on for ever at the first attempt; with `payload.deaf` not even the limit is heard."""
    while context.claim.number == 1:
        try:
            time.sleep(60)
        except SoftTimeLimitExceeded:
            if not context.payload.get("deaf"):
                raise
    return {"attempt": context.claim.number}
