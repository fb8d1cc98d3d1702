"""HTTP/1.1 to one server at a small price: connections are kept, and each carries one request at a time.

A general client (httpx, openai's) costs a training loop more than all else that it does in a turn.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any
from urllib.parse import urlsplit

from synthesis.errors import InputError
from training.engines.http_reply import NoReply, Reply

CONNECT_S = 15.0


class ConnectionEnded(ConnectionError):
    """The server cannot be reached, or left a request without a whole reply."""


class _Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.reply = Reply()
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.open = transport, True

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        self.reply.ended()
        if self.reply.whole:
            self._done()
        else:
            self._fail("the connection was closed before the reply was whole")

    def data_received(self, data: bytes) -> None:
        if self.answer is None:
            # Nobody asked.
            self.close()
            return
        try:
            self.reply.take(data)
        except NoReply as error:
            self.close()
            self._fail(f"the reply cannot be read: {error}")
            return
        if self.reply.whole:
            self._done()

    def send(self, head: bytes, body: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Begin a request; the future gives (status, body), or raises ConnectionEnded."""
        assert self.transport is not None
        self.answer = asyncio.get_running_loop().create_future()
        self.reply = Reply()
        self.transport.writelines([head, body])
        return self.answer

    def close(self) -> None:
        self.open = False
        if self.transport is not None:
            self.transport.abort()

    def _done(self) -> None:
        if not self.reply.kept:
            self.close()
        answer, self.answer = self.answer, None
        if answer is not None and not answer.done():
            answer.set_result((self.reply.status, self.reply.body))

    def _fail(self, reason: str) -> None:
        answer, self.answer = self.answer, None
        if answer is not None and not answer.done():
            answer.set_exception(ConnectionEnded(reason))


class HttpServer:
    """A server by its address; requests below it. It belongs to the event loop that it is first used in."""

    def __init__(self, url: str, key: str = "") -> None:
        parts = urlsplit(url)
        self.host, self.secure = parts.hostname or "", parts.scheme == "https"
        self.port = parts.port or (443 if self.secure else 80)
        self.base = parts.path.rstrip("/")
        said = {"host": parts.netloc.rpartition("@")[2], "accept": "application/json"}
        said |= {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        lines = [f"{name}: {value}" for name, value in said.items()]
        if any(ord(letter) < 32 or ord(letter) > 126 for line in lines for letter in line):
            raise InputError("engine: the server's address or key has letters that no request can carry")
        self.head = "\r\n".join(lines).encode()
        self._idle: list[_Wire] = []
        self._context = ssl.create_default_context() if self.secure else None

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """(status, body) of the reply to JSON. It waits as long as the connection stands: who asks bounds it.

        Raises ConnectionEnded. A connection that the server had closed meanwhile is replaced without a word.
        """
        return await self._request("POST", self.base + path, body)

    async def get(self, path: str) -> tuple[int, bytes]:
        """(status, body) of what lies at a path from the server's root. Raises ConnectionEnded."""
        return await self._request("GET", path, b"")

    async def _request(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        while True:
            wire, kept = await self._wire()
            head = b"%s %s HTTP/1.1\r\n%s\r\ncontent-length: %d\r\n\r\n"
            try:
                told = await wire.send(head % (method.encode(), path.encode(), self.head, len(body)), body)
            except ConnectionEnded:
                if kept and not wire.reply.begun:
                    continue
                raise
            except BaseException:
                # Nobody waits any more: the server learns of it by the connection's end, and stops writing.
                wire.close()
                raise
            if wire.open:
                self._idle.append(wire)
            return told

    async def _wire(self) -> tuple[_Wire, bool]:
        while self._idle:
            wire = self._idle.pop()
            if wire.open:
                return wire, True
        options: dict[str, Any] = {"ssl": self._context} if self._context is not None else {}
        try:
            async with asyncio.timeout(CONNECT_S):
                _, made = await asyncio.get_running_loop().create_connection(_Wire, self.host, self.port, **options)
        except (OSError, TimeoutError) as error:
            raise ConnectionEnded(f"{self.host}:{self.port} cannot be reached: {error}") from error
        return made, False

    def close(self) -> None:
        """End the connections that are kept."""
        for wire in self._idle:
            wire.close()
        self._idle.clear()
