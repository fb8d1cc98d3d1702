"""Pages of a list say where they are; the last one holds the rows that walking leads to; large lists are estimated."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client

from tests.fixtures import pages_seed
from webapp.common import paging
from webapp.common.paging import RowCount, count_rows
from webapp.environments.models import Environment

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(pages_seed.person("viewer"))
    return client


@pytest.fixture
def many(db: None) -> None:
    Environment.objects.bulk_create(
        Environment(source="made", key=f"e{number:03}", name=f"Desk {number:03}") for number in range(120)
    )


def test_pages_say_where_they_are_and_the_last_one_is_that_of_walking(reader: Client, many: None) -> None:
    first = reader.get("/environments/").context["page"]
    assert (first.words, first.before, first.first) == ("1\u201350 of 120", "", "")
    second = reader.get(first.after).context["page"]
    third = reader.get(second.after).context["page"]
    assert [second.words, third.words] == ["51\u2013100 of 120", "101\u2013120 of 120"]
    last = reader.get(first.last).context["page"]
    assert (last.words, last.rows, last.after) == (third.words, third.rows, "")
    assert reader.get(last.before).context["page"].rows == second.rows
    assert reader.get(reader.get(last.before).context["page"].before).context["page"].words == first.words


@pytest.mark.parametrize("claimed", ["0", "-3", "119", "99999999999999999999", "x"])
def test_an_address_cannot_claim_a_place_outside_the_list(reader: Client, many: None, claimed: str) -> None:
    after = reader.get("/environments/").context["page"].after
    page = reader.get(after.replace("at=51", f"at={claimed}")).context["page"]
    assert (page.start, page.words) == (None, "50 rows of 120")


def test_a_page_without_rows_or_with_few_needs_no_count(reader: Client) -> None:
    assert reader.get("/environments/").context["page"].count == RowCount(0)
    assert reader.get("/environments/?last=1").status_code == 200


def test_beyond_what_is_counted_the_planners_estimate_is_shown_as_one(
    reader: Client, many: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "COUNTED_TO", 20)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE environments_environment")
    page = reader.get("/environments/").context["page"]
    assert page.words == "1\u201350 of about 120"
    last = reader.get(page.last).context["page"]
    assert (last.start, len(last.rows), last.words) == (None, 50, "50 rows of about 120")


def test_an_estimate_is_rounded_to_what_it_is_worth() -> None:
    assert RowCount(48_310, exact=False).words == "about 48,000"
    assert RowCount(1_234_567, exact=False).words == "about 1,200,000"
    assert count_rows(Environment.objects.none()) == RowCount(0)
