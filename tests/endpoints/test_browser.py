"""The pages of endpoints in a real browser: long names of models stay inside their cards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.browser.test_try_tool import PASSWORD, signed_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
OUTSIDE = """() => [...document.querySelectorAll('.form select, .form textarea, .form input')].filter(one => {
    const card = one.closest('.card').getBoundingClientRect();
    return one.getBoundingClientRect().right > card.right;
}).length"""


def prepared() -> int:
    """An endpoint with a long name and a person; made away from Playwright's event loop."""
    from django.db import connection

    def make() -> int:
        from webapp.accounts.models import User
        from webapp.endpoints.services import EndpointChanges, save_endpoint

        try:
            User.objects.create_user("ann", password=PASSWORD, role="admin")
            return save_endpoint(None, EndpointChanges("local", "http://127.0.0.1:9/v1", models=("model-" * 33,))).pk
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()


def test_a_long_name_of_a_model_stays_inside_its_card(live_site: str, chromium: Browser) -> None:
    endpoint = prepared()
    page = signed_in(chromium, live_site)
    for width in (1440, 400):
        page.set_viewport_size({"width": width, "height": 900})
        for path in ("/endpoints/", f"/endpoints/{endpoint}/"):
            page.goto(live_site + path)
            assert page.evaluate(OUTSIDE) == 0, (path, width)
    page.context.close()


def test_a_price_is_said_and_forgotten_and_the_page_holds_it(live_site: str, chromium: Browser) -> None:
    from axe_playwright_python.sync_playwright import Axe

    endpoint = prepared()
    page = signed_in(chromium, live_site)
    page.goto(f"{live_site}/endpoints/{endpoint}/")
    for name, price in (("prompt", "2.5"), ("completion", "10"), ("cached", "0.25")):
        page.locator(f"input[name={name}]").fill(price)
    page.get_by_role("button", name="Save the price").click()
    prices = page.get_by_role("region", name="Prices")
    assert "0.25" in prices.inner_text()
    for width in (1440, 400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(OUTSIDE) == 0, width
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        assert not Axe().run(page).response["violations"]
    prices.get_by_role("button", name="Forget").click()
    assert "unknown" in page.get_by_role("region", name="Prices").inner_text()
    page.context.close()
