"""The taxonomy in Chromium: the tree by keyboard, the treemap under the content security policy, planted labels."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command
from playwright.sync_api import Browser, Page

from tests.browser.checks import faults
from tests.browser.test_environments import signed_in
from tests.fixtures import pages_seed
from tests.taxonomy.samples import entries, environment, server
from webapp.jobs.models import JobState
from webapp.taxonomy import queries
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.labels import build_path
from webapp.taxonomy.models import Node, Theme
from webapp.taxonomy.services import place_paths

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
EVIL = pages_seed.EVIL
INSERT = """() => {
  const box = document.getElementById("treemap");
  for (let round = 0; round < 20; round += 1) {
    const probe = document.createElement("span");
    box.append(probe);
    window.getComputedStyle(probe).color;
    probe.remove();
  }
}"""


@pytest.fixture
def planted(transactional_db: None) -> None:
    """Four labels of the first level; Weather has two levels below it."""
    pages_seed.person("annotator")
    import_servers(
        entries(
            server(1),
            server(2, custom_label="Sea Level"),
            server(3, secondary_labels=["Gaming"], custom_label=None),
            server(4, primary_label="Gaming", secondary_labels=[], custom_label=None),
            server(5, primary_label="Web Search & Research", secondary_labels=[], custom_label=None),
            server(6, primary_label="Education", secondary_labels=["Gaming"], custom_label=None),
        )
    )
    environment("one", "Education")


def at(page: Page) -> str:
    """The name of the tree item that has the focus."""
    return page.evaluate("document.activeElement.querySelector(':scope > .node > .name')?.textContent || ''")


def press(page: Page, *keys: str) -> str:
    for key in keys:
        page.keyboard.press(key)
    return at(page)


def stops(page: Page) -> list[str]:
    return page.evaluate("[...document.querySelectorAll('#tree [tabindex=\"0\"]')].map((one) => one.id)")


@pytest.mark.usefixtures("planted")
def test_the_tree_by_keyboard(live_site: str, chromium: Browser) -> None:
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/taxonomy/")
    page.focus("#tree [tabindex='0']")
    assert at(page) == "Education"
    assert press(page, "ArrowDown") == "Gaming"
    assert press(page, "End") == "Web Search & Research"
    assert press(page, "Home") == "Education"
    assert press(page, "w", "e", "b") == "Web Search & Research", "letters together are one name"
    page.wait_for_timeout(800)
    assert press(page, "w") == "Weather", "the same letter goes on to the next"
    weather = page.locator(f"#n{Node.objects.get(path='weather').pk}")
    press(page, "ArrowRight")
    page.wait_for_selector("text=API Integration")
    assert weather.get_attribute("aria-expanded") == "true"
    assert at(page) == "Weather", "opening keeps the focus"
    assert f"open={weather.get_attribute('data-node')}" in page.url
    assert press(page, "ArrowRight") == "API Integration"
    group = page.locator("#tree ul[role=group] > [role=treeitem]")
    assert [one.get_attribute("aria-posinset") for one in group.all()] == ["1", "2"]
    assert {one.get_attribute("aria-level") for one in group.all()} == {"2"}
    press(page, "*")
    page.wait_for_selector("text=Sea Level")
    assert press(page, "ArrowDown") == "Sea Level"
    assert press(page, "ArrowLeft") == "API Integration"
    press(page, "ArrowLeft")
    assert not page.locator("text=Sea Level").is_visible()
    assert press(page, "ArrowLeft") == "Weather"
    assert len(stops(page)) == 1, "one stop for Tab"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#tree')") is None
    page.keyboard.press("Shift+Tab")
    assert at(page) == "Weather"
    page.keyboard.press("Enter")
    page.wait_for_url("**/taxonomy/*/")
    assert page.inner_text("h1") == "Weather"
    page.go_back()
    page.wait_for_selector("text=API Integration")
    assert at(page) == "Weather", "going back finds the place"
    page.goto(f"/taxonomy/?at={Node.objects.get(name='Sea Level').pk}")
    assert at(page) == "Sea Level", "a link to a label opens its ancestors and stands on it"
    assert not complaints
    context.close()


@pytest.mark.usefixtures("planted")
def test_a_space_inside_a_name_is_typed_too(live_site: str, chromium: Browser) -> None:
    place_paths([("Web Apps",)])
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/taxonomy/")
    page.keyboard.press("j")
    assert press(page, "w", "e", "b") == "Web Apps"
    assert press(page, " ", "s") == "Web Search & Research"
    assert not complaints
    context.close()


@pytest.mark.usefixtures("planted")
def test_long_names_fit(live_site: str, chromium: Browser) -> None:
    """The treemap's table shows its last column; at 400 px nothing is cut off where it cannot be scrolled to."""
    long = {"primary_label": "W" * 120, "secondary_labels": ["L" * 120], "custom_label": "M" * 120}
    import_servers(entries(server(9, **long, tools=[{"name": "t" * 200}])))
    context, page, _ = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    page.goto("/taxonomy/map/")
    assert (
        page.evaluate("(one => one.scrollWidth - one.clientWidth)(document.querySelector('table.tiles').parentElement)")
        <= 0
    )
    page.set_viewport_size({"width": 400, "height": 900})
    for url, parts in (("/", ".lines .push"), (f"/taxonomy/themes/{Theme.objects.get(key='9').pk}/", "summary b")):
        page.goto(url)
        right = page.evaluate(
            "(sel) => Math.max(...[...document.querySelectorAll(sel)].map((one) => one.getBoundingClientRect().right))",
            parts,
        )
        assert right <= 400 - 12, url
    context.close()


@pytest.mark.usefixtures("planted")
def test_more_labels_than_are_shown_at_once(live_site: str, chromium: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    place_paths([("Weather", f"Field {number:03d}") for number in range(queries.SHOWN + 30)])
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(f"/taxonomy/?open={Node.objects.get(path='weather').pk}")
    page.focus("#tree [tabindex='0']")
    for _ in range(3):
        press(page, "End")
    page.locator("#tree .rest a").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(f"text=Field {queries.SHOWN + 29:03d}")
    assert page.locator("#tree .rest").count() == 0
    assert at(page).startswith("Field ") or at(page) == "Gaming"
    assert not complaints
    context.close()


@pytest.mark.usefixtures("planted")
def test_the_tree_works_without_scripts(live_site: str, chromium: Browser) -> None:
    context, page, _ = signed_in(chromium, live_site, java_script_enabled=False)
    page.goto("/taxonomy/")
    page.click("[aria-label='Open Weather']")
    page.click("[aria-label='Open API Integration']")
    page.wait_for_selector("text=Sea Level")
    page.click("[aria-label='Close Weather']")
    page.wait_for_selector("text=Sea Level", state="detached")
    page.fill("[name=q]", "sea")
    page.click("main button:text-is('Search')")
    page.click(".name.hit")
    page.wait_for_selector("h1:text-is('Sea Level')")
    page.goto("/taxonomy/map/")
    assert page.locator("#treemap .wide .tile").first.is_visible(), "it is drawn on the server"
    page.click("th a:has-text('Tools')")
    page.wait_for_selector("[aria-sort]:has-text('Tools')")
    context.close()


@pytest.mark.usefixtures("planted")
def test_the_treemap_draws_under_the_policy_and_a_click_goes_to_the_label(live_site: str, chromium: Browser) -> None:
    import_servers(
        entries(
            server(7, primary_label=EVIL[:100], secondary_labels=["&lt;b&gt;<b>x</b>"], custom_label=None),
            server(8, primary_label="<a href='javascript:window.hit=1'>go</a>", secondary_labels=[], custom_label=None),
            server(9, primary_label="R&D & Q&A & T&C & P&L & S&P & M&A & H&S", secondary_labels=[], custom_label=None),
        )
    )
    context, page, complaints = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.goto("/taxonomy/map/?size=themes")
    page.wait_for_selector("#treemap .tile")
    drawn = page.locator("#treemap .wide .name").all_inner_texts()
    assert "Weather" in drawn
    assert "R&D & Q&A & T&C & P&L & S&P & M&A & H&S" in drawn, "names are whole, whatever room they have"
    assert page.locator(".legend li").count() == 4
    assert page.locator("#treemap a:not(.tile), #treemap img, #treemap b, #treemap [style]").count() == 0
    assert "\u202e" not in "".join(drawn)
    assert not page.evaluate("window.hit")
    assert not said, "no violation of the policy, and no warning"
    assert len(hosts) == 1
    page.focus("#treemap .wide [tabindex='0']")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    first = page.evaluate("document.activeElement.title")
    assert page.inner_text("#treemap-told") == first
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.title") != first
    assert page.locator("#treemap .wide [tabindex='0']").count() == 1
    page.locator("#treemap .wide .tile:has(.name:text-is('Weather'))").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/taxonomy/map/?node=*")
    assert page.inner_text("h1") == "Weather"
    assert not complaints
    context.close()


def test_the_treemap_of_many_themes_has_few_tiles_and_a_change_restyles_little(
    live_site: str, chromium: Browser
) -> None:
    """Inserting an element into a large page must not make Chromium compute every other element's style again."""
    pages_seed.person("annotator")
    paths = [build_path((f"Field {a}", f"Use {b} of field {a}")) for a in range(40) for b in range(12)]
    nodes = place_paths(paths)
    Theme.objects.bulk_create(
        Theme(
            node_id=nodes[paths[at % len(paths)]], source="mcp", key=f"{at}", name=f"Theme {at}", content_hash=f"{at}"
        )
        for at in range(2_000)
    )
    call_command("recount_taxonomy", verbosity=0, stdout=io.StringIO())
    context, page, complaints = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    page.goto("/taxonomy/map/?size=themes")
    page.wait_for_selector("#treemap .tile")
    elements = page.locator("*").count()
    assert elements > 4_000, "the table has a row for each label"
    assert page.locator("#treemap *").count() <= 2_000
    chromium.start_tracing(page=page, categories=["devtools.timeline"])
    page.evaluate(INSERT)
    events = json.loads(chromium.stop_tracing())["traceEvents"]
    restyled = sum(one["args"].get("elementCount", 0) for one in events if one["name"] == "UpdateLayoutTree")
    assert 0 < restyled < elements
    assert not complaints
    context.close()


def test_pages_are_accessible_in_both_themes(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    context, page, complaints = signed_in(chromium, live_site)
    found: list[str] = []
    for url in ("/taxonomy/", "/taxonomy/map/", "/taxonomy/themes/", "/taxonomy/?q=x"):
        page.goto(url)
        found += faults(page, f"empty {url}")
    import_servers(
        entries(
            server(1),
            server(2, name=EVIL, overview=EVIL, primary_label=EVIL[:100], secondary_labels=[], custom_label=EVIL[:40]),
            server(3, tools=[{"name": "t", "description": EVIL, "input_schema": [{"name": EVIL, "type": "x"}]}]),
        )
    )
    environment("one")
    pages_seed.job(JobState.RUNNING, EVIL, done=1, total=3)
    nodes = list(Node.objects.filter(level=1).values_list("pk", flat=True))
    opened = ",".join(map(str, Node.objects.values_list("pk", flat=True)))
    urls = ["/", "/import/", f"/taxonomy/?open={opened}", f"/taxonomy/?at={nodes[0]}", "/taxonomy/?q=a"]
    urls += ["/taxonomy/map/", "/taxonomy/themes/"]
    urls += [f"/taxonomy/{pk}/?tab={tab}" for pk in nodes for tab in ("themes", "environments", "labels")]
    urls += [f"/taxonomy/themes/{pk}/" for pk in Theme.objects.values_list("pk", flat=True)]
    for url in urls:
        page.goto(url)
        if "map" in url:
            page.wait_for_selector("#treemap .tile")
        if "environments" in url:
            page.wait_for_selector("[hx-get*=of-node]", state="detached")
        for summary in page.locator("details.tool > summary:visible").all()[:3]:
            summary.click()
        found += faults(page, url)
    assert not found, "\n".join(found)
    assert not complaints
    context.close()
