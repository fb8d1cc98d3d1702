"""Problems: every error of the API as RFC 9457 `application/problem+json`, with OpenAI's `error` in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import Error as DatabaseFault
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.response import HttpResponseBase
from ninja import NinjaAPI, Schema
from ninja.errors import HttpError, ValidationError

from synthesis.errors import EnvariumError, InfrastructureError
from webapp.common.error_responses import describe_outage, to_http_terms
from webapp.common.errors import Refusal, RefusedFields

CONTENT_TYPE = "application/problem+json"
PREFIX = "/api/v1/"
ERRORS_SHOWN = 100
ERRORS_BUILT = 1_000
"""A request with more faults is refused without telling each."""
CODES = {
    400: "bad_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    412: "changed_meanwhile",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
    428: "precondition_required",
    429: "too_many_requests",
    500: "internal_error",
    503: "unavailable",
}
CLOSER = {
    "malformed_body": (400, "The body is no JSON, or no form, that can be read. The detail says where."),
    "bad_cursor": (400, "The cursor is not one of this list in this order."),
    "context_length_exceeded": (400, "The conversation is longer than the model's window."),
    "bad_key": (400, "The Idempotency-Key is too long, or not of printable ASCII."),
    "invalid_token": (401, "The token is unknown, was revoked or expired, or its owner may not sign in."),
    "csrf": (403, "A write with a session needs the header X-CSRFToken."),
    "in_flight": (409, "A request with the same Idempotency-Key is being answered."),
    "key_reused": (422, "The Idempotency-Key was sent before with another request."),
    "bad_range": (416, "The bytes that the header Range names are not in this file."),
}
"""Codes that say more than their status; `type` leads to their row in the reference."""
SAID = {
    400: "The request could not be read. Compare it with the reference at /api/.",
    404: "No object or operation has this address.",
    405: "This address does not answer this method. The header Allow names those it does.",
    413: f"The body is larger than this address takes: JSON may have {settings.DATA_UPLOAD_MAX_MEMORY_SIZE >> 20} MiB.",
    500: "This is a fault of Envarium or of a service it needs. The reason is in the server's log.",
}


class FieldError(Schema):
    """One field with an error. `loc` is the path to the value: its origin (`body`, `query`, `path`), then names and
    positions."""

    loc: list[str | int]
    message: str
    code: str


class OpenAIError(Schema):
    message: str
    code: str
    param: str | None
    type: str


class ProblemOut(Schema):
    """A problem as in RFC 9457. `error` repeats it in the format of OpenAI's clients."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldError]
    error: OpenAIError


class Problem(Exception):
    """An error that an operation raises to answer with a problem. `detail` states what went wrong and how to mend
    it."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str = "",
        errors: list[FieldError] | None = None,
        headers: dict[str, str] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code or CODES.get(status, "error")
        self.errors = errors or []
        self.headers = headers or {}
        self.extra = extra or {}
        """Members of the answer in addition to those of every problem, for clients that can continue on their own."""


def build_response(request: HttpRequest, problem: Problem) -> HttpResponse:
    text = serialize_problem(problem, request.path)
    return HttpResponse(text, status=problem.status, content_type=CONTENT_TYPE, headers=problem.headers)


def serialize_problem(problem: Problem, path: str) -> str:
    """Return the body of a problem that a request to `path` met."""
    param = ".".join(str(part) for part in problem.errors[0].loc[1:]) or None if problem.errors else None
    kind = "server_error" if problem.status >= 500 else "invalid_request_error"
    body = ProblemOut(
        type=f"/api/#{problem.code}",
        title=HTTPStatus(problem.status).phrase,
        status=problem.status,
        detail=problem.detail,
        instance=path,
        errors=problem.errors,
        error=OpenAIError(message=problem.detail, code=problem.code, param=param, type=kind),
    )
    return json.dumps(body.model_dump() | problem.extra)


def to_field_error(row: dict[str, Any]) -> FieldError:
    """Convert a pydantic error to the terms of the sender of the request.

    Ninja puts the name that an operation has for its body behind `body`: the caller knows no such field.
    """
    loc = list(row["loc"])
    message = "Must be an object" if row["type"] == "model_type" else str(row["msg"]).removeprefix("Value error, ")
    # Of text that a validator of ours has seen, pydantic counts "items".
    message = re.sub(
        r"^Value (should have at (?:most|least) \d+) items? after validation", r"Text \1 characters", message
    )
    return FieldError(loc=[*loc[:1], *loc[2:]] if loc[0] == "body" else loc, message=message, code=str(row["type"]))


def build_validation_problem(error: ValidationError) -> Problem:
    errors = [to_field_error(row) for row in error.errors[:ERRORS_SHOWN]]
    first = errors[0]
    place = ".".join(str(part) for part in first.loc)
    others = len(error.errors) - 1
    first_of = f", the first {len(errors) - 1} of them" if others >= len(errors) else ""
    more = f" {others} more: see errors{first_of}." if others else ""
    return Problem(422, f"{place}: {first.message}.{more}", errors=errors)


def build_too_many_faults(model: Any, counted: int) -> ValidationError:
    """Return one error for a request with too many faults to list: half a million of them took 0.8 GB."""
    place = model.__ninja_param_source__
    field_names = sorted(
        name for field in model.model_fields.values() for name in getattr(field.annotation, "model_fields", ())
    )
    takes = f" It takes {', '.join(field_names)}." if field_names else ""
    message = f"Has {counted:,} faults, too many to list. Send what the reference of this operation names.{takes}"
    return ValidationError([{"loc": (place,), "msg": message.rstrip("."), "type": "too_many_faults"}])


def build_unknown_id_problem(place: str, name: str, pk: int) -> Problem:
    """Return the problem of an id in the query or the body that names no object."""
    error = FieldError(loc=[place, name], message=f"There is no {name} with the id {pk}", code="unknown")
    return Problem(422, f"{place}.{name}: {error.message}.", errors=[error])


def build_http_problem(error: HttpError) -> Problem:
    """Return the problem of Ninja's own refusals; an unreadable body may have been too large, or cut off."""
    if isinstance(error.__cause__, RequestDataTooBig):
        return Problem(413, SAID[413])
    if isinstance(error.__cause__, UnreadablePostError):
        return Problem(400, "The connection ended before the whole body was here.")
    if error.status_code == 400:
        why = f": {str(error.__cause__)[:200].rstrip('.')}" if isinstance(error.__cause__, ValueError) else ""
        return Problem(400, f"The body is not JSON that can be read{why}.", code="malformed_body")
    return Problem(error.status_code, str(error))


def build_outage_problem(error: Exception) -> Problem:
    """Return the problem of a full disk or of an unavailable database. Raises every other error again, which Django
    logs."""
    if not (words := describe_outage(error)):
        raise error
    return Problem(503, words, headers=to_http_terms(InfrastructureError()).headers)


def build_domain_problem(error: EnvariumError) -> Problem:
    """Return the problem of an error of the domain."""
    terms = to_http_terms(error)
    faults = error.faults if isinstance(error, RefusedFields) else ()
    return Problem(
        terms.status,
        str(error),
        code=terms.code,
        errors=[FieldError(loc=list(fault.place), message=fault.message, code=fault.code) for fault in faults],
        headers=terms.headers,
        extra=error.facts if isinstance(error, Refusal) else {},
    )


def install_handlers(api: NinjaAPI) -> None:
    """Register handlers that answer every expected exception with a problem; others pass to Django, which logs them."""
    to_problem: dict[type[Exception], Callable[[Any], Problem]] = {
        Problem: lambda error: error,
        ValidationError: build_validation_problem,
        HttpError: build_http_problem,
        Http404: lambda error: Problem(404, SAID[404]),
        EnvariumError: build_domain_problem,
        RequestDataTooBig: lambda error: Problem(413, SAID[413]),
        UnreadablePostError: lambda error: Problem(400, "The connection ended before the whole body was here."),
    }
    to_problem |= dict.fromkeys((OSError, DatabaseFault), build_outage_problem)
    for kind, make in to_problem.items():
        api.add_exception_handler(kind, lambda request, error, make=make: build_response(request, make(error)))  # type: ignore[misc]


def api_problems(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Convert, as middleware, the error pages of Django below /api/v1/ to problems."""

    def convert_response(request: HttpRequest) -> HttpResponseBase:
        answer = get_response(request)
        if not request.path.startswith(PREFIX) or answer.status_code < 400:
            return answer
        if answer.headers.get("Content-Type", "").startswith(CONTENT_TYPE):
            return answer
        message = SAID.get(answer.status_code, HTTPStatus(answer.status_code).phrase)
        headers = {name: answer.headers[name] for name in ("Allow", "Retry-After") if name in answer.headers}
        return build_response(request, Problem(answer.status_code, message, headers=headers))

    return convert_response
