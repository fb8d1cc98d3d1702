"""Where the act in hand comes from: a page, a token or a command. The audit log writes it down."""

from __future__ import annotations

import ipaddress
from contextvars import ContextVar
from dataclasses import dataclass

from django.http import HttpRequest


@dataclass(frozen=True)
class RequestOrigin:
    via: str = "command"
    address: str = ""


CURRENT: ContextVar[RequestOrigin] = ContextVar("origin", default=RequestOrigin())  # noqa: B039  frozen, so safe to share


def client_address(request: HttpRequest) -> str:
    """The network address that a request comes from, as the audit log and the brake on sign-ins know it.

    Headers are read before (`webapp/asgi.py`), and those of named proxies alone; an IPv4 address has one spelling.
    """
    known = str(request.META.get("REMOTE_ADDR", ""))
    try:
        address = ipaddress.ip_address(known)
    except ValueError:
        return known[:45]
    return str(getattr(address, "ipv4_mapped", None) or address)


def via_token(label: str) -> None:
    """From here on this request acts through the token with this public part."""
    CURRENT.set(RequestOrigin(label, CURRENT.get().address))
