"""The site as an ASGI application: a body is bounded before Django reads it, a request answered in one thread."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import django
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.db import close_old_connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import get_template, render_to_string
from django.urls import get_resolver
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from synthesis.collector import exclude_from_collection

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
with exclude_from_collection():
    django.setup(set_prefix=False)

from webapp.common.middleware import POLICY  # asks Django for its settings as it is loaded
from webapp.common.rest import bodies, problems

IDLE_THREADS = 16
SHARED_TEMPLATES = ("*.html", "parts/*.html", "lists/*.html")
"""What most pages are made of."""
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Ask = Callable[[Message, int], Awaitable[tuple[int, "problems.Problem | None"]]]


class RequestThread(ThreadPoolExecutor):
    """A thread that answers one request after another; `is_idle` once its work is done."""

    def __init__(self) -> None:
        super().__init__(max_workers=1, thread_name_prefix="request")
        self._newest: Future[Any] | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._newest = super().submit(fn, *args, **kwargs)
        return self._newest

    @property
    def is_idle(self) -> bool:
        return self._newest is None or self._newest.done()


class SynchronousHandler(ASGIHandler):
    """Django's ASGI handler with middleware and view in one thread; streams are still awaited.

    Every view and half of the middleware is synchronous. Django hands a request to a thread and back at each change
    between the two kinds, and twice at each middleware of its own: that took more processor time than the pages. It
    also starts a thread for each request, which costs as much as three queries: here idle threads are reused.
    """

    def __init__(self) -> None:
        super().__init__()
        self._idle: list[RequestThread] = []

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await super().__call__(scope, receive, send)
        thread = self._idle.pop() if self._idle else RequestThread()
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self.handle(scope, receive, send)
        finally:
            # A request that its sender gave up may still be under way there.
            if thread.is_idle and len(self._idle) < IDLE_THREADS:
                self._idle.append(thread)
            else:
                thread.shutdown(wait=False)

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response, thread_sensitive=True)(request)


def bound_bodies(app: App, ask: Ask) -> App:
    """Refuse bodies that are too large for their sender: Django would write them to the disk before it checks the
    sender. `ask` is called once a body is larger than strangers may send, with the bytes known by then."""

    async def bounded_application(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        path, allowed, taken, refused = str(scope.get("path", "")), bodies.STRANGERS, 0, False

        async def take_body(size: int) -> bool:
            """Return whether a body of so many bytes is taken; send the refusal if it is not."""
            nonlocal allowed, refused
            if size <= allowed or refused:
                return not refused
            allowed, problem = await ask(scope, size)
            if problem is not None:
                refused = True
                await send_refusal(send, path, problem)
            return not refused

        declared = dict(scope.get("headers", ())).get(b"content-length", b"")
        if declared.isdigit() and not await take_body(int(declared[:20])):
            return

        async def receive_counted() -> Mapping[str, Any]:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            return message if await take_body(taken) else {"type": "http.disconnect"}

        async def send_unless_refused(message: Mapping[str, Any]) -> None:
            if not refused:
                await send(message)

        await app(scope, receive_counted, send_unless_refused)

    return bounded_application


def isolate_contexts(app: App) -> App:
    """Answer each request in the context that the process began with.

    uvicorn goes on reading from a connection in the context of the request that made it pause, and answers those that
    follow there: the objects of that context have ended, its thread above all.
    """
    began = contextvars.copy_context()

    async def answer_request(scope: Message, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    async def isolated_application(scope: Message, receive: Receive, send: Send) -> None:
        await asyncio.get_running_loop().create_task(answer_request(scope, receive, send), context=began.copy())

    return isolated_application


def trust_proxies(proxies: list[str], app: App) -> App:
    """Take client and scheme from the headers of these proxies (addresses, networks) only.

    uvicorn's own trust in all clients on this machine is turned off by the command that starts the site.
    """
    return cast(App, ProxyHeadersMiddleware(cast(Any, app), proxies)) if proxies else app


def compute_allowance(scope: Message, size: int) -> tuple[int, problems.Problem | None]:
    """Return how many bytes this request may have, and why it is refused. Queries the database."""
    close_old_connections()
    try:
        most = bodies.get_body_limit(str(scope["path"]), str(scope["method"]), dict(scope["headers"]))
        return most, bodies.find_size_problem(size, most)
    finally:
        close_old_connections()


def preload_site() -> None:
    """Load what the first request would, and exempt from the collector what then lives as long as the process:
    walking it during a request took a tenth of a second, and would unshare it if processes are forked from this one."""
    with exclude_from_collection():
        get_resolver().url_patterns  # noqa: B018 - the access loads every view and the API
        folder = settings.BASE_DIR / "templates"
        for template in (found for pattern in SHARED_TEMPLATES for found in folder.glob(pattern)):
            get_template(str(template.relative_to(folder)))


async def send_refusal(send: Send, path: str, problem: problems.Problem) -> None:
    """Send the refusal: in words, or as a problem below /api/v1/, where every error is one."""
    kind, body = "text/html; charset=utf-8", str(render_to_string("413.html", {"why": problem.detail}))
    if path.startswith(problems.PREFIX):
        kind, body = problems.CONTENT_TYPE, problems.serialize_problem(problem, path)
    headers = [(b"content-type", kind.encode()), (b"connection", b"close")]
    headers += [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    headers += [(b"content-security-policy", POLICY.encode())]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})


application = isolate_contexts(
    trust_proxies(settings.TRUSTED_PROXIES, bound_bodies(SynchronousHandler(), sync_to_async(compute_allowance)))
)
preload_site()
