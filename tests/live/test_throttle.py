"""The throttle of live updates: each topic so often at most, and its last change always."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter

import pytest
from django.db import OperationalError, connection, transaction

from tests.fixtures.processes import wait_for
from webapp.common.events import throttle as module
from webapp.common.events.models import Event
from webapp.common.events.throttle import Throttle

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 0.4


def told() -> Counter[str]:
    return Counter(Event.objects.values_list("topic", flat=True))


def test_the_first_change_is_told_at_once_and_the_last_one_always() -> None:
    throttle = Throttle(SECONDS)
    throttle.tell("job:1")
    assert told() == {"job:1": 1}
    for _ in range(50):
        throttle.tell("job:1")
    throttle.tell("job:2")
    assert told() == {"job:1": 1, "job:2": 1}
    wait_for(lambda: told() == {"job:1": 2, "job:2": 1}, what="the change that waited")
    throttle.close()
    assert told() == {"job:1": 2, "job:2": 1}


def test_closing_waits_for_a_timer_that_another_thread_is_just_starting(monkeypatch) -> None:
    """Closed by a job that ends while a thread of its process notes one more change."""
    throttle, made, go_on = Throttle(SECONDS), threading.Event(), threading.Event()

    def close() -> None:
        throttle.close()
        connection.close()

    class SlowToStart(threading.Timer):
        def start(self) -> None:
            made.set()
            go_on.wait(10)
            super().start()

    monkeypatch.setattr(module.threading, "Timer", SlowToStart)
    noting = threading.Thread(target=throttle.note, args=("batch:1",))
    noting.start()
    made.wait(10)
    closing = threading.Thread(target=close)
    closing.start()
    closing.join(0.1)
    go_on.set()
    closing.join(10)
    noting.join(10)
    assert told() == {"batch:1": 1}


def test_nothing_is_told_of_what_was_rolled_back() -> None:
    throttle = Throttle(SECONDS)
    with transaction.atomic():
        throttle.tell("job:1")
        transaction.set_rollback(True)
    assert not told()


def test_an_event_loop_notes_many_changes_and_few_are_told() -> None:
    throttle = Throttle(SECONDS)

    async def work() -> None:
        until = time.monotonic() + 3 * SECONDS
        while time.monotonic() < until:
            throttle.note("batch:1")
            throttle.note(f"trajectory:{int(time.monotonic() * 100)}")
            await asyncio.sleep(0.01)

    asyncio.run(work())
    throttle.note("batch:2")
    throttle.close()
    found = told()
    assert 2 <= found["batch:1"] <= 6
    assert found["batch:2"] == 1
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer)]


def test_a_database_that_is_away_is_no_fault_of_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(topics: list[str]) -> None:
        raise OperationalError("away")

    throttle = Throttle(SECONDS)
    monkeypatch.setattr(module, "publish_topics", fail)
    throttle.note("batch:1")
    throttle.close()
    monkeypatch.undo()
    throttle.note("batch:1")
    throttle.close()
    assert told() == {"batch:1": 1}
