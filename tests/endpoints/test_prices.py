"""Prices of models: said on the endpoint's page or over the API, unknown until then and never taken for 0."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from synthesis.errors import InputError
from synthesis.llm.cost import FREE, Price
from tests.fixtures import pages_seed
from tests.fixtures.markup import flat
from webapp.accounts.models import AuditEntry
from webapp.endpoints import queries, services
from webapp.endpoints.models import Endpoint

pytestmark = pytest.mark.django_db
URL = "http://127.0.0.1:9/v1"
DEAR = Price(prompt=2.5, completion=10, cached=0.25)


@pytest.fixture
def row() -> Endpoint:
    return services.save_endpoint(None, services.EndpointChanges("local", URL, "", ("a", "b")))


@pytest.fixture
def admin() -> Client:
    client = Client()
    client.force_login(pages_seed.person("admin"))
    return client


def said(row: Endpoint, **fields: Any) -> dict[str, Any]:
    return {"model": "a", "prompt": "2.5", "completion": "10", "cached": "0.25"} | fields


def test_a_price_is_unknown_until_it_is_said_and_when_it_is_forgotten(admin: Client, row: Endpoint) -> None:
    page = flat(admin.get(f"/endpoints/{row.pk}/"))
    assert page.count("unknown: its tokens are counted") == 2
    assert queries.load_prices() == {}
    page = flat(admin.post(f"/endpoints/{row.pk}/price/", said(row), follow=True))
    assert "The price of a is saved." in page
    assert page.count("unknown: its tokens are counted") == 1
    assert queries.load_prices() == {"local/a": DEAR}
    page = flat(admin.post(f"/endpoints/{row.pk}/price/", {"forget": "a"}, follow=True))
    assert "The price of a is unknown now." in page
    assert queries.load_prices() == {}
    entries = AuditEntry.objects.filter(action="endpoint.price").order_by("pk")
    assert [(one.detail["price"] is None, one.detail["before"] is None) for one in entries] == [
        (False, True),
        (True, False),
    ]


def test_free_is_said_and_known(admin: Client, row: Endpoint) -> None:
    admin.post(f"/endpoints/{row.pk}/price/", said(row, prompt="0", completion="0", cached=""))
    assert queries.load_prices() == {"local/a": FREE}


@pytest.mark.parametrize(
    "wrong",
    [{"prompt": ""}, {"prompt": "-1"}, {"completion": "nan"}, {"completion": "1e9"}, {"cached": "much"}, {"model": ""}],
)
def test_what_is_no_price_is_refused_in_words(admin: Client, row: Endpoint, wrong: dict[str, str]) -> None:
    page = flat(admin.post(f"/endpoints/{row.pk}/price/", said(row, **wrong), follow=True))
    assert "The price is not saved." in page
    assert queries.load_prices() == {}


def test_a_price_outlives_the_list_and_the_form(admin: Client, row: Endpoint) -> None:
    services.save_price(None, row.pk, "a", DEAR)
    services.save_models(None, row.pk, ["b", pages_seed.EVIL[:40]])
    page = flat(admin.get(f"/endpoints/{row.pk}/"))
    assert "no longer listed" in page
    assert "<script>window.hit" not in page
    fields = {
        "name": "local",
        "base_url": URL,
        "max_concurrency": 4,
        "timeout_s": 30,
        "models": "b",
        "structured": "json_schema",
    }
    admin.post(f"/endpoints/{row.pk}/", fields)
    row.refresh_from_db()
    held = "json_schema"
    assert (queries.load_prices(), row.structured, services.open_endpoint(row).structured) == (
        {"local/a": DEAR},
        held,
        held,
    )


def test_only_administrators_say_prices(row: Endpoint) -> None:
    operator = Client()
    operator.force_login(pages_seed.person("operator"))
    assert operator.post(f"/endpoints/{row.pk}/price/", said(row)).status_code == 403
    assert queries.load_prices() == {}


def test_the_api_says_keeps_and_replaces_prices(admin: Client) -> None:
    def send(method: str, url: str, body: Any) -> Any:
        return getattr(admin, method)(url, json.dumps(body), content_type="application/json")

    body = {"name": "local", "base_url": URL, "model_names": ["a"], "structured": "json_object"}
    prices = {"a": {"prompt": 2.5, "completion": 10, "cached": 0.25}}
    made = send("post", "/api/v1/endpoints", body | {"prices": prices})
    assert made.status_code == 201, made.content
    assert (made.json()["prices"], made.json()["structured"]) == ({"a": DEAR.model_dump()}, "json_object")
    url = f"/api/v1/endpoints/{made.json()['id']}"
    assert send("put", url, body).json()["prices"] == {"a": DEAR.model_dump()}, "left out keeps them"
    for wrong in (-1, "1", None, True, 1e9):
        refused = send("put", url, body | {"prices": {"a": {"prompt": wrong, "completion": 1}}})
        assert refused.status_code == 422, wrong
    assert send("put", url, body | {"prices": {"": {"prompt": 1, "completion": 1}}}).status_code == 422
    assert send("put", url, body | {"prices": {}}).json()["prices"] == {}


def test_prices_are_bounded(row: Endpoint) -> None:
    for model, price in (("x" * 201, FREE), ("a", Price(prompt=1e7))):
        with pytest.raises(InputError):
            services.save_price(None, row.pk, model, price)
    many = {f"m{number}": FREE for number in range(services.MAX_MODELS + 1)}
    with pytest.raises(InputError, match="At most 500"):
        services.save_endpoint(None, services.EndpointChanges("other", URL, prices=many))


def test_another_server_has_other_prices(row: Endpoint, settings: Any) -> None:
    services.save_price(None, row.pk, "a", FREE)
    services.save_endpoint(None, services.EndpointChanges("local", "http://127.0.0.1:10/v1", ""), row.pk)
    assert queries.load_prices() == {}
    settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY = URL, ""
    started = services.register_from_environment()
    assert started
    services.save_price(None, started.pk, "a", FREE)
    services.register_from_environment()
    assert queries.load_prices() == {"default/a": FREE}
    settings.OPENAI_BASE_URL = "http://127.0.0.1:11/v1"
    services.register_from_environment()
    assert queries.load_prices() == {}
