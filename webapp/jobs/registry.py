"""Kinds of jobs. Each app registers its handlers in its own `jobs.py`, which is loaded once all models are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from webapp.jobs.context import JobContext

Handler = Callable[[JobContext], dict[str, Any]]
Closing = Callable[[int], None]


@dataclass(frozen=True)
class JobKind:
    name: str
    queue: str
    handler: Handler
    closing: Closing | None = None
    """Called with the row's number when it ends without its handler: given up by the reaper, or cancelled while it
    waited. What an earlier attempt left half done is tidied there."""


KINDS: dict[str, JobKind] = {}


def register_job_handler(name: str, *, queue: str, closing: Closing | None = None) -> Callable[[Handler], Handler]:
    """Register `handler(context) -> result` for jobs of kind `name`; the result is JSON and is kept on the row.

    A handler may run again after a crash: whatever it writes must be the same when written twice.
    """

    def register_handler(handler: Handler) -> Handler:
        KINDS[name] = JobKind(name, queue, handler, closing)
        return handler

    return register_handler
