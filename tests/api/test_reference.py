"""The API's reference page: an index by area, and a search that needs no script."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.fixtures import pages_seed
from tests.fixtures.markup import markup

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(client: Client) -> Client:
    client.force_login(pages_seed.person("viewer"))
    return client


def operations(page: Client, query: str) -> list[str]:
    html = markup(page.get(f"/api/?q={query}"))
    return re.findall(r'<section class="card api-operation" id="(?!schema-)([^"]+)"', html)


def test_the_index_leads_to_every_area(page: Client) -> None:
    html = markup(page.get("/api/"))
    areas = re.findall(r'href="#(area-[^"]+)"', html)
    assert len(areas) > 8
    assert all(f'<h2 id="{area}">' in html for area in areas)
    assert len(set(areas)) == len(areas)


@pytest.mark.parametrize(
    ("query", "there", "absent"),
    [
        ("/batches/limits", "get_batch_limits", "list_jobs"),
        ("list+jobs", "list_jobs", "create_batch"),
        ("IDEMPOTENT+nothing-like-it", "", "list_jobs"),
        ("training+demo", "get_ecosystem", "list_jobs"),
    ],
)
def test_it_is_searched_by_path_name_and_text(page: Client, query: str, there: str, absent: str) -> None:
    found = operations(page, query)
    assert absent not in found
    assert there in found if there else found == []
    assert len(found) < len(operations(page, ""))


def test_what_is_found_is_counted_and_what_was_typed_is_text(page: Client) -> None:
    html = markup(page.get("/api/?q=<img src=x onerror=window.hit=1>%00"))
    assert "<img src=x" not in html
    assert "0 of" in html
    assert "Show all" in html
    found = markup(page.get("/api/?q=create_batch"))
    assert 'id="problems"' not in found
    assert 'href="/api/#schema-' in found, "a schema that is not shown is a page away"
