"""HTTP to an endpoint, kept narrow: few headers, no redirects, bounded replies, addresses that were looked at."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from functools import cache

import httpcore
import httpx

from synthesis.errors import LLMError
from synthesis.llm.reach import Reach, refused, resolve
from synthesis.llm.stream import COVER, is_stream

_KEPT = {"host", "content-type", "content-length", "connection", "user-agent", "transfer-encoding"}


FIRST_ADDRESSES_S = 5.0
"""So long each address of a name but the last is tried: a machine's way to IPv6 may end in nothing."""
A_LANE = 8
"""So many requests at once share a connection pool: a pool looks at all its connections with each request."""


class _Lane(httpx.AsyncHTTPTransport):
    """A connection pool; with a `reach`, of connections to addresses that were looked at.

    httpx has no setting for what connects, so its pool is replaced. `tests/endpoints/test_reach.py` fails if it is
    another one that connects.
    """

    def __init__(self, context: ssl.SSLContext, reach: Reach | None) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=A_LANE)
        super().__init__(verify=context, limits=limits)
        if reach is not None:
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=context,
                max_connections=limits.max_connections,
                max_keepalive_connections=limits.max_keepalive_connections,
                keepalive_expiry=limits.keepalive_expiry,
                network_backend=CheckedConnections(reach),
            )


class CheckedConnections(httpcore.AsyncNetworkBackend):
    """Connects to the very addresses that were looked at. Host and TLS go by the name, as ever.

    Another look by whatever connects could be answered otherwise (DNS rebinding).
    """

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            addresses = await asyncio.to_thread(resolve, host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from error
        away = refused(addresses, self.reach)
        if away is not None:
            raise LLMError("refused", f"The name {host} leads to {away} now, where requests must not go.")
        for address in addresses[:-1]:
            wait = FIRST_ADDRESSES_S if timeout is None else min(timeout, FIRST_ADDRESSES_S)
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._inner.connect_tcp(str(address), port, wait, local_address, socket_options)
        return await self._inner.connect_tcp(str(addresses[-1]), port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


@cache
def trusted_certificates() -> ssl.SSLContext:
    """The machine's certificates, read once a process: that takes 40 ms of processor, and a batch connects often."""
    return httpx.create_ssl_context(trust_env=True)


class Lanes(httpx.AsyncBaseTransport):
    """Connection pools taken in turn. How many requests run at once is for the caller to bound."""

    def __init__(self, at_once: int, reach: Reach | None = None) -> None:
        self.lanes = [_Lane(trusted_certificates(), reach) for _ in range(1 + (at_once - 1) // A_LANE)]
        self._next = itertools.cycle(self.lanes)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await next(self._next).handle_async_request(request)

    async def aclose(self) -> None:
        for lane in self.lanes:
            await lane.aclose()


class BoundedTransport(httpx.AsyncBaseTransport):
    """Sends the endpoint's own key and nothing that the process's environment brings; stops reading a reply that
    grows past `reply_bytes` (LLMError `too_large`)."""

    def __init__(self, inner: httpx.AsyncBaseTransport, key: str, reply_bytes: int) -> None:
        self.inner = inner
        self.key = key
        self.reply_bytes = reply_bytes

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # The `openai` client takes further headers from OPENAI_* variables, which belong to another origin.
        headers = [(name, value) for name, value in request.headers.items() if name in _KEPT]
        headers += [("Accept", "application/json, text/event-stream"), ("Accept-Encoding", "identity")]
        if self.key:
            headers.append(("Authorization", f"Bearer {self.key}"))
        sent = httpx.Request(
            request.method, request.url, headers=headers, stream=request.stream, extensions=request.extensions
        )
        response = await self.inner.handle_async_request(sent)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise LLMError("malformed", "The endpoint sent a compressed reply, which was not asked for.")
        assert isinstance(response.stream, httpx.AsyncByteStream)
        limit = self.reply_bytes * (COVER if is_stream(response) else 1)
        response.stream = _Bounded(response.stream, limit)
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, limit: int) -> None:
        self.inner = inner
        self.limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for chunk in self.inner:
            seen += len(chunk)
            if seen > self.limit:
                raise LLMError("too_large", f"The endpoint's reply is larger than {self.limit} bytes.")
            yield chunk

    async def aclose(self) -> None:
        await self.inner.aclose()
