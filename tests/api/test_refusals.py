"""Errors of the domain at the boundaries: their status, code and headers, as problems and as pages."""

from __future__ import annotations

import json

import pytest
from django.http import Http404
from django.test import RequestFactory

from synthesis.errors import EnvariumError, FormatError, InfrastructureError, InputError, LLMError
from webapp.common.claims import StaleClaim
from webapp.common.error_responses import RefusalPages
from webapp.common.errors import (
    Conflict,
    FieldFault,
    NotFound,
    RangeNotSatisfiable,
    RefusedFields,
    TooLarge,
    Unusable,
    UpstreamError,
)
from webapp.common.rest.problems import build_domain_problem, serialize_problem
from webapp.workers.errors import CallsUsedUp, RecordGap, UnknownWorker, WrongHash, WrongOffset

PROBLEMS: list[tuple[EnvariumError, int, str]] = [
    (NotFound("gone"), 404, "not_found"),
    (Conflict("not now"), 409, "conflict"),
    (TooLarge("too much"), 413, "too_large"),
    (RangeNotSatisfiable(10), 416, "bad_range"),
    (Unusable("no"), 422, "invalid"),
    (InputError("no"), 422, "invalid"),
    (FormatError("[3].name", "is missing"), 422, "invalid"),
    (InfrastructureError("full"), 503, "unavailable"),
    (StaleClaim("Attempt 2 does not hold ftjob-1."), 409, "stale_attempt"),
    (UnknownWorker("who"), 404, "unknown_worker"),
    (WrongHash("other bytes"), 422, "wrong_hash"),
    (CallsUsedUp("all of them"), 429, "insufficient_quota"),
    (UpstreamError("timeout", "late"), 504, "llm_timeout"),
    (UpstreamError("context", "long"), 400, "context_length_exceeded"),
    (UpstreamError("never heard of", "odd"), 502, "llm_failed"),
]


@pytest.mark.parametrize(("error", "status", "code"), PROBLEMS, ids=lambda value: type(value).__name__)
def test_an_error_has_one_status_and_code(error: EnvariumError, status: int, code: str) -> None:
    problem = build_domain_problem(error)
    assert (problem.status, problem.code, problem.detail) == (status, code, str(error))


def test_what_a_client_goes_on_with_stands_in_the_problem() -> None:
    assert json.loads(serialize_problem(build_domain_problem(RecordGap(9, 4)), "/api/v1/x"))["next_seq"] == 4
    assert json.loads(serialize_problem(build_domain_problem(WrongOffset("a", 7)), "/api/v1/x"))["received"] == 7
    assert build_domain_problem(RangeNotSatisfiable(10)).headers == {"Content-Range": "bytes */10"}
    limited = UpstreamError.of(LLMError("rate_limited", "slow down", retry_after=3.2))
    assert build_domain_problem(limited).headers == {"Retry-After": "3"}
    assert build_domain_problem(InfrastructureError("full")).headers == {"Retry-After": "5"}


def test_refused_fields_keep_their_places() -> None:
    fault = FieldFault(("body", "method", "seed"), "Is given twice", "twice")
    told = json.loads(
        serialize_problem(build_domain_problem(RefusedFields("seed: given twice.", [fault], code="twice")), "/api/v1/x")
    )
    assert told["errors"] == [{"loc": ["body", "method", "seed"], "message": "Is given twice", "code": "twice"}]
    assert (told["error"]["code"], told["error"]["param"]) == ("twice", "method.seed")


def test_a_view_that_refuses_answers_with_a_page_of_its_status() -> None:
    pages, request = RefusalPages(lambda request: None), RequestFactory().get("/")  # type: ignore[arg-type, return-value]
    with pytest.raises(Http404, match="gone"):
        pages.process_exception(request, NotFound("gone"))
    answer = pages.process_exception(request, RangeNotSatisfiable(10))
    assert answer is not None
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, "bytes */10")
    assert pages.process_exception(request, ValueError("a fault")) is None
