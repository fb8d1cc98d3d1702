"""Telling who follows jobs and workers: at most twice a second a topic and process, and of the last change always."""

from __future__ import annotations

import logging
import threading
import time

from django.db import Error, connection, transaction

from webapp.events.services import publish

logger = logging.getLogger(__name__)

EVERY_SECONDS = 0.5
KEPT = 1_000
_lock = threading.Lock()
_told: dict[str, float] = {}
_waiting: set[str] = set()


def tell(*topics: str) -> None:
    """Publish these topics after the commit; one that was told just now is told again half a second later, once."""
    transaction.on_commit(lambda: _tell(topics))


def tell_job(pk: int, *, listed: bool = False) -> None:
    """Tell who follows a job; `listed`: something that lists of jobs show has changed too."""
    tell(f"training:{pk}", *(["training-jobs"] if listed else []))


def _tell(topics: tuple[str, ...]) -> None:
    now = time.monotonic()
    with _lock:
        due = [topic for topic in topics if now - _told.get(topic, -EVERY_SECONDS) >= EVERY_SECONDS]
        later = set(topics) - set(due)
        start = bool(later) and not _waiting
        _waiting.update(later)
        _waiting.difference_update(due)
        _note(due, now)
    if start:
        timer = threading.Timer(EVERY_SECONDS, _tell_rest)
        timer.daemon = True
        timer.start()
    publish(due)


def _tell_rest() -> None:
    with _lock:
        topics = sorted(_waiting)
        _waiting.clear()
        _note(topics, time.monotonic())
    try:
        publish(topics)
    except Error as error:
        logger.warning("pages were not told of %s: %s", topics, error)
    finally:
        connection.close()


def _note(topics: list[str], now: float) -> None:
    if len(_told) > KEPT:
        for topic in [one for one, at in _told.items() if now - at >= EVERY_SECONDS]:
            del _told[topic]
    _told.update(dict.fromkeys(topics, now))
