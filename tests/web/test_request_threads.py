"""Threads that answer requests: one after another has the same, several at a time have one each."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
from django.http import HttpRequest, HttpResponse

from webapp.asgi import SynchronousHandler


class TellingHandler(SynchronousHandler):
    """Answers with the number of the thread that it is asked in; `/slow` when `go_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def get_response(self, request: HttpRequest) -> HttpResponse:
        if request.path == "/slow":
            self.begun.set()
            self.go_on.wait(30)
        return HttpResponse(str(threading.get_ident()))


async def _asked(handler: TellingHandler, path: str) -> str:
    transport = httpx.ASGITransport(app=handler)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return (await client.get(path)).text


async def _given_up(handler: TellingHandler) -> None:
    """A request whose sender goes away while it is answered."""
    began = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not began.is_set():
            began.set()
            return {"type": "http.request", "body": b""}
        await asyncio.to_thread(handler.begun.wait, 30)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(f"nobody listens: {message}")

    scope = {"type": "http", "method": "GET", "path": "/slow", "query_string": b"", "headers": []}
    await handler(scope, receive, send)


def test_an_idle_thread_answers_the_next_request() -> None:
    async def ask() -> None:
        handler = TellingHandler()
        threads = [await _asked(handler, "/") for _ in range(3)]
        assert len(set(threads)) == 1
        slow = asyncio.create_task(_asked(handler, "/slow"))
        await asyncio.to_thread(handler.begun.wait, 30)
        other = await _asked(handler, "/")
        handler.go_on.set()
        assert {await slow, other} > set(threads)

    asyncio.run(ask())


def test_nobody_waits_for_a_request_that_its_sender_gave_up() -> None:
    async def ask() -> None:
        handler = TellingHandler()
        given_up = asyncio.create_task(_given_up(handler))
        await asyncio.to_thread(handler.begun.wait, 30)
        try:
            async with asyncio.timeout(20):
                assert await _asked(handler, "/")
        finally:
            handler.go_on.set()
        await given_up

    asyncio.run(ask())
