"""Middleware for the headers of every response, and for the origin of an act."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from webapp.accounts.origin import CURRENT, RequestOrigin, get_client_address

POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)


def content_security_policy(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Forbid inline scripts and styles, content from other hosts, and frames."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response

    return middleware


def request_origin(
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
