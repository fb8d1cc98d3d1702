"""Every page, wide and light, narrow and dark: axe finds nothing, nothing scrolls sideways, the console complains of
nothing. Tab gets through."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import NoReverseMatch
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.checks import LOOKS, faults_of_look, look_at
from tests.fixtures import pages_seed
from tests.fixtures.visitors import complaints_of
from tests.web.test_access import ROUTES, address, arguments  # noqa: F401  the fixture that gives routes their objects

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
NOT_PAGES = ("export", "healthz", "logout", "openapi", "stream", "calls.json", "changes")
SOME_OF_MANY = "document.querySelectorAll('.api-operation:nth-of-type(n+3)').forEach((one) => one.remove())"
"""Two operations of each group of the API's reference are as good as all: axe would look at them for 16 seconds."""
TABS = 40
STOPS = """() => {
  window.stops = [];
  addEventListener("keyup", (event) => {
    const one = document.activeElement;
    const box = one.getBoundingClientRect();
    const shown = box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight;
    window.stops.push([event.key, one === document.body, shown, one.outerHTML.slice(0, 160)]);
  }, true);
}"""
"""Where the focus is after each key, and whether it can be seen there. The page writes it down: to ask it each time
took longer than the keys."""
FROM_THE_TOP = """() => {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
  scrollTo(0, 0);
  window.stops.length = 0;
}"""
"""Whatever only loses the focus stays the place from which Tab goes on: what a walk found, the next would not pass."""
SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""A frame is drawn: what is fetched as the page opens, or as a part of it comes in sight, is being fetched."""
HALVES = 2
"""One test for all pages would leave the other of pytest-xdist's workers waiting for it."""


def pages(known: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Addresses of everything that may be a page, by route name."""
    found = {}
    for name, (_pattern, needs) in ROUTES.items():
        if not any(word in name for word in NOT_PAGES):
            try:
                found[name] = address(name, needs, known)
            except NoReverseMatch:
                continue
    return found


def keyboard_faults(page: Page, where: str) -> list[str]:
    """Tab moves through the page, always to something that can be seen; it is never held in one place.

    A part that arrives during the walk may push the focused element away, so a fault must show in four walks, the last
    of them when parts have had seconds to arrive.
    """
    faults: list[str] = []
    for pause in (0, 300, 1_000, 3_000):
        page.wait_for_timeout(pause)
        faults = tab_walk(page, where)
        if not faults:
            break
    return faults


def tab_walk(page: Page, where: str) -> list[str]:
    settled(page)
    page.evaluate(FROM_THE_TOP)
    for _ in range(TABS):
        page.keyboard.press("Tab")
    stops = page.evaluate("window.stops")
    if len(stops) != TABS:
        return [f"{where}: {TABS} times Tab is {len(stops)} keys"]
    seen: list[str] = []
    for _key, outside, shown, html in stops:
        if outside:
            break
        if not shown:
            return [f"{where}: focus on something unseen: {html}"]
        seen.append(html)
    if len(seen) > 5 and len(set(seen[-4:])) == 1:
        return [f"{where}: the focus stays at {seen[-1]}"]
    return [] if seen else [f"{where}: nothing takes the focus"]


def settled(page: Page) -> None:
    page.evaluate(SETTLED)
    page.wait_for_selector(".htmx-request", state="detached")


def is_page(context: BrowserContext, url: str) -> bool:
    """Not so: a redirect, a POST address, a part of a page, a file."""
    answer = context.request.get(url, max_redirects=0)
    is_html = answer.status == 200 and "text/html" in answer.headers.get("content-type", "")
    return is_html and "<!doctype" in answer.text()[:200].lower()


@pytest.mark.parametrize("half", range(HALVES))
def test_every_page_can_be_read_and_used(
    live_site: str,
    chromium: Browser,
    arguments: dict[str, dict[str, Any]],  # noqa: F811
    half: int,
) -> None:
    pages_seed.person("admin")
    context = chromium.new_context(base_url=live_site, reduced_motion="reduce")
    page = context.new_page()
    page.goto("/account/login/")
    page.fill("[name=username]", "the-admin")
    page.fill("[name=password]", pages_seed.PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector(".rail .brand")
    complaints = complaints_of(page)
    found, looked = [], 0
    for name, url in list(pages(arguments).items())[half::HALVES]:
        if not is_page(context, url):
            continue
        looked += 1
        look_at(page, *LOOKS[0])
        page.goto(url, wait_until="domcontentloaded")
        page.evaluate(SOME_OF_MANY)
        page.evaluate(STOPS)
        for width, theme in LOOKS:
            look_at(page, width, theme)
            settled(page)
            where = f"{name} ({url}) at {width} px, {theme}"
            found += faults_of_look(page, where)
            found += keyboard_faults(page, where)
        found += [f"{name} ({url}): the console says {words}" for words in complaints]
        complaints.clear()
    context.close()
    assert not found, "\n".join(found)
    assert looked > 40
