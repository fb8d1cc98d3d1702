"""The pages of the taxonomy: what they show, at a fixed number of queries, with any text as text."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.fixtures import pages_seed
from tests.fixtures.markup import flat
from tests.taxonomy.samples import entries, environment, server
from webapp.jobs.models import Job, JobState
from webapp.labelling.models import LabelItem
from webapp.pages.models import Visit
from webapp.scenarios.models import Task
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.models import Node, Theme
from webapp.taxonomy.services import place_paths
from webapp.taxonomy.treemap import format_drawn_label

EVIL = pages_seed.EVIL


def body(page: Client, url: str, status: int = 200) -> str:
    answer = page.get(url)
    assert answer.status_code == status, url
    return flat(answer)


def queries(page: Client, url: str) -> int:
    with CaptureQueriesContext(connection) as seen:
        body(page, url)
    return len(seen)


def items(html: str) -> list[tuple[str, dict[str, str]]]:
    """Each tree item's name with its ARIA attributes."""
    found = []
    for attributes in re.findall(r'<li role="treeitem"([^>]*)>', html):
        pairs = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
        found.append((pairs["aria-label"].partition(":")[0], pairs))
    return found


def test_an_empty_tree_says_why_and_what_to_do(page: Client) -> None:
    html = body(page, "/taxonomy/")
    assert "The tree is empty" in html
    assert 'href="/import/"' in html
    assert "Nothing to draw" in body(page, "/taxonomy/map/")
    assert "No themes here" in body(page, "/taxonomy/themes/")


def test_items_say_their_place_and_open_without_a_script(page: Client) -> None:
    import_servers(entries(server(1), server(2, primary_label="Gaming"), server(3, custom_label="Another")))
    weather = Node.objects.get(path="weather")
    closed = items(body(page, "/taxonomy/"))
    assert [name for name, _ in closed] == ["Gaming", "Weather"]
    assert closed[1][1]["aria-level"] == "1"
    assert (closed[1][1]["aria-posinset"], closed[1][1]["aria-setsize"]) == ("2", "2")
    assert closed[1][1]["aria-expanded"] == "false"
    assert [one["tabindex"] for _, one in closed] == ["0", "-1"]
    html = body(page, "/taxonomy/")
    link = re.search(rf'href="(\?open={weather.pk})#n{weather.pk}"', html)
    assert link is not None
    opened = items(body(page, f"/taxonomy/{link[1]}"))
    assert [name for name, _ in opened] == ["Gaming", "Weather", "API Integration"]
    deep = Node.objects.get(path="weather \u203a api integration \u203a storm warnings")
    at = items(body(page, f"/taxonomy/?at={deep.pk}"))
    assert [one["aria-selected"] for name, one in at if name == "Storm Warnings"] == ["true"]
    assert [name for name, one in at if one["aria-level"] == "3"] == ["Another", "Storm Warnings"]


def test_the_search_shows_matches_below_what_they_belong_to(page: Client) -> None:
    import_servers(entries(server(1), server(2, name="Storm radar", primary_label="Gaming", custom_label=None)))
    html = body(page, "/taxonomy/?q=storm")
    assert [name for name, _ in items(html)] == ["Weather", "API Integration", "Storm Warnings"]
    assert html.count("name hit") == 1
    assert "Storm radar" in html
    assert "Nothing found" in body(page, "/taxonomy/?q=no such label")
    body(page, "/taxonomy/?q=%00%25_'")
    assert "201 characters, and 200 are allowed" in body(page, f"/taxonomy/?q={'x' * 201}", 422)


@pytest.mark.django_db
def test_a_name_in_several_places_says_so_and_leads_to_putting_them_together(client: Client) -> None:
    client.force_login(pages_seed.person("operator"))
    crossing = server(3, primary_label="API Integration", secondary_labels=["Weather"], custom_label="A & B")
    import_servers(entries(server(1), server(2), crossing, server(4, primary_label="Gaming", custom_label=EVIL[:90])))
    upper, lower = Node.objects.filter(name="Weather").order_by("level")
    html = body(client, "/taxonomy/?q=weather")
    assert "<b>Weather</b> is in 2 places, with 3 themes in all" in html
    assert "API Integration \u203a Weather \u203a A &amp; B" in body(client, "/taxonomy/?q=Forecast 3")
    assert "both above and below \u201cAPI Integration\u201d" in html
    merge = f"/taxonomy/{lower.pk}/change/merge/?to={upper.pk}"
    session = f"/taxonomy/sessions/new/merge/?labels={upper.pk}&labels={lower.pk}"
    for url in ("/taxonomy/?q=weather", f"/taxonomy/{lower.pk}/", "/taxonomy/names/", "/taxonomy/names/?sort=-name"):
        html = body(client, url)
        assert merge in html, url
        assert session.replace("&", "&amp;") in html, url
        assert "API Integration \u203a Weather" in html
        assert "&amp;amp;" not in html
    assert "</b> is in" not in body(client, f"/taxonomy/{Node.objects.get(path='gaming').pk}/")
    assert f'value="{upper.pk}" checked' in body(client, merge)
    assert body(client, session).count('name="labels"') == 2
    given = {"name": "Weather", "overlap": "1", "lease_minutes": "60"}
    assert client.post(session, given | {"labels": [upper.pk]}).status_code == 422
    assert client.post(session, given | {"labels": [upper.pk, lower.pk]}).status_code == 302
    asked = [(one["id"], one["parent_name"]) for one in LabelItem.objects.get().content["labels"]]
    assert asked == [(upper.pk, "first level"), (lower.pk, "API Integration")]
    body(client, "/taxonomy/names/")  # with the message of the session
    before = queries(client, "/taxonomy/names/")
    import_servers(entries(*(server(10 + n, primary_label=f"Label {n}", custom_label="Tides") for n in range(60))))
    assert queries(client, "/taxonomy/names/?start=0") == before, "however many places there are"
    assert "Tides" in body(client, "/taxonomy/names/?sort=-themes")


def test_labels_of_one_parent_stand_by_what_a_head_says(page: Client) -> None:
    others = (server(3, primary_label="Gaming"), server(4, primary_label="Others"), server(5, custom_label="Tides"))
    import_servers(entries(server(1), server(2), *others))
    weather = Node.objects.get(path="weather")
    assert [name for name, _ in items(body(page, "/taxonomy/"))] == ["Gaming", "Weather", "Others"]
    html = body(page, f"/taxonomy/?sort=-themes&open={weather.pk}")
    assert [name for name, one in items(html) if one["aria-level"] == "1"] == ["Weather", "Gaming", "Others"]
    assert f'href="/taxonomy/?sort=themes&amp;open={weather.pk}"' in html, "the head turns it round"
    assert f'href="?sort=-themes&amp;open=#n{weather.pk}"' in html, "opening keeps it"
    assert [name for name, _ in items(body(page, "/taxonomy/?sort=-name"))] == ["Weather", "Gaming", "Others"]
    for order in ("environments", "-tasks", "rate", "-rate", "nonsense"):
        assert len(items(body(page, f"/taxonomy/?sort={order}"))) == 3, order
    middle = Node.objects.get(path="weather \u203a api integration")
    for order, below in (("-themes", ["Storm Warnings", "Tides"]), ("themes", ["Tides", "Storm Warnings"])):
        assert [name for name, _ in items(body(page, f"/taxonomy/{middle.pk}/children?sort={order}"))] == below
        opened = items(body(page, f"/taxonomy/?sort={order}&open={weather.pk},{middle.pk}"))
        assert [name for name, one in opened if one["aria-level"] == "3"] == below


def test_a_node_shows_its_themes_its_environments_and_its_labels(page: Client) -> None:
    import_servers(entries(server(1), server(2, primary_label="Gaming")))
    row = environment("one")
    weather = Node.objects.get(path="weather")
    assert "Forecast 1" in body(page, f"/taxonomy/{weather.pk}/")
    assert "Forecast 2" not in body(page, f"/taxonomy/{weather.pk}/?tab=themes")
    assert f"/environments/of-node/{weather.pk}/" in body(page, f"/taxonomy/{weather.pk}/?tab=environments")
    assert row.name in body(page, f"/environments/of-node/{weather.pk}/")
    assert row.name in body(page, f"/environments/?node={weather.pk}")
    gaming = Node.objects.get(path="gaming")
    assert row.name not in body(page, f"/environments/?node={gaming.pk}")
    assert "API Integration" in body(page, f"/taxonomy/{weather.pk}/?tab=labels")
    theme = Theme.objects.get(key="1")
    html = body(page, f"/taxonomy/themes/{theme.pk}/")
    assert "get_forecast" in html
    assert "(city)" in html
    for url in ("/taxonomy/0/", "/taxonomy/999999/", f"/taxonomy/{weather.pk}/?tab=no", "/taxonomy/themes/0/"):
        body(page, url, 404)


def test_any_parameters_that_came_in_can_be_shown(page: Client) -> None:
    odd: list[Any] = [
        {"properties": {"a": {"type": ["string", "null"]}, "b": 5, "c": {"anyOf": [{"type": "integer"}, 7]}}},
        {"properties": [], "required": "a"},
        [{"name": "x", "type": "array", "required": True}, 5, {"name": 7}],
        [],
        None,
    ]
    import_servers(entries(server(1, tools=[{"name": f"t{n}", "input_schema": one} for n, one in enumerate(odd)])))
    html = body(page, f"/taxonomy/themes/{Theme.objects.get().pk}/")
    for text in ("string | null", "integer", "(x, ?)", "It takes no parameters", "does not describe its parameters"):
        assert text in html, text


def test_hostile_text_stays_text(page: Client) -> None:
    import_servers(
        entries(
            server(1, name=EVIL, overview=EVIL, primary_label=EVIL[:90], custom_label=EVIL[-90:], secondary_labels=[]),
            server(2, tools=[{"name": EVIL[:190], "description": EVIL, "input_schema": {"properties": {EVIL: EVIL}}}]),
        )
    )
    pks = [*Node.objects.values_list("pk", flat=True)]
    urls = [f"/taxonomy/themes/{pk}/" for pk in Theme.objects.values_list("pk", flat=True)]
    urls += ["/taxonomy/?q=%3Cscript", f"/taxonomy/?open={','.join(map(str, pks))}", "/taxonomy/map/", "/"]
    urls += [f"/taxonomy/{pk}/?tab={tab}" for pk in pks for tab in ("themes", "labels")]
    for url in [*urls, *(f"/taxonomy/{pk}/children" for pk in pks), "/taxonomy/themes/"]:
        html = body(page, url)
        assert "<script>window" not in html, url
        assert "<img src=x" not in html, url
        assert "\u202e" not in html, f"{url}: {html[html.index(chr(0x202E)) - 200 :][:220]}"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Health & Fitness", "Health &amp; Fitness"),
        ("<b>bold</b> <a href='javascript:x'>y</a>", "bold y"),
        ("&lt;b&gt;x&lt;/b&gt;", "&amp;lt;b&amp;gt;x&amp;lt;/b&amp;gt;"),
        ("a < b > c", "a \u2039 b \u203a c"),
        ("\u202eevil\u0007", "evil"),
        ("<<img src=x>", "\u2039"),
        ("<unclosed", "(no name)"),
    ],
)
def test_labels_of_the_treemap_hold_no_markup(name: str, label: str) -> None:
    assert format_drawn_label(name) == label


def test_the_treemap_and_its_table_say_the_same(page: Client) -> None:
    import_servers(entries(server(1), server(2), server(3, primary_label="Gaming", secondary_labels=[])))
    html = body(page, "/taxonomy/map/")
    wide = re.search(r'<svg class="wide".*?</svg>', html)[0]  # type: ignore[index]
    tiles = re.findall(r'title="([^":]*): (\d+) themes"', wide)
    rows = re.findall(r'data-row-link>([^<]*)</a></th>.*?<td class="num">(\d+)</td>', html)
    assert sorted(tiles) == sorted(rows) == [
        ("API Integration", "2"), ("Gaming", "1"), ("Storm Warnings", "1"), ("Weather", "2")
    ]  # fmt: skip
    assert f'href="/taxonomy/map/?node={Node.objects.get(path="weather").pk}&amp;size=themes"' in wide
    for sort, first in (("name", "API Integration"), ("-name", "Weather"), ("themes", "Gaming")):
        html = body(page, f"/taxonomy/map/?sort={sort}")
        assert re.search(r"data-row-link>([^<]*)<", html)[1] == first, sort  # type: ignore[index]
    assert 'aria-sort="ascending"' in html
    weather = Node.objects.get(path="weather")
    assert "Storm Warnings" in body(page, f"/taxonomy/map/?node={weather.pk}&size=tools")


def test_queries_do_not_grow_with_the_rows(page: Client) -> None:
    body(page, "/")
    import_servers(entries(server(0)))
    environment("first")
    weather = Node.objects.get(path="weather").pk
    api = Node.objects.get(path="weather \u203a api integration").pk
    urls = [
        f"/taxonomy/?open={weather},{api}",
        "/taxonomy/?q=a",
        f"/taxonomy/{weather}/?tab=themes",
        f"/taxonomy/{weather}/?tab=labels",
        f"/taxonomy/{weather}/children",
        f"/environments/of-node/{weather}/",
        "/taxonomy/map/",
        "/taxonomy/themes/",
        "/",
    ]
    few = [queries(page, url) for url in urls]
    topics = ["API Integration", "Gaming", "Education"]
    import_servers(entries(*(server(n, secondary_labels=[topics[n % 3]], custom_label=f"T{n}") for n in range(1, 60))))
    for number in range(12):
        environment(f"e{number}")
    # A list of more than a page is counted.
    assert all(queries(page, url) - before in (0, 1) for url, before in zip(urls, few, strict=True))
    assert max(few) <= 30, dict(zip(urls, few, strict=True))


@pytest.mark.slow
@pytest.mark.xdist_group("forest")
def test_a_large_tree_sends_its_open_levels_only(page: Client, forest: dict[str, int]) -> None:
    html = body(page, "/taxonomy/")
    assert len(items(html)) == 40
    first = forest["domain 00"]
    assert len(items(body(page, f"/taxonomy/{first}/children"))) == 12
    assert len(body(page, "/taxonomy/map/")) < 600_000
    answer = page.get("/taxonomy/0/children?start=30")
    assert [one["aria-posinset"] for _, one in items(flat(answer))] == [str(n) for n in range(31, 41)]


def test_a_long_first_level_goes_on_without_a_script(page: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    place_paths([(f"Label {number}",) for number in range(5)])
    monkeypatch.setattr("webapp.taxonomy.queries.SHOWN", 3)
    first = body(page, "/taxonomy/")
    more = re.search(r'class="rest"[^>]*><a href="([^"]+)"', first)[1]  # type: ignore[index]
    rest = body(page, more)
    assert "<!doctype html>" in rest
    assert [one["aria-posinset"] for _, one in items(first)[:3]] == ["1", "2", "3"]
    assert [one["aria-posinset"] for _, one in items(rest)] == ["4", "5"]


@pytest.mark.slow
@pytest.mark.xdist_group("forest")
def test_the_home_page_counts_themes_exactly(page: Client, forest: dict[str, int]) -> None:
    assert "<b>12,000</b>themes" in body(page, "/")


def test_the_home_page_says_what_waits_runs_and_changed(page: Client, annotator: Any) -> None:
    failed = pages_seed.job(JobState.FAILED, "broken.json", created_by=annotator)
    theirs = pages_seed.job(JobState.FAILED, "theirs.json")
    result = {"environments": {"failed": [{}, {}]}, "tasks": {"failed": [{}]}}
    pages_seed.job(JobState.SUCCEEDED, "partly.json", created_by=annotator, result=result)
    pages_seed.job(JobState.SUCCEEDED, "whole.json", created_by=annotator, result={"failed": []})
    running = pages_seed.job(JobState.RUNNING, "now.json", done=2, total=8)
    html = body(page, "/")
    waits, _, rest = html.partition('id="runs"')
    assert failed.title in waits
    assert theirs.title not in waits
    assert "3 records left out" in waits
    assert "whole.json" not in html
    assert running.title in rest
    assert 'max="8" value="2"' in rest
    assert running.title in body(page, "/running")
    running.state = JobState.SUCCEEDED
    running.save()
    assert "hx-get" not in body(page, "/running")


def test_what_came_since_the_last_visit_is_marked(page: Client, annotator: Any) -> None:
    import_servers(entries(server(1)))
    assert "new</span>" not in body(page, "/")
    Visit.objects.filter(user=annotator).update(at=timezone.now() - timezone.timedelta(hours=2))
    Theme.objects.update(created_at=timezone.now() - timezone.timedelta(hours=3))
    import_servers(entries(server(2)))
    for _ in range(2):
        html = body(page, "/")
        assert html.count("new</span>") == 1, "the mark stays while the visit lasts"


def test_faulty_tasks_wait_for_those_who_may_review(page: Client) -> None:
    from tests.fixtures import replay_seed

    run = replay_seed.make(replay_seed.ordinary())
    Task.objects.filter(pk=run.task_id).update(audit_state="red")
    assert "red audit" in body(page, "/")
    Task.objects.filter(pk=run.task_id).update(audit_state="", do_nothing=0.9)
    assert "doing nothing gives 0.9" in body(page, "/")
    viewer = Client()
    viewer.force_login(pages_seed.person("viewer"))
    assert "doing nothing gives" not in body(viewer, "/")


def test_an_upload_becomes_a_job(page: Client) -> None:
    content = json.dumps(server(1)).encode()
    answer = page.post("/import/", {"what": "servers", "servers": SimpleUploadedFile("servers.jsonl", content)})
    job = Job.objects.get()
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/jobs/{job.pk}/")
    assert (job.kind, job.title) == ("import_mcp_servers", "Import servers.jsonl")
    assert page.post("/import/", {"what": "servers"}).status_code == 422


def test_themes_of_one_name_are_told_apart(page: Client) -> None:
    tools = [{"name": name, "description": "", "input_schema": {}} for name in ("hourly", "daily", "radar", "uv", "x")]
    import_servers(entries(server(1, name="Forecast"), server(2, name="Forecast", overview="By hour.", tools=tools)))
    for url in ("/taxonomy/themes/", f"/taxonomy/{Node.objects.get(path='weather').pk}/?tab=themes", "/taxonomy/?q=fo"):
        html = body(page, url)
        for words in ("mcp 1", "mcp 2", "hourly, daily, radar, uv", "5 in all", "By hour."):
            assert words in html, url
        assert "Weather \u203a API Integration" in html, url


def test_a_search_shows_the_label_of_that_name_first(page: Client) -> None:
    import_servers(entries(server(1), server(2, primary_label="API Integration", secondary_labels=["Weather"])))
    html = body(page, "/taxonomy/?q=weather")
    names = re.findall(r'class="name[^"]*"[^>]*>([^<]*)<', html)
    assert names[0] == "Weather"
