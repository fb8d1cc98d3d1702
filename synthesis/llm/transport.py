"""HTTP to an endpoint, kept narrow: few headers, no redirects, bounded replies, checked addresses.

`aiohttp` carries the requests: httpx's own pools cost more processor time than everything else in an agent's turn.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult

from synthesis.errors import LLMError
from synthesis.llm.reach import Address, Reach, find_refused_address, resolve_addresses
from synthesis.llm.stream import COVER, is_stream

_KEPT = {"host", "content-type", "user-agent"}
KEEPALIVE_S = 15.0
"""An unused connection is closed after this time."""


@cache
def load_certificates() -> ssl.SSLContext:
    """Read the machine's certificates once a process: that takes 40 ms, and a batch connects often."""
    return httpx.create_ssl_context(trust_env=True)


class CheckedResolver(AbstractResolver):
    """A resolver of names to addresses within a reach; aiohttp connects to exactly these.

    A second lookup by the connecting code could be answered differently (DNS rebinding).
    """

    def __init__(self, reach: Reach) -> None:
        self.reach = reach

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raise OSError for an unknown name, LLMError for an address that is out of reach."""
        try:
            addresses = await asyncio.to_thread(resolve_addresses, host, port)
        except UnicodeError as error:
            raise OSError(str(error)) from error
        require_reach(host, addresses, self.reach)
        return [_build_result(host, address, port) for address in addresses]

    async def close(self) -> None:
        """Do nothing: the resolver holds no resources."""


def require_reach(host: str, addresses: list[Address], reach: Reach) -> None:
    """Raise LLMError if a name leads to an address that is out of reach."""
    away = find_refused_address(addresses, reach)
    if away is not None:
        raise LLMError("refused", f"The name {host} leads to {away} now, where requests must not go.")


def _build_result(host: str, address: Address, port: int) -> ResolveResult:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    return ResolveResult(
        hostname=host, host=str(address), port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST
    )


class AiohttpTransport(httpx.AsyncBaseTransport):
    """A connection pool of one event loop; with a `reach`, of connections to checked addresses only.

    The caller bounds the number of requests at once. `tests/endpoints/test_reach.py` fails if anything else connects.
    """

    def __init__(self, reach: Reach | None = None) -> None:
        self.reach = reach
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the response's body is read as a stream. Raise httpx.TransportError, LLMError."""
        self._check_literal(request.url.host)
        with _map_to_httpx_errors():
            response = await self._open_session().request(
                request.method,
                str(request.url),
                headers=[(name, value) for name, value in request.headers.multi_items() if name not in _FRAMING],
                data=await request.aread() or None,
                allow_redirects=False,
                timeout=_read_timeout(request),
            )
        return httpx.Response(
            response.status, headers=response.raw_headers, stream=_Body(response), request=request, extensions={}
        )

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _check_literal(self, host: str) -> None:
        """Check an address in place of a name, which is never resolved."""
        if self.reach is None:
            return
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return
        require_reach(host, [getattr(address, "ipv4_mapped", None) or address], self.reach)

    def _open_session(self) -> aiohttp.ClientSession:
        """Open the session with the first request, since it belongs to the running event loop."""
        if self._session is None:
            resolver = CheckedResolver(self.reach) if self.reach is not None else None
            connector = aiohttp.TCPConnector(
                ssl=load_certificates(),
                limit=0,
                resolver=resolver,
                use_dns_cache=False,
                keepalive_timeout=KEEPALIVE_S,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
                read_bufsize=1 << 18,
            )
        return self._session


_FRAMING = {"host", "content-length", "transfer-encoding", "connection"}
"""Headers that aiohttp writes itself."""


def _read_timeout(request: httpx.Request) -> aiohttp.ClientTimeout:
    limits: dict[str, Any] = request.extensions.get("timeout", {})
    return aiohttp.ClientTimeout(total=None, sock_connect=limits.get("connect"), sock_read=limits.get("read"))


@contextmanager
def _map_to_httpx_errors() -> Iterator[None]:
    """Raise aiohttp's errors as httpx's."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx.ConnectTimeout(str(error)) from error
    except aiohttp.ServerTimeoutError as error:
        raise httpx.ReadTimeout(str(error)) from error
    except aiohttp.ClientConnectorError as error:
        raise httpx.ConnectError(str(error)) from error
    except aiohttp.InvalidURL as error:
        raise httpx.UnsupportedProtocol(str(error)) from error
    except aiohttp.ClientPayloadError as error:
        raise httpx.RemoteProtocolError(str(error)) from error
    except aiohttp.ClientError as error:
        raise httpx.ReadError(str(error)) from error


class _Body(httpx.AsyncByteStream):
    """A response's body; closing it before its end closes the connection."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _map_to_httpx_errors():
            async for chunk in self.response.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        self.response.close()


class BoundedTransport(httpx.AsyncBaseTransport):
    """A transport that sends the endpoint's own key and nothing from the process's environment.

    It stops reading a reply that grows past `reply_bytes` (LLMError `too_large`).
    """

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
