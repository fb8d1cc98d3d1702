"""The processes of a Celery worker: each job has one of its own, forked from a parent that has loaded all of it."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any

from celery import current_app
from celery.signals import worker_before_create_process, worker_process_init

from webapp.jobs import memory_limit

PRELOADED = {"llm": ("synthesis.llm.client",)}
"""By queue, what its jobs need and nobody else does: loaded once a worker, not once a job."""
_prepared = False


@worker_before_create_process.connect
def share(**_: Any) -> None:
    """Load what children need, and keep the collector off it: walking objects writes to them, and what is written to
    is shared no more."""
    global _prepared
    if _prepared:
        return
    _prepared = True
    for queue in current_app.amqp.queues.consume_from:
        for module in PRELOADED.get(queue, ()):
            import_module(module)
    gc.collect()
    gc.freeze()


@worker_process_init.connect
def keep_shared(**_: Any) -> None:
    """The same in the child, for what the parent made since; and its limit of memory, but for training's own."""
    gc.freeze()
    if "gpu" not in current_app.amqp.queues.consume_from:
        memory_limit.begin()
