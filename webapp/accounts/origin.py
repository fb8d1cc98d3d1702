"""Origin of the current act: a page, a token or a command. The audit log records it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse


@dataclass(frozen=True)
class RequestOrigin:
    via: str = "command"
    address: str = ""


CURRENT: ContextVar[RequestOrigin] = ContextVar("origin", default=RequestOrigin())  # noqa: B039  frozen, so safe to share


def get_client_address(request: HttpRequest) -> str:
    """Return the network address that a request comes from, as the audit log and the brake on sign-ins use it.

    Headers are read before (`webapp/asgi.py`), and those of named proxies alone; an IPv4 address has one spelling.
    """
    remote_address = str(request.META.get("REMOTE_ADDR", ""))
    try:
        address = ipaddress.ip_address(remote_address)
    except ValueError:
        return remote_address[:45]
    return str(getattr(address, "ipv4_mapped", None) or address)


def set_token_origin(label: str) -> None:
    """Record that from here on this request acts through the token with this public part."""
    CURRENT.set(RequestOrigin(label, CURRENT.get().address))


def record_request_origin(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Set the origin that the audit log records of a request: a page and the address; a token sets its own."""

    def middleware(request: HttpRequest) -> HttpResponse:
        before = CURRENT.set(RequestOrigin("page", get_client_address(request)))
        try:
            return get_response(request)
        finally:
            CURRENT.reset(before)

    return middleware
