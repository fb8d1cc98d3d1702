"""One listening socket of several processes: the process with the fewest open connections accepts the next one.

The kernel wakes all of them and the first one accepts all waiting connections, often all of them; a browser keeps its
connection, so a process that was quick once would answer everything while another one idles.
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
    """Number of open connections of each process, in memory that they share. Made before the fork."""

    def __init__(self, processes: int) -> None:
        self._memory = mmap.mmap(-1, 4 * processes)
        self.counts = memoryview(self._memory).cast("i")


class SharedListener(socket.socket):
    """The listening socket of one process, the one at `place`; for asyncio's loop, which calls `accept` when a
    connection waits, and again until one process took it."""

    def __init__(self, listener: socket.socket, connections: OpenConnections, place: int) -> None:
        super().__init__(fileno=listener.detach())
        self.counts, self.place = connections.counts, place
        self.counts[place] = 0
        self._since = self._last = 0.0

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Raises BlockingIOError if none waits, or it is another process's turn."""
        if self.counts[self.place] > min(self.counts) and not self._has_waited():
            time.sleep(LOOK_SECONDS)  # the loop would ask again at once
            raise BlockingIOError
        taken = super().accept()
        self._since = 0.0
        # The protocol sets the exact count once it has the connection; until then the others must know.
        self.counts[self.place] += 1
        return taken

    def _has_waited(self) -> bool:
        """Return whether a connection has waited for PATIENCE_SECONDS without a pause: a gap means that another process
        took it."""
        now = time.monotonic()
        if now - self._last > 10 * LOOK_SECONDS:
            self._since = now
        self._last = now
        return now - self._since > PATIENCE_SECONDS

    def protocol(self) -> type[Any]:
        """Return uvicorn's HTTP protocol, extended to keep this process's count."""
        listener = self

        class CountedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                listener.counts[listener.place] = len(self.connections)

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                listener.counts[listener.place] = len(self.connections)

        return CountedProtocol
