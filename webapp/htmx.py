"""The typed htmx request, and the one place that chooses between page and fragment."""

from __future__ import annotations

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails


class Request(HttpRequest):
    htmx: HtmxDetails


def wants_fragment(request: HttpRequest, target: str) -> bool:
    """Whether htmx asked for the element `target` alone (history restoration wants the whole page)."""
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
    return bool(htmx) and not htmx.history_restore_request and htmx.target == target
