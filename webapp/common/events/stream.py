"""Stream of server-sent events, from the last event of a browser on, until its right or its session ends."""

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

from webapp.accounts.access import has_scope
from webapp.accounts.models import User
from webapp.common.events.hub import STREAMS_A_PERSON, Follower, get_hub
from webapp.common.events.models import Event
from webapp.common.events.services import KEPT

BEAT_SECONDS = 15.0
MISSED_AT_ONCE = 500


def format_event(event: str, data: str = "", number: int | None = None) -> str:
    head = f"id: {number}\n" if number is not None else ""
    return f"{head}event: {event}\ndata: {data}\n\n"


async def stream_events(person: int, session: str, topics: frozenset[str], after: int | None) -> AsyncIterator[str]:
    """Yield server-sent events: what was missed, `hello`, then `change` with a topic each.

    `reset` if some were lost, `beat` while nothing happens, `end` when the user may no longer read, `busy` if a user
    has too many streams.
    """
    await sync_to_async(_release_connection)()
    if get_hub().count_streams(person) >= STREAMS_A_PERSON:
        yield format_event("busy")
        return
    yield "retry: 2000\n\n"
    async with get_hub().follow(person, topics) as follower:
        for line in await sync_to_async(_list_missed_events)(topics, after, follower.since):
            yield line
        yield format_event("hello", number=follower.since)
        async for line in _stream_changes(follower, person, session):
            yield line


def _release_connection() -> None:
    """Close the view's connection, or each open stream would hold one of the pool's connections."""
    connection.close()


async def _stream_changes(mine: Follower, person: int, session: str) -> AsyncIterator[str]:
    checked_at = time.monotonic()
    while True:
        try:
            async with asyncio.timeout(BEAT_SECONDS):
                number, topic = await mine.queue.get()
            yield format_event("change", topic, number) if topic else format_event("reset", number=number)
        except TimeoutError:
            yield format_event("beat")
        if time.monotonic() - checked_at >= BEAT_SECONDS:
            checked_at = time.monotonic()
            if not await sync_to_async(is_still_allowed)(person, session):
                yield format_event("end")
                return


def _list_missed_events(topics: frozenset[str], after: int | None, until: int) -> list[str]:
    """Return the changes between two events, each topic once."""
    try:
        if after is None or after >= until:
            return []
        if after < until - KEPT:
            return [format_event("reset", number=until)]
        rows = Event.objects.filter(pk__gt=after, pk__lte=until, topic__in=topics).order_by("-pk")
        numbers = {topic: number for number, topic in reversed(rows.values_list("pk", "topic")[:MISSED_AT_ONCE])}
        return [
            format_event("change", topic, number) for topic, number in sorted(numbers.items(), key=lambda pair: pair[1])
        ]
    finally:
        connection.close()


def is_still_allowed(person: int, session: str) -> bool:
    """Return whether the session exists, is this user's with this password, and the user may still read."""
    try:
        user = User.objects.filter(pk=person).first()
        if user is None or not has_scope(user, "read"):
            return False
        store: Any = import_module(settings.SESSION_ENGINE).SessionStore(session)
        return constant_time_compare(store.load().get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())
    finally:
        connection.close()
