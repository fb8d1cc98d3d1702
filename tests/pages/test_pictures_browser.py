"""The pictures of the statistics in Chromium: read in all looks, and walked to the rows behind a number by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser.checks import faults_in_all_looks
from tests.fixtures import pages_seed, picture_seed
from webapp.trajectories.models import Trajectory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
LAST_REGION = """() => [...document.querySelectorAll('[role=region][tabindex="0"]')].every((one) => {
  one.focus();
  return document.activeElement === one;
})"""


def test_pictures_are_read_in_all_looks_and_lead_to_their_rows(live_site: str, chromium: Browser) -> None:
    picture_seed.seed()
    Trajectory.objects.filter(policy="qwen").update(user_fault="fault", provenance={"user": "base (gpt)"})
    Trajectory.objects.filter(policy="llama").update(user_fault="unknown")
    pages_seed.person("annotator")
    context = chromium.new_context(base_url=live_site, reduced_motion="reduce")
    page = context.new_page()
    page.goto("/account/login/")
    page.fill("[name=username]", "the-annotator")
    page.fill("[name=password]", pages_seed.PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector(".rail .brand")
    found = []
    for part in ("attempts", "calls", "reviews"):
        page.goto(f"/ecosystem/{part}/")
        if part == "reviews":
            page.wait_for_selector(".plot .main-svg")
        found += faults_in_all_looks(page, part)
        assert page.evaluate(LAST_REGION), "a table takes the focus, so that the keyboard scrolls it"
    assert not found, "\n".join(found)
    page.goto("/ecosystem/attempts/")
    page.locator(".heat td a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/trajectories/**")
    assert page.locator("tbody tr").count() == 3
    context.close()
