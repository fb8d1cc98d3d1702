"""Where the act in hand comes from: a page, a token or a command. The audit log writes it down."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class RequestOrigin:
    via: str = "command"
    address: str = ""


CURRENT: ContextVar[RequestOrigin] = ContextVar("origin", default=RequestOrigin())  # noqa: B039  frozen, so safe to share


def via_token(label: str) -> None:
    """From here on this request acts through the token with this public part."""
    CURRENT.set(RequestOrigin(label, CURRENT.get().address))
