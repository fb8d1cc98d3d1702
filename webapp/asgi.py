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

from synthesis.collector import not_collected

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
with not_collected():
    django.setup(set_prefix=False)

from webapp.middleware import POLICY  # asks Django for its settings as it is loaded
from webapp.rest import bodies, problems

IDLE_THREADS = 16
SHARED_TEMPLATES = ("*.html", "parts/*.html", "lists/*.html")
"""What most pages are made of."""
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Ask = Callable[[Message, int], Awaitable[tuple[int, "problems.Problem | None"]]]


class RequestThread(ThreadPoolExecutor):
    """A thread that answers one request after another; `is_idle` once what it was given is done."""

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
    """Django's ASGI handler with middleware and view in one thread; what streams is still awaited.

    Every view and half of the middleware is synchronous. Django hands a request to a thread and back at each change
    between the two kinds, and twice at each middleware of its own: that took more processor time than the pages. It
    also starts a thread for each request, which costs as much as three queries: here those that are idle are taken.
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


def bounded(app: App, ask: Ask) -> App:
    """Refuse bodies that are too large for their sender: Django would write them to the disk before it asks who sent
    them. `ask` is called once a body is larger than strangers may send, with the bytes known of by then."""

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        path, allowed, taken, refused = str(scope.get("path", "")), bodies.STRANGERS, 0, False

        async def take(size: int) -> bool:
            """Whether a body of so many bytes is taken; answers where it is not."""
            nonlocal allowed, refused
            if size <= allowed or refused:
                return not refused
            allowed, problem = await ask(scope, size)
            if problem is not None:
                refused = True
                await refuse(send, path, problem)
            return not refused

        declared = dict(scope.get("headers", ())).get(b"content-length", b"")
        if declared.isdigit() and not await take(int(declared[:20])):
            return

        async def counted() -> Mapping[str, Any]:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            return message if await take(taken) else {"type": "http.disconnect"}

        async def answered(message: Mapping[str, Any]) -> None:
            if not refused:
                await send(message)

        await app(scope, counted, answered)

    return application


def apart(app: App) -> App:
    """Answer each request in the context that the process began with.

    uvicorn goes on reading from a connection in the context of the request that made it pause, and answers those that
    follow there: what such a one belonged to has ended, its thread above all.
    """
    began = contextvars.copy_context()

    async def answered(scope: Message, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        await asyncio.get_running_loop().create_task(answered(scope, receive, send), context=began.copy())

    return application


def behind(proxies: list[str], app: App) -> App:
    """Take client and scheme from the headers of these proxies (addresses, networks), and of nobody else.

    uvicorn's own belief, which is in whoever comes from this machine, is off where the site is started.
    """
    return cast(App, ProxyHeadersMiddleware(cast(Any, app), proxies)) if proxies else app


def allowance(scope: Message, size: int) -> tuple[int, problems.Problem | None]:
    """How many bytes this request may have, and why it is refused. Asks the database."""
    close_old_connections()
    try:
        most = bodies.most_of(str(scope["path"]), str(scope["method"]), dict(scope["headers"]))
        return most, bodies.refusal(size, most)
    finally:
        close_old_connections()


def settle() -> None:
    """Load what the first request would, and keep the collector off what then lives as long as the process: walking
    it amid a request took a tenth of a second, and would unshare it where processes are forked from this one."""
    with not_collected():
        get_resolver().url_patterns  # noqa: B018 - the access loads every view and the API
        folder = settings.BASE_DIR / "templates"
        for template in (found for pattern in SHARED_TEMPLATES for found in folder.glob(pattern)):
            get_template(str(template.relative_to(folder)))


async def refuse(send: Send, path: str, problem: problems.Problem) -> None:
    """The refusal in words; a problem below /api/v1/, where every error is one."""
    kind, body = "text/html; charset=utf-8", str(render_to_string("413.html", {"why": problem.detail}))
    if path.startswith(problems.PREFIX):
        kind, body = problems.CONTENT_TYPE, problems.as_json(problem, path)
    headers = [(b"content-type", kind.encode()), (b"connection", b"close")]
    headers += [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    headers += [(b"content-security-policy", POLICY.encode())]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})


application = apart(behind(settings.TRUSTED_PROXIES, bounded(SynchronousHandler(), sync_to_async(allowance))))
settle()
