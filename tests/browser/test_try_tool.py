"""Trying a tool in a real browser: by keyboard alone, without axe violations, with planted markup as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.checks import faults
from tests.fixtures.visitors import visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
PASSWORD = "a long password"


def prepared() -> tuple[int, int]:
    """A task with planted markup and a person; made in a thread of its own, away from Playwright's event loop."""
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    def make() -> tuple[int, int]:
        from tests.scenarios_pages.support import make_task
        from webapp.accounts.models import User

        try:
            User.objects.create_user("ann", password=PASSWORD, role="annotator")
            task = make_task()
            return task.pk, task.scenario.version_id
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()


def signed_in(chromium: Browser, site: str, **options: Any) -> Page:
    page = visit(chromium, site, "ann", **options).new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a planted script ran: {dialog.message}"))
    return page


def test_a_tool_is_tried_by_keyboard_alone(live_site: str, chromium: Browser):
    task, _ = prepared()
    page = signed_in(chromium, live_site)
    errors: list[str] = []
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.goto(f"{live_site}/tasks/{task}/")
    page.keyboard.press("t")
    page.wait_for_url("**/playground/*/")
    page.keyboard.press("/")
    page.keyboard.type("ad")
    page.keyboard.press("Enter")
    page.wait_for_url("**tool=*")
    if "tool=read" in page.url:  # both names hold the letters
        page.keyboard.press("/")
        page.keyboard.type("add")
        page.keyboard.press("Enter")
        page.wait_for_url("**tool=add*")
    page.wait_for_function("document.activeElement.name === 'arg.amount'")
    page.keyboard.type("3")
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**at=1*")
    assert page.locator("#result").inner_text().count('"count": 3') == 1
    assert "/count" in page.locator(".changes").inner_text()
    page.keyboard.press("Escape")
    page.locator("body").click(position={"x": 2, "y": 2})
    page.keyboard.press("u")
    page.wait_for_selector("text=taken back")
    assert errors == []


def test_pages_pass_axe_reflow_and_keep_payloads_as_text(live_site: str, chromium: Browser) -> None:
    task, version = prepared()
    page = signed_in(chromium, live_site)
    page.goto(f"{live_site}/tasks/{task}/")
    page.locator("summary", has_text="Initial state").click()
    page.wait_for_selector(".tree")
    found = faults(page, "task")
    page.click("text=Try tools on this scenario")
    page.wait_for_url("**/playground/*/")
    playground = page.url
    page.goto(f"{playground}?tool=fail")
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**at=1*")
    assert "<img src=x onerror=alert(2)>" in page.locator("#result").inner_text()
    page.goto(f"{playground}?tool=add&at=1")
    page.fill("[name='arg.amount']", "many")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("[aria-invalid=true]")
    found += faults(page, "playground")
    for name in ("tasks/", f"tasks/try/{version}/", "tasks/?q=nothing+like+it"):
        page.goto(f"{live_site}/{name}")
        found += faults(page, name)
    assert not found, "\n".join(found)
