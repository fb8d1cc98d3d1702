"""Processes of a Celery worker: each job has one of its own, forked from a parent that has loaded all of the code."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any

from celery import current_app
from celery.signals import worker_before_create_process, worker_process_init

from webapp.jobs import memory_limit

PRELOADED = {"llm": ("synthesis.llm.client",)}
"""By queue, modules that only its jobs need: loaded once per worker, not once per job."""
_prepared = False


@worker_before_create_process.connect
def preload_modules(**_: Any) -> None:
    """Load what children need, and freeze it for the collector: a collection writes to the objects that it walks, and
    pages that are written to are no longer shared."""
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
def freeze_child_objects(**_: Any) -> None:
    """Freeze in the child what the parent made since, and set its memory limit, except for training."""
    gc.freeze()
    if "gpu" not in current_app.amqp.queues.consume_from:
        memory_limit.set_memory_limit()
