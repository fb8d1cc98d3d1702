"""HTTP to an endpoint, kept narrow: few headers, no redirects, replies of bounded size."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import httpx

from synthesis.errors import LLMError

_KEPT = {"host", "content-type", "content-length", "connection", "user-agent", "transfer-encoding"}


A_LANE = 8
"""So many requests at once share a connection pool: a pool looks at all its connections with each request."""


class Lanes(httpx.AsyncBaseTransport):
    """Connection pools taken in turn. How many requests run at once is for the caller to bound."""

    def __init__(self, at_once: int) -> None:
        context = httpx.create_ssl_context(trust_env=True)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=A_LANE)
        self.lanes = [
            httpx.AsyncHTTPTransport(verify=context, limits=limits) for _ in range(1 + (at_once - 1) // A_LANE)
        ]
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
        headers += [("Accept", "application/json"), ("Accept-Encoding", "identity")]
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
        response.stream = _Bounded(response.stream, self.reply_bytes)
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
