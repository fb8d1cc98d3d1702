"""The time limit of an attempt: the time of its tools, and silence. Waiting for its turn among others does not
count."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self


class Deadline:
    """A limit that ends the task that enters it, by TimeoutError, once `seconds` of its time are used up.

    All time counts except two sorts of waiting: for one of the threads that make calls, and for tokens, as long as
    their source shows activity. If that source was silent for all of the remaining time, the attempt is over. A reply
    that does come costs nothing, however late.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begun = time.monotonic()
        self.silent = False
        """Whether it expired while tokens were waited for."""
        self.queued: float | None = None
        """Since when a call waits for a thread."""
        self._waits: list[tuple[float, float]] = []
        """Spans of waiting that have ended; the episode begins in parallel with the first turn, so some overlap."""
        self._generating: float | None = None
        self._heard: Callable[[], float] | None = None
        self._limit = asyncio.timeout(None)
        self._look: asyncio.TimerHandle | None = None

    @property
    def wall_s(self) -> float:
        return time.monotonic() - self.begun

    @property
    def is_expired(self) -> bool:
        return self._limit.expired()

    @property
    def free_s(self) -> float:
        """Seconds that did not count, of the waits that have ended."""
        return _count_covered_seconds(self._waits)

    def begin(self, queued: float) -> None:
        """Record that the call that was queued then has its thread now."""
        self._waits.append((queued, time.monotonic()))
        self.queued = None

    def used_s(self) -> float:
        """Return the seconds that count so far, current silence included."""
        now, waits, queued = time.monotonic(), list(self._waits), self.queued
        if queued is not None:
            waits.append((queued, now))
        if self._generating is not None:
            # Silence is known only at the end: until then the time before the last sign of activity is free.
            heard = self._heard() if self._heard is not None else 0.0
            waits.append((self._generating, max(self._generating, min(heard, now))))
        return now - self.begun - _count_covered_seconds(waits)

    @contextlib.contextmanager
    def generation(self, who: object) -> Iterator[None]:
        """Mark the time of waiting for tokens.

        `who` may have a `heard()`: the moment, by `time.monotonic`, at which the source of the tokens was last active.
        """
        self._generating, self._heard = time.monotonic(), getattr(who, "heard", None)
        try:
            yield
        finally:
            self._waits.append((self._generating, time.monotonic()))
            self._generating = self._heard = None

    async def __aenter__(self) -> Self:
        self.begun = time.monotonic()
        await self._limit.__aenter__()
        self._arm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._look is not None:
            self._look.cancel()
        await self._limit.__aexit__(kind, error, at)

    def _arm(self) -> None:
        """Check again at the earliest moment at which the time could be over."""
        loop = asyncio.get_running_loop()
        left = self.seconds - self.used_s()
        if left <= 0:
            self.silent = self._generating is not None
            self._limit.reschedule(loop.time())
            return
        self._look = loop.call_later(max(left, 0.01), self._arm)


def _count_covered_seconds(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds that lie in any of the spans (start, end)."""
    total, until = 0.0, 0.0
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
