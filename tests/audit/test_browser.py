"""An audit in a real browser: started by a key, its verdict appears by itself; axe finds nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.checks import faults
from tests.browser.test_try_tool import PASSWORD, signed_in
from tests.fixtures.processes import celery_worker

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


def prepared() -> int:
    """A task whose verifier is too weak and a person; made away from Playwright's event loop."""
    from django.db import connection

    def make() -> int:
        from tests.audit.support import WEAK, make_task
        from tests.verifiers.shop import ANSWER, OTHERS
        from webapp.accounts.models import User

        try:
            User.objects.create_user("ann", password=PASSWORD, role="annotator")
            return make_task(WEAK, OTHERS, ANSWER).pk
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()


def test_a_key_starts_it_and_the_verdict_appears(live_site: str, chromium: Browser, tmp_path: Path) -> None:
    task = prepared()
    with celery_worker(tmp_path, "audits"):
        page = signed_in(chromium, live_site)
        errors: list[str] = []
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.goto(f"{live_site}/tasks/{task}/?tab=audit")
        assert page.locator("#audit").get_by_text("Not audited yet").is_visible()
        page.keyboard.press("u")
        page.get_by_text("The verifier does not hold").wait_for(timeout=30_000)
        assert not errors
    page.goto(f"{live_site}/tasks/?audit=red")
    page.get_by_role("link", name="red").click()
    page.wait_for_url("**?tab=audit")
    page.goto(f"{live_site}/tasks/{task}/audit/")
    assert faults(page, "audit") == []
