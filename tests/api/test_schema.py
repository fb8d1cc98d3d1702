"""Schemathesis sends what the schema allows and what it forbids: no 5xx, and every answer is as the schema says."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup

from tests.fixtures import pages_seed
from tests.fixtures.api import token_of
from webapp.accounts.access import SCOPE_WORDS

pytestmark = pytest.mark.slow  # loads Schemathesis
load_all_checks()


@schemathesis.serializer("application/gzip")
def as_it_is(context: Any, value: Any) -> bytes:
    """Bodies of a media type that Schemathesis does not know: bytes, or the text of what it made up."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


NOT_ASKED = CHECKS.get_by_names(["positive_data_acceptance", "ignored_auth"])
"""A cursor or a state may be well-formed and still not fit what is there. Who may ask what, `test_access` proves for
every route and role; here it would send each request three times."""
MAY_FIT = CHECKS.get_by_names(["negative_data_rejection"])
"""Not asked of forms: they cannot say null, so that a null that the schema forbids arrives as an empty text."""
ANSWER_S = 60
"""Schemathesis gives up after ten seconds. On a busy machine the first picture of a curve takes longer: it loads what
draws and lists the fonts anew, as this home is empty."""
LONGEST_QUERY = 10_000
"""In characters, each of which may be sent as twelve: uvicorn refuses longer addresses before the site sees them."""
LIMITS = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def with_real_objects(case: Any, objects: dict[str, dict[str, Any]]) -> Any:
    """The case on an object that exists; what the schema forbids stays as it is."""
    group = case.operation.path.removeprefix("/api/v1/").split("/")[0]
    if case.path_parameters:
        known = objects.get(group, {})
        # As texts: Schemathesis holds them against the schema again, and knows no identifier of Python's.
        case.path_parameters = {
            name: str(known[name]) if isinstance(known.get(name), UUID) else known.get(name, value)
            for name, value in case.path_parameters.items()
        }
    return case


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "forbidden"])
def test_every_operation_answers_as_its_schema_says(live_site: str, mode: GenerationMode) -> None:
    from tests.web.addressed_rows import api_objects, objects

    known = api_objects(objects())
    pages_seed.hostile_environment()
    headers = {"Authorization": f"Bearer {token_of(pages_seed.person('admin'), *SCOPE_WORDS)}"}
    schema = schemathesis.openapi.from_url(f"{live_site}/api/v1/openapi.json")
    faults: list[str] = []
    for found in schema.get_all_operations():
        operation = found.ok()

        @LIMITS
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            assume(len(str(case.query)) < LONGEST_QUERY)
            if mode == GenerationMode.POSITIVE:
                case = with_real_objects(case, known)
            excluded = [*NOT_ASKED, *MAY_FIT] if case.media_type == "multipart/form-data" else NOT_ASKED
            case.call_and_validate(headers=headers, excluded_checks=excluded, timeout=ANSWER_S)

        try:
            send()
        except FailureGroup as error:  # of every operation the first, all of them at once
            faults += [f"{operation.label}: {one}" for one in error.exceptions]
    assert not faults, "\n\n".join(faults)
