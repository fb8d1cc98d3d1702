"""Turns of requests at an endpoint: a limited number at once, those with the most calls ahead of them first."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
from collections.abc import AsyncIterator, Iterator

UNKNOWN = 1_000_000
"""Calls ahead of a request if the caller cannot estimate them. Such requests go first, in the order of arrival."""
_calls_ahead: contextvars.ContextVar[int] = contextvars.ContextVar("calls_ahead", default=UNKNOWN)


@contextlib.contextmanager
def expecting_calls(ahead: int) -> Iterator[None]:
    """Say how many calls are expected to follow the requests made inside, each waiting for the one before it."""
    token = _calls_ahead.set(ahead)
    try:
        yield
    finally:
        _calls_ahead.reset(token)


class TurnGate:
    """A semaphore whose waiters are ordered.

    A batch ends with its longest chain of calls. In order of arrival each call of that chain waits behind calls of
    chains that are shorter and would be done in time anyway; list scheduling therefore serves the longest remaining
    chain first (Graham 1969, Hu 1961).
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._arrivals = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and hold it for the body."""
        await self._take()
        try:
            yield
        finally:
            self._give_back()

    async def _take(self) -> None:
        if self._free > 0:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-_calls_ahead.get(), next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was this one's turn already: the next one's now
                self._give_back()
            raise

    def _give_back(self) -> None:
        """Hand the turn to the first of those that wait and were not cancelled."""
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
