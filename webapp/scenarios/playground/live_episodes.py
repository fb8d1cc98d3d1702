"""Episodes that this process keeps alive for playgrounds: a bounded cache, never authoritative.

Another web process may take the next call: it runs the stored calls again, and the episode here is closed when it is
found to be in another state than its row, or idle.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from synthesis.runtime.episode import Episode

MOST = 16
IDLE_SECONDS = 300.0
LOOK_SECONDS = 30.0


@dataclass
class LiveEpisode:
    """An episode in the state after change number `serial` of its playground."""

    episode: Episode
    serial: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    used: float = field(default_factory=time.monotonic)


class Cache:
    """The most recently used episodes; the oldest and the idle ones are closed."""

    def __init__(self) -> None:
        self._held: OrderedDict[int, LiveEpisode] = OrderedDict()
        self._lock = threading.Lock()
        self._sweeper: threading.Timer | None = None

    def take(self, playground: int, serial: int) -> LiveEpisode | None:
        """Return the live episode if it is exactly at `serial`; close it if it is not."""
        with self._lock:
            live = self._held.pop(playground, None)
            if live is None:
                return None
            if live.serial == serial and live.episode.alive:
                live.used = time.monotonic()
                self._held[playground] = live
                return live
        live.episode.close()
        return None

    def put(self, playground: int, live: LiveEpisode) -> None:
        closing = []
        with self._lock:
            old = self._held.pop(playground, None)
            closing += [old] if old else []
            self._held[playground] = live
            while len(self._held) > MOST:
                closing.append(self._held.popitem(last=False)[1])
            self._watch()
        for held in closing:
            held.episode.close()

    def drop(self, playground: int) -> None:
        with self._lock:
            live = self._held.pop(playground, None)
        if live is not None:
            live.episode.close()

    def clear(self) -> None:
        for playground in list(self._held):
            self.drop(playground)

    def sweep(self, idle: float = IDLE_SECONDS) -> None:
        """Close episodes that were not used for `idle` seconds."""
        before = time.monotonic() - idle
        for playground, live in list(self._held.items()):
            if live.used < before:
                self.drop(playground)
        with self._lock:
            self._sweeper = None
            self._watch()

    def _watch(self) -> None:
        if self._held and self._sweeper is None:
            self._sweeper = threading.Timer(LOOK_SECONDS, self.sweep)
            self._sweeper.daemon = True
            self._sweeper.start()


CACHE = Cache()
