"""Scheduler of Celery with a reaper of its own: a full queue must not keep lost jobs waiting."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery.beat import ScheduleEntry, Scheduler
from django.db import Error, close_old_connections

from webapp.jobs import services

logger = logging.getLogger(__name__)

LOCAL: dict[str, Callable[[], Any]] = {"jobs.reap": services.reap_jobs}
"""What the clock does itself, by task. Other apps add to it in their own `jobs.py`."""


class LocalScheduler(Scheduler):
    """Scheduler that keeps its schedule in memory: the intervals are seconds, so no file is needed between runs."""

    def apply_async(self, entry: ScheduleEntry, producer: Any = None, advance: bool = True, **kwargs: Any) -> Any:
        work = LOCAL.get(str(entry.task))
        if work is None:
            return super().apply_async(entry, producer=producer, advance=advance, **kwargs)
        if advance:
            self.reserve(entry)
        close_old_connections()
        try:
            return work()
        except Error as error:
            logger.warning("%s did not run: %s", entry.task, error)
            return None
        finally:
            close_old_connections()
