"""A throttle of live updates: it limits how often each topic is published, but always publishes its last change."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from weakref import WeakSet

from django.db import Error, connection, transaction

from webapp.common.events.services import publish_topics

logger = logging.getLogger(__name__)

KEPT = 1_000
_THROTTLES: WeakSet[Throttle] = WeakSet()


def flush_throttles() -> None:
    """Publish what waits in any throttle of this process, which is about to end."""
    for throttle in list(_THROTTLES):
        throttle.close()


class Throttle:
    """Publisher of each topic at most once in `seconds`, for all threads that share it. Earlier changes wait and are
    sent once."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._told: dict[str, float] = {}
        self._waiting: set[str] = set()
        self._published = -seconds
        self._timer: threading.Timer | None = None
        _THROTTLES.add(self)

    def tell(self, *topics: str) -> None:
        """Publish after the commit of this thread's transaction."""
        transaction.on_commit(lambda: self._tell(topics))

    def note(self, *topics: str) -> None:
        """Publish soon, together with other noted topics, from a thread of its own, so that an event loop may call
        it. The change must be committed already."""
        with self._lock:
            self._waiting.update(topics)
            self._wake(self._published + self.seconds - time.monotonic())

    def close(self) -> None:
        """Publish what waits and end the thread that would have."""
        # A timer that fires may start the next one, so look again after each.
        while (timer := self._get_timer()) is not None:
            timer.cancel()
            timer.join()
            with self._lock:
                self._timer = None if self._timer is timer else self._timer
        self._publish_waiting()

    def _get_timer(self) -> threading.Timer | None:
        with self._lock:  # a timer is set and started under the same lock
            return self._timer

    def _tell(self, topics: Iterable[str]) -> None:
        with self._lock:
            due = [topic for topic in topics if self._due_in(topic) <= 0]
            later = set(topics) - set(due)
            self._waiting = (self._waiting | later) - set(due)
            self._mark(due)
            if later:
                self._wake(self.seconds)
        publish_topics(due)

    def _due_in(self, topic: str) -> float:
        return self._told.get(topic, -self.seconds) + self.seconds - time.monotonic()

    def _wake(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = threading.Timer(max(0.0, seconds), self._fire)
            self._timer.daemon = True
            self._timer.start()

    def _fire(self) -> None:
        try:
            self._publish_waiting()
        finally:
            connection.close()
            with self._lock:
                self._timer = None
                if self._waiting:
                    self._wake(self.seconds)

    def _publish_waiting(self) -> None:
        """Publish what waits. A failure is only logged: followers request again by themselves."""
        with self._lock:
            topics = sorted(self._waiting)
            self._waiting.clear()
            self._mark(topics)
            self._published = time.monotonic()
        if not topics:
            return
        try:
            publish_topics(topics)
        except Error as error:
            logger.warning("live updates of %s were not sent: %s", topics, error)

    def _mark(self, topics: Iterable[str]) -> None:
        if len(self._told) > KEPT:
            self._told = {topic: at for topic, at in self._told.items() if self._due_in(topic) > 0}
        self._told.update(dict.fromkeys(topics, time.monotonic()))
