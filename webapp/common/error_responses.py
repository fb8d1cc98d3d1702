"""HTTP statuses, codes and headers of errors; and refusals that a page's view raises, as pages."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from synthesis.errors import EnvariumError, InfrastructureError
from webapp.common.claims import StaleClaim
from webapp.common.database.connections import AWAY, is_away
from webapp.common.disk import FULL, is_disk_full
from webapp.common.errors import (
    ChangedMeanwhile,
    Conflict,
    NotFound,
    QuotaExceeded,
    RangeNotSatisfiable,
    Refusal,
    TextTooLong,
    TooLarge,
    UpstreamError,
)

logger = logging.getLogger(__name__)

INVALID = 422
STATUSES: dict[type[EnvariumError], int] = {
    NotFound: 404,
    Conflict: 409,
    ChangedMeanwhile: 412,
    StaleClaim: 409,
    TooLarge: 413,
    RangeNotSatisfiable: 416,
    QuotaExceeded: 429,
    InfrastructureError: 503,
}
"""Every other error is 422: the request cannot be used."""
UPSTREAM = {
    "unreachable": (502, "llm_unreachable"),
    "timeout": (504, "llm_timeout"),
    "rate_limited": (429, "llm_rate_limited"),
    "failed": (502, "llm_failed"),
    "malformed": (502, "llm_malformed"),
    "too_large": (502, "llm_too_large"),
    "given_up": (502, "llm_given_up"),
    "context": (400, "context_length_exceeded"),
    "refused": (400, "llm_refused"),
    "away": (503, "model_away"),
}
"""What another server's failure is to who asked: 429 and 5xx are worth another try, 400 is not."""
RETRY_SECONDS = 5


@dataclass(frozen=True)
class HttpTerms:
    """An error in HTTP's terms. An empty code means that of the status."""

    status: int
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)


def to_http_terms(error: EnvariumError) -> HttpTerms:
    """Return status, code and headers of an error."""
    if isinstance(error, UpstreamError):
        status, code = UPSTREAM.get(error.reason, UPSTREAM["failed"])
        return HttpTerms(status, code, _build_retry_headers(error.retry_after))
    status = get_status(type(error))
    if isinstance(error, RangeNotSatisfiable):
        return HttpTerms(status, error.code, {"Content-Range": f"bytes */{error.size}"})
    if isinstance(error, InfrastructureError):
        return HttpTerms(status, "", _build_retry_headers(RETRY_SECONDS))
    return HttpTerms(status, error.code if isinstance(error, Refusal | StaleClaim) else "")


def get_status(kind: type[EnvariumError]) -> int:
    """Return the status of errors of this class."""
    return next((status for base, status in STATUSES.items() if issubclass(kind, base)), INVALID)


def describe_outage(error: BaseException | None) -> str:
    """Return the message for a temporary failure: a full disk, a database that is away. Empty for every other."""
    return FULL if is_disk_full(error) else AWAY if is_away(error) else ""


def _build_retry_headers(seconds: float | None) -> dict[str, str]:
    return {"Retry-After": str(round(seconds))} if seconds else {}


class RefusalPages:
    """Middleware that turns a view's refusal into a page of its status, what is not found into the site's 404, and
    shows a page if an address that only takes a form was opened."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code == 405 and request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
            told = render(request, "405.html", status=405)
            told.headers["Allow"] = response.headers.get("Allow", "POST")
            return told
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer an exception of a view. Called by Django; the API answers its own errors before."""
        kind = "text/plain; charset=utf-8"
        if words := describe_outage(error):
            logger.warning("%s is answered with 503: %s: %s", request.path, type(error).__name__, error)
            return HttpResponse(words, status=503, headers=_build_retry_headers(RETRY_SECONDS), content_type=kind)
        if not isinstance(error, Refusal):
            return None
        if isinstance(error, NotFound):
            raise Http404(str(error)) from error
        terms = to_http_terms(error)
        if isinstance(error, TextTooLong) and request.headers.get("HX-Request") != "true":
            return _show_too_long(request, error, terms.status)
        return HttpResponse(str(error), status=terms.status, headers=terms.headers, content_type=kind)


def _show_too_long(request: HttpRequest, error: TextTooLong, status: int) -> HttpResponse:
    """Show the text that is too long in a form that sends everything again."""
    name = error.facts["name"]
    query = request.POST if request.method == "POST" else request.GET
    sent = [(key, value) for key, values in query.lists() for value in values]
    others = [(key, value) for key, value in sent if key not in (name, "csrfmiddlewaretoken")]
    context = {"error": str(error), "text": query.get(name, ""), "others": others}
    return render(request, "too_long.html", context | error.facts, status=status)
