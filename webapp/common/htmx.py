"""Choice between a page and a part of it, which one template holds: the only module that reads htmx's headers."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django_htmx.middleware import HtmxDetails


def wants_fragment(request: HttpRequest, target: str = "") -> bool:
    """Return whether htmx asked for a part of a page: the element `target` alone, or any if none is named.

    A request of htmx to restore its history is for the whole page.
    """
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
    return bool(htmx) and not htmx.history_restore_request and (not target or htmx.target == target)


def render_fragment(request: HttpRequest, template: str, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
    """Render the block `part` of a page alone: its template extends `layout` if there is one, else the site's frame."""
    return render(request, template, context | {"layout": "fragment.html"}, **kwargs)
