"""Every page, wide and light, narrow and dark: axe finds nothing, nothing scrolls sideways. Tab gets through."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import NoReverseMatch
from playwright.sync_api import Browser, Page

from tests.browser.checks import LOOKS, faults_of_look
from tests.fixtures import pages_seed
from tests.web.test_access import ROUTES, address, arguments  # noqa: F401  the fixture that gives routes their objects

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
NOT_PAGES = ("export", "healthz", "logout", "openapi", "stream", "calls.json", "changes")
SOME_OF_MANY = "document.querySelectorAll('.api-operation:nth-of-type(n+3)').forEach((one) => one.remove())"
"""Two operations of each group of the API's reference are as good as all: axe would look at them for 16 seconds."""
TABS = 40
STOPS = """() => {
  const one = document.activeElement;
  const box = one.getBoundingClientRect();
  const shown = box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight;
  return [one === document.body, shown, one.outerHTML.slice(0, 160)];
}"""


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
    page.wait_for_selector(".htmx-request", state="detached")
    page.evaluate("document.activeElement && document.activeElement.blur()")
    page.evaluate("scrollTo(0, 0)")
    seen: list[str] = []
    for _ in range(TABS):
        page.keyboard.press("Tab")
        outside, shown, html = page.evaluate(STOPS)
        if outside:
            break
        if not shown:
            return [f"{where}: focus on something unseen: {html}"]
        seen.append(html)
    if len(seen) > 5 and len(set(seen[-4:])) == 1:
        return [f"{where}: the focus stays at {seen[-1]}"]
    return [] if seen else [f"{where}: nothing takes the focus"]


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_every_page_can_be_read_and_used(
    live_site: str,
    chromium: Browser,
    arguments: dict[str, dict[str, Any]],  # noqa: F811
    theme: Any,
    width: int,
) -> None:
    pages_seed.person("admin")
    context = chromium.new_context(
        base_url=live_site, viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto("/account/login/")
    page.fill("[name=username]", "the-admin")
    page.fill("[name=password]", pages_seed.PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector(".rail .brand")
    found, looked = [], 0
    for name, url in pages(arguments).items():
        answer = context.request.get(url, max_redirects=0)
        whole = "text/html" in answer.headers.get("content-type", "") and "<!doctype" in answer.text()[:200].lower()
        if answer.status != 200 or not whole:
            continue  # a redirect, a POST address, a part of a page
        page.goto(url, wait_until="domcontentloaded")
        page.evaluate(SOME_OF_MANY)
        page.wait_for_timeout(150)
        page.wait_for_selector(".htmx-request", state="detached")
        found += faults_of_look(page, f"{name} ({url})")
        found += keyboard_faults(page, f"{name} ({url})")
        looked += 1
    context.close()
    assert not found, "\n".join(found)
    assert looked > 25
