"""One listening socket of several processes, of which the one with the fewest open connections takes the next one.

The kernel wakes all of them and whoever looks first takes what waits, often all of it; a browser keeps its connection,
so a process that was quick once would answer everything while another one idles.
"""

from __future__ import annotations

import mmap
import socket
import time
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

PATIENCE_SECONDS = 0.05
"""A connection that waits so long for a process with fewer is taken by any: that one may be stopped or hang."""
LOOK_SECONDS = 0.001


class OpenConnections:
    """How many connections each of some processes has open, in memory that they share. Made before the fork."""

    def __init__(self, processes: int) -> None:
        self._memory = mmap.mmap(-1, 4 * processes)
        self.counts = memoryview(self._memory).cast("i")


class SharedListener(socket.socket):
    """The listening socket as one process has it, the one at `place`; for asyncio's loop, which calls `accept` once
    something waits, and again while nobody took it."""

    def __init__(self, listener: socket.socket, connections: OpenConnections, place: int) -> None:
        super().__init__(fileno=listener.detach())
        self.counts, self.place = connections.counts, place
        self.counts[place] = 0
        self._since = self._last = 0.0

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises BlockingIOError: nothing waits, or it is another process's turn."""
        if self.counts[self.place] > min(self.counts) and not self._waited():
            time.sleep(LOOK_SECONDS)  # the loop would ask again at once
            raise BlockingIOError
        taken = super().accept()
        self._since = 0.0
        # The protocol says how many there are once it has it; until then the others must know.
        self.counts[self.place] += 1
        return taken

    def _waited(self) -> bool:
        """Whether something has waited for PATIENCE_SECONDS without a pause: a gap means that another one took it."""
        now = time.monotonic()
        if now - self._last > 10 * LOOK_SECONDS:
            self._since = now
        self._last = now
        return now - self._since > PATIENCE_SECONDS

    def protocol(self) -> type[Any]:
        """uvicorn's HTTP protocol, which keeps this process's count."""
        listener = self

        class CountedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                listener.counts[listener.place] = len(self.connections)

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                listener.counts[listener.place] = len(self.connections)

        return CountedProtocol
