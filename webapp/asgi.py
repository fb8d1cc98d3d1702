from __future__ import annotations

import gc
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.urls import get_resolver
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


def bounded(app: App, most: int) -> App:
    """Refuse a request of more than `most` bytes: Django would write it to the disk before it asks who sent it."""

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        declared = dict(scope.get("headers", ())).get(b"content-length", b"")
        if declared.isdigit() and int(declared[:20]) > most:
            await refuse(send, str(scope.get("path", "")))
            return
        taken, refused = 0, False

        async def counted() -> Mapping[str, Any]:
            nonlocal taken, refused
            message = await receive()
            taken += len(message.get("body", b""))
            if taken <= most:
                return message
            if not refused:
                refused = True
                await refuse(send, str(scope.get("path", "")))
            return {"type": "http.disconnect"}

        async def answered(message: Mapping[str, Any]) -> None:
            if not refused:
                await send(message)

        await app(scope, counted, answered)

    return application


def behind(proxies: list[str], app: App) -> App:
    """Take client and scheme from the headers of these proxies (addresses, networks), and of nobody else.

    uvicorn's own belief, which is in whoever comes from this machine, is off where the site is started.
    """
    return cast(App, ProxyHeadersMiddleware(cast(Any, app), proxies)) if proxies else app


def settle() -> None:
    """Load what the first request would, and keep the collector off what then lives as long as the process: walking
    it amid a request took a tenth of a second."""
    get_resolver().url_patterns  # noqa: B018 - the access loads every view and the API
    gc.collect()
    gc.freeze()


async def refuse(send: Send, path: str) -> None:
    """413 in words; a problem below /api/v1/, where every error is one."""
    kind, body = "text/plain; charset=utf-8", f"{TOO_LARGE}\n"
    if path.startswith(problems.PREFIX):
        kind, body = problems.CONTENT_TYPE, problems.as_json(problems.Problem(413, TOO_LARGE), path)
    headers = [(b"content-type", kind.encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})


TOO_LARGE = "This request is larger than this installation takes."
LARGEST = (2 * settings.UPLOAD_LIMIT_MIB + 1) << 20
"""Two files of the largest size, as the import of environments takes them, and the form around them."""
django_application = get_asgi_application()
from webapp.rest import problems  # noqa: E402 - Django has to be set up first

application = behind(settings.TRUSTED_PROXIES, bounded(django_application, LARGEST))
settle()
