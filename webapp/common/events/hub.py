"""Hub of live updates: one LISTEN connection a process, and a queue for each follower."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from django.conf import settings
from django.db import connections
from psycopg import sql
from psycopg.conninfo import make_conninfo

from webapp.common.events.services import CHANNEL

logger = logging.getLogger(__name__)

QUEUE = 200
"""Most changes that wait for a slow reader; with more, the reader is notified to load everything again."""
LOOK_SECONDS = 5.0
"""A wake-up that was lost is made up for after so long."""
AGAIN_SECONDS = 1.0
IDLE_SECONDS = 30.0
STREAMS_A_PERSON = 8
"""In one web process."""
AT_ONCE = 1_000
NEW = "SELECT id, topic FROM events_event WHERE id > %s ORDER BY id LIMIT %s"

Change = tuple[int, str]
"""Number and topic of an event; the topic is empty where some were lost."""


@dataclass(eq=False)
class Follower:
    person: int
    topics: frozenset[str]
    since: int
    """The last event before it followed: what comes later reaches its queue."""
    queue: asyncio.Queue[Change] = field(default_factory=lambda: asyncio.Queue(QUEUE))

    def offer(self, change: Change) -> None:
        if change[1] not in self.topics:
            return
        if self.queue.full():
            while not self.queue.empty():
                self.queue.get_nowait()
            change = (change[0], "")
        self.queue.put_nowait(change)


class Hub:
    """The hub of one event loop. It listens while it has followers, and a little longer."""

    def __init__(self) -> None:
        self.followers: set[Follower] = set()
        self.last = 0
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def count_streams(self, person: int) -> int:
        return sum(follower.person == person for follower in self.followers)

    @contextlib.asynccontextmanager
    async def follow(self, person: int, topics: frozenset[str]) -> AsyncIterator[Follower]:
        """Yield a follower until the block ends. Waits until the hub listens."""
        if self._task is None or self._task.done():
            self._ready.clear()
            self._task = asyncio.create_task(self._listen())
        await self._ready.wait()
        follower = Follower(person, topics, self.last)
        self.followers.add(follower)
        try:
            yield follower
        finally:
            self.followers.discard(follower)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        """Listen until there are no more followers; reconnect after a lost connection, and read what was missed."""
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(build_listen_address(), autocommit=True)
                async with connection:
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
                    if not self._ready.is_set():
                        self.last = await _read_newest_id(connection)
                        self._ready.set()
                    await self._pass_on(connection)
                return
            except (psycopg.Error, OSError) as error:
                logger.warning("live updates: the database cannot be listened to: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _pass_on(self, connection: psycopg.AsyncConnection[Any]) -> None:
        idle = 0.0
        while self.followers or idle < IDLE_SECONDS:
            answer = await connection.execute(NEW, [self.last, AT_ONCE])
            rows: list[Change] = await answer.fetchall()
            for change in rows:
                self.last = change[0]
                for follower in list(self.followers):
                    follower.offer(change)
            # More rows may exist: read them before the next wait for a notification.
            if len(rows) == AT_ONCE:
                continue
            idle = 0.0 if self.followers else idle + LOOK_SECONDS
            async for _ in connection.notifies(timeout=LOOK_SECONDS, stop_after=1):
                pass
        self._ready.clear()
        self._task = None


async def _read_newest_id(connection: psycopg.AsyncConnection[Any]) -> int:
    answer = await connection.execute("SELECT coalesce(max(id), 0) FROM events_event")
    row = await answer.fetchone()
    return int(row[0]) if row else 0


def build_listen_address() -> str:
    """Return where to listen: the database itself. A transaction pooler passes no notifications on."""
    if settings.EVENTS_DATABASE_URL:
        return str(settings.EVENTS_DATABASE_URL)
    database_settings = connections["default"].settings_dict
    parts = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    set_parts = {key: str(database_settings[name]) for key, name in parts.items() if database_settings[name]}
    extra = {key: value for key, value in database_settings["OPTIONS"].items() if key != "pool"}
    return make_conninfo("", **{**extra, **set_parts})


_HUBS: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def get_hub() -> Hub:
    """Return the hub of the running loop."""
    loop = asyncio.get_running_loop()
    current = _HUBS.get(loop)
    if current is None:
        current = _HUBS[loop] = Hub()
    return current
