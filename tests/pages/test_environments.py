from __future__ import annotations

import json
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.fixtures import pages_seed
from tests.fixtures.markup import flat
from webapp.environments import version_diff
from webapp.environments.models import Environment
from webapp.environments.tool_descriptions import list_differences, list_parameters

pytestmark = pytest.mark.django_db


def names(html: str) -> list[str]:
    return re.findall(r"data-row-link title=\"([^\"]*)\"", html)


def body(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200, url
    return flat(response)


def many(count: int) -> None:
    Environment.objects.bulk_create(
        Environment(source="x", key=f"k{i}", name=f"Desk {i % 7:02d}", category=f"c{i % 3}", tool_count=i % 5)
        for i in range(count)
    )


def walk(client: Client, url: str, rel: str = "next") -> list[list[str]]:
    """The rows of every page, following the pager's links."""
    pages = []
    while url:
        html = body(client, url)
        pages.append(re.findall(r'<a href="/environments/(\d+)/" data-row-link', html))
        found = re.search(rf'href="([^"]+)" rel="{rel}"', html)
        url = found.group(1).replace("&amp;", "&") if found else ""
    return pages


@pytest.mark.parametrize("sort", ["new", "name", "tools", "findings", "tasks"])
def test_paging_reaches_every_row_once_and_back(page: Client, sort: str) -> None:
    many(120)
    pages = walk(page, f"/environments/?sort={sort}")
    rows = [row for one in pages for row in one]
    assert [len(one) for one in pages] == [50, 50, 20]
    assert len(set(rows)) == 120
    html = body(page, f"/environments/?sort={sort}")
    last = html
    for _ in range(2):
        found = re.search(r'href="([^"]+)" rel="next"', last)
        assert found
        last = body(page, found.group(1).replace("&amp;", "&"))
    found = re.search(r'href="([^"]+)" rel="prev"', last)
    assert found
    assert walk(page, found.group(1).replace("&amp;", "&"), "prev") == pages[1::-1]


def test_filters_narrow_and_stay_in_the_links(page: Client) -> None:
    many(30)
    pages_seed.environment("Clinic", category="Health")
    assert names(body(page, "/environments/?q=clin")) == ["Clinic"]
    assert names(body(page, "/environments/?category=Health")) == ["Clinic"]
    assert names(body(page, "/environments/?finding=uses_clock")) == ["Clinic"]
    assert len(names(body(page, "/environments/?tools_min=4&tools_max=4"))) == 6
    assert names(body(page, "/environments/?q=clin&finding=no_tools")) == []
    html = body(page, "/environments/?category=Health&sort=name")
    assert "?category=Health&amp;sort=name" in html
    assert "No environment matches" in body(page, "/environments/?q=nothing")


@pytest.mark.parametrize(
    "query",
    [
        "tools_min=many",
        "sort=odd",
        "after=%00",
        "after=bm9wZQ",
        "before=W251bGwsMV0",
        "q=%00",
        "after=WyJcdTAwMDAiLDFd&sort=name",
    ],
)
def test_odd_parameters_are_said_or_ignored(page: Client, query: str) -> None:
    pages_seed.environment()
    assert page.get(f"/environments/?{query}").status_code == 200


def test_empty_list_says_what_to_do(page: Client) -> None:
    html = body(page, "/environments/")
    assert "No environments yet" in html
    assert "Import environments" in html


@pytest.mark.parametrize("url", ["/environments/", "/", "/jobs/"])
def test_lists_ask_a_fixed_number_of_questions(page: Client, url: str) -> None:
    pages_seed.environment()
    pages_seed.job()
    with CaptureQueriesContext(connection) as few:
        body(page, url)
    many(60)
    for _ in range(60):
        pages_seed.job()
    with CaptureQueriesContext(connection) as lots:
        body(page, url)
    assert len(lots) <= len(few) + 1  # a list of more than a page is counted
    assert len(lots) <= (30 if url == "/" else 25)
    assert not any('"environments_version"."source"' in one["sql"] for one in lots)


@pytest.mark.parametrize("tab", ["rules", "state", "tools", "scenarios", "findings", "versions"])
def test_every_tab(page: Client, tab: str) -> None:
    row = pages_seed.environment()
    with CaptureQueriesContext(connection) as asked:
        html = body(page, f"/environments/{row.pk}/?tab={tab}")
    assert "Front desk" in html
    assert len(asked) <= 10


def test_tools_show_the_schema_difference_and_their_findings(page: Client) -> None:
    html = body(page, f"/environments/{pages_seed.environment().pk}/?tab=tools")
    assert "(key: string, day: string = &quot;mon&quot;)" in html
    assert "see tools.get_row" in html
    assert "see program" not in html
    assert '<span class="k">def</span>' in html


def test_differences_say_each_side() -> None:
    found = {(one.place, one.imported, one.working) for one in list_differences(pages_seed.RAW, pages_seed.WORKING)}
    assert found == {("day", "required", "optional"), ("day.default", "not given", "mon")}
    assert list_differences(None, pages_seed.WORKING) == []
    assert list_differences(pages_seed.WORKING, pages_seed.WORKING) == []
    assert list_differences(["odd"], {})[0].place == "schema"
    assert list_parameters({"properties": {"a": "odd", "b": {"type": ["string", "null"]}}})[1].type == "string or null"


def test_findings_are_grouped_explained_and_filtered(page: Client) -> None:
    url = f"/environments/{pages_seed.environment().pk}/?tab=findings"
    html = body(page, url)
    assert html.index("Wrong type raises") < html.index("Reads the clock")
    assert "validate it first" in html
    assert "see program" not in body(page, f"{url}&severity=warning")
    only = body(page, f"{url}&tool=drop_row")
    assert "see tools.drop_row" in only
    assert "see tools.get_row" not in only


def test_versions_and_their_difference(page: Client) -> None:
    row = pages_seed.environment()
    pages_seed.add_version(
        row, 2, source=pages_seed.PROGRAM.replace("rows = {}", "rows = dict()"), rules=["Be kind.", "Be brief."]
    )
    url = f"/environments/{row.pk}"
    assert "not the current one" in body(page, f"{url}/?version=2")
    assert page.get(f"{url}/?version=9").status_code == 404
    assert page.get(f"{url}/?version=x").status_code == 404
    assert page.get(f"{url}/diff", {"a": 1, "b": 2}).headers["Location"] == f"{url}/diff/1/2/"
    html = body(page, f"{url}/diff/1/2/")
    assert "self.rows = dict()" in html
    assert "Be brief." in html
    assert "Introduction" not in html
    assert "No difference" in body(page, f"{url}/diff/1/1/")
    assert page.get(f"{url}/diff/1/3/").status_code == 404


def test_a_huge_difference_is_bounded() -> None:
    found = version_diff.build_diff_part(
        "Program", "\n".join(map(str, range(9000))), "\n".join(map(str, range(1, 18_000, 2)))
    )
    assert len(found.rows) <= version_diff.ROWS_UP_TO
    assert found.note


def test_a_version_without_content_says_so(page: Client) -> None:
    row = Environment.objects.create(source="x", key="hollow", name="Hollow")
    assert "its import did not finish" in body(page, f"/environments/{row.pk}/")


def test_export_is_an_attachment_equal_to_the_record(page: Client) -> None:
    row = pages_seed.environment()
    pages_seed.environment("Other", key="other")
    response = page.get(f"/environments/{row.pk}/export")
    assert response.headers["Content-Disposition"] == 'attachment; filename="Front_desk.envscaler.json"'
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    text = b"".join(response).decode()
    assert json.loads(text) == {"Front desk": {"env_id": "Front desk", "odd": [1, {"b": 2, "a": 1}]}}
    assert '{"b": 2, "a": 1}' in text
    listed = page.get("/environments/export?q=other")
    assert list(json.loads(b"".join(listed))) == ["other"]


PLACES = ["", "?tab=state", "?tab=tools", "?tab=findings", "?tab=versions", "diff/1/2/"]


@pytest.mark.parametrize("place", PLACES)
def test_planted_payloads_stay_text(page: Client, place: str) -> None:
    row = pages_seed.hostile_environment()
    for url in (f"/environments/{row.pk}/{place}", "/environments/", "/"):
        html = body(page, url)
        assert "<script>window" not in html
        assert "<img" not in html
        assert not re.search("[\u202e\u200b\x07]", re.sub(r'(?:value|id|href)="[^"]*"', "", html)), url
        assert "{{ 7|add:1 }}" in html
