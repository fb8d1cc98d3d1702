"""Heartbeat of a Celery worker, written by its own event loop: a worker that hangs or lost the broker falls silent."""

from __future__ import annotations

import logging
import os
from typing import Any

import redis
from celery import bootsteps
from django.conf import settings

from webapp.common.broker import make_client
from webapp.jobs import presence

logger = logging.getLogger(__name__)


class Heartbeat(bootsteps.StartStopStep):
    """Step of Celery's consumer: runs from the moment that tasks are taken until the connection is lost."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.timer: Any = None
        self.broker: redis.Redis | None = None

    def start(self, parent: Any) -> None:
        self.broker = make_client(settings.BROKER_URL, seconds=1.0)
        self.say(parent)
        self.timer = parent.timer.call_repeatedly(presence.EVERY_SECONDS, self.say, (parent,))

    def say(self, parent: Any) -> None:
        if self.broker is None:
            return
        queues = sorted(queue.name for queue in parent.task_consumer.queues)
        try:
            presence.report_worker(self.broker, parent.hostname, os.getpid(), queues)
        except redis.RedisError as error:
            logger.warning("no heartbeat: %s", error)

    def stop(self, parent: Any) -> None:
        if self.timer:
            self.timer.cancel()
            self.timer = None
        if self.broker is None:
            return
        try:
            presence.remove_worker(self.broker, parent.hostname)
        except redis.RedisError:
            logger.info("the broker is gone: the heartbeat runs out by itself")
        self.broker.close()
        self.broker = None
