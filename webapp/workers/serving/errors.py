"""Refusals of served models, distinguished by code."""

from __future__ import annotations

from typing import ClassVar

from webapp.common.errors import NotFound, UpstreamError

RETRY_AFTER_S = 10.0


class ModelAway(UpstreamError):
    """Refusal because the model is starting, or its worker was lost during the request: worth another try."""

    def __init__(self, message: str) -> None:
        super().__init__("away", message, retry_after=RETRY_AFTER_S)


class NotServed(NotFound):
    """Model that no deployment serves."""

    code = "model_not_served"
    meaning: ClassVar[str] = "No worker serves this model: start it on the page of its training job."


KINDS: tuple[type[NotServed], ...] = (NotServed,)
"""Those with a code of their own."""
