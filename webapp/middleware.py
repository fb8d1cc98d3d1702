"""Headers that every response carries, and where an act comes from."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from webapp.accounts.origin import CURRENT, RequestOrigin, client_address

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
    """No inline script or style, nothing from another host, no frame."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response

    return middleware


def request_origin(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """What the audit log writes down of a request: a page and the address; a token says so itself."""

    def middleware(request: HttpRequest) -> HttpResponse:
        before = CURRENT.set(RequestOrigin("page", client_address(request)))
        try:
            return get_response(request)
        finally:
            CURRENT.reset(before)

    return middleware
