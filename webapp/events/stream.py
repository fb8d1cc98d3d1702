"""Stream of server-sent events, from where a browser left off, until its right or its session ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY
from django.db import connection
from django.utils.crypto import constant_time_compare

from webapp.accounts.access import may
from webapp.accounts.models import User
from webapp.events.hub import STREAMS_A_PERSON, Follower, hub
from webapp.events.models import Event
from webapp.events.services import KEPT

BEAT_SECONDS = 15.0
MISSED_AT_ONCE = 500


def said(event: str, data: str = "", number: int | None = None) -> str:
    head = f"id: {number}\n" if number is not None else ""
    return f"{head}event: {event}\ndata: {data}\n\n"


async def stream(person: int, session: str, topics: frozenset[str], after: int | None) -> AsyncIterator[str]:
    """Server-sent events: what was missed, `hello`, then `change` with a topic each.

    `reset` where some were lost, `beat` while nothing happens, `end` when the person may no longer look, `busy` where a
    person has too many streams.
    """
    await sync_to_async(_release)()
    if hub().streams_of(person) >= STREAMS_A_PERSON:
        yield said("busy")
        return
    yield "retry: 2000\n\n"
    async with hub().follow(person, topics) as mine:
        for line in await sync_to_async(_missed)(topics, after, mine.since):
            yield line
        yield said("hello", number=mine.since)
        async for line in _changes(mine, person, session):
            yield line


def _release() -> None:
    """Give back what the view used, or each open stream would hold one of the pool's connections."""
    connection.close()


async def _changes(mine: Follower, person: int, session: str) -> AsyncIterator[str]:
    looked = time.monotonic()
    while True:
        try:
            async with asyncio.timeout(BEAT_SECONDS):
                number, topic = await mine.queue.get()
            yield said("change", topic, number) if topic else said("reset", number=number)
        except TimeoutError:
            yield said("beat")
        if time.monotonic() - looked >= BEAT_SECONDS:
            looked = time.monotonic()
            if not await sync_to_async(still_allowed)(person, session):
                yield said("end")
                return


def _missed(topics: frozenset[str], after: int | None, until: int) -> list[str]:
    """What changed between two events, each topic once."""
    try:
        if after is None or after >= until:
            return []
        if after < until - KEPT:
            return [said("reset", number=until)]
        rows = Event.objects.filter(pk__gt=after, pk__lte=until, topic__in=topics).order_by("-pk")
        numbers = {topic: number for number, topic in reversed(rows.values_list("pk", "topic")[:MISSED_AT_ONCE])}
        return [said("change", topic, number) for topic, number in sorted(numbers.items(), key=lambda pair: pair[1])]
    finally:
        connection.close()


def still_allowed(person: int, session: str) -> bool:
    """Whether the session is there, is this person's with this password, and may still read."""
    try:
        user = User.objects.filter(pk=person).first()
        if user is None or not may(user, "read"):
            return False
        store: Any = import_module(settings.SESSION_ENGINE).SessionStore(session)
        return constant_time_compare(store.load().get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())
    finally:
        connection.close()
