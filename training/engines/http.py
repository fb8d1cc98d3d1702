"""HTTP/1.1 client for one server with little overhead: connections are kept, each carries one request at a time, h11
parses.

A general client (httpx, openai's) costs a training loop more than everything else in a turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any
from urllib.parse import urlsplit

import h11

CONNECT_S = 15.0
REPLY_BYTES = 64 * 1024 * 1024
READ_BYTES = 256 * 1024


class ConnectionEnded(ConnectionError):
    """The server cannot be reached, or did not complete a reply."""


class _Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=READ_BYTES)
        self.transport: asyncio.Transport | None = None
        self.answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.parts: list[bytes] = []
        self.size = self.status = 0
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.open = transport, True

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        with contextlib.suppress(h11.RemoteProtocolError):
            # A reply without a length ends with its connection.
            self._take(b"")
        self._fail("the connection was closed before the reply was whole")

    def data_received(self, data: bytes) -> None:
        try:
            self._take(data)
        except h11.RemoteProtocolError as error:
            self.close()
            self._fail(f"the reply is no HTTP: {error}")

    def send(
        self, head: list[tuple[str, str]], method: str, path: str, body: bytes
    ) -> asyncio.Future[tuple[int, bytes]]:
        """Begin a request; the future gives (status, body), or raises ConnectionEnded."""
        assert self.transport is not None
        self.answer = asyncio.get_running_loop().create_future()
        self.parts, self.size = [], 0
        request = h11.Request(method=method, target=path, headers=[*head, ("content-length", str(len(body)))])
        first = self.http.send(request) or b""
        self.http.send(h11.Data(data=body))
        self.http.send(h11.EndOfMessage())
        self.transport.writelines([first, body])
        return self.answer

    def close(self) -> None:
        self.open = False
        if self.transport is not None:
            self.transport.abort()

    def _take(self, data: bytes) -> None:
        self.http.receive_data(data)
        while True:
            event = self.http.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                return
            if isinstance(event, h11.Response):
                self.status = event.status_code
            elif isinstance(event, h11.Data):
                self.parts.append(bytes(event.data))
                self.size += len(event.data)
                if self.size > REPLY_BYTES:
                    self.close()
                    self._fail(f"the reply has more than {REPLY_BYTES >> 20} MiB")
                    return
            elif isinstance(event, h11.EndOfMessage):
                self._finish_reply()
                return

    def _finish_reply(self) -> None:
        if self.http.our_state is h11.DONE and self.http.their_state is h11.DONE:
            self.http.start_next_cycle()
        else:
            self.close()
        answer, self.answer = self.answer, None
        if answer is not None and not answer.done():
            answer.set_result((self.status, b"".join(self.parts)))

    def _fail(self, reason: str) -> None:
        answer, self.answer = self.answer, None
        if answer is not None and not answer.done():
            answer.set_exception(ConnectionEnded(reason))


class HttpServer:
    """A server at an address; requests are relative to it. It belongs to the event loop in which it is first used."""

    def __init__(self, url: str, key: str = "") -> None:
        parts = urlsplit(url)
        self.host, self.secure = parts.hostname or "", parts.scheme == "https"
        self.port = parts.port or (443 if self.secure else 80)
        self.base = parts.path.rstrip("/")
        self.head = [("host", parts.netloc.rpartition("@")[2]), ("accept", "application/json")]
        self.head += [("content-type", "application/json")]
        self.head += [("authorization", f"Bearer {key}")] if key else []
        self._idle: list[_Wire] = []
        self._context = ssl.create_default_context() if self.secure else None

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Return (status, body) of the reply to JSON. It waits as long as the connection is open: the caller sets the
        limit.

        Raises ConnectionEnded. A connection that the server had closed meanwhile is replaced silently.
        """
        return await self._request("POST", self.base + path, body)

    async def get(self, path: str) -> tuple[int, bytes]:
        """Return (status, body) of a path from the server's root. Raises ConnectionEnded."""
        return await self._request("GET", path, b"")

    async def _request(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        while True:
            wire, is_reused = await self._take_wire()
            try:
                reply = await wire.send(self.head, method, path, body)
            except ConnectionEnded:
                if is_reused and not wire.size:
                    continue
                raise
            except BaseException:
                # The caller no longer waits: closing the connection makes the server stop writing.
                wire.close()
                raise
            if wire.open:
                self._idle.append(wire)
            return reply

    async def _take_wire(self) -> tuple[_Wire, bool]:
        while self._idle:
            wire = self._idle.pop()
            if wire.open:
                return wire, True
        options: dict[str, Any] = {"ssl": self._context} if self._context is not None else {}
        try:
            async with asyncio.timeout(CONNECT_S):
                _, new_wire = await asyncio.get_running_loop().create_connection(_Wire, self.host, self.port, **options)
        except (OSError, TimeoutError) as error:
            raise ConnectionEnded(f"{self.host}:{self.port} cannot be reached: {error}") from error
        return new_wire, False

    def close(self) -> None:
        """Close the idle connections."""
        for wire in self._idle:
            wire.close()
        self._idle.clear()
