"""Where the act in hand comes from: a page, a token or a command. The audit log writes it down."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    via: str = "command"
    address: str = ""


CURRENT: ContextVar[Origin] = ContextVar("origin", default=Origin())  # noqa: B039  frozen, so safe to share


def via_token(label: str) -> None:
    """From here on this request acts through the token with this public part."""
    CURRENT.set(Origin(label, CURRENT.get().address))
