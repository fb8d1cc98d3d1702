"""Choice between a page and a part of it: the one place that looks at htmx's headers."""

from __future__ import annotations

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails


def wants_fragment(request: HttpRequest, target: str = "") -> bool:
    """Whether htmx asked for a part of a page: the element `target` alone, or any where none is named.

    What htmx asks for to restore its history is the whole page.
    """
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
    return bool(htmx) and not htmx.history_restore_request and (not target or htmx.target == target)
