"""The pages of accounts, environments, jobs and imports in Chromium: rules of access, keys, planted text."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.checks import faults
from tests.fixtures import pages_seed
from tests.fixtures.visitors import complaints_of, visit
from webapp.jobs.models import JobState

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def signed_in(
    chromium: Browser, site: str, role: str = "annotator", **options: Any
) -> tuple[BrowserContext, Page, list[str]]:
    """A page of a signed-in person, and what its console complained about."""
    context = visit(chromium, site, f"the-{role}", **options)
    page = context.new_page()
    complaints = complaints_of(page)
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    return context, page, complaints


def test_pages_are_accessible_and_keep_planted_text_as_text(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    empty = chromium.new_context(base_url=live_site)
    first = empty.new_page()
    first.goto("/account/login/")
    found = faults(first, "login")
    empty.close()
    context, page, complaints = signed_in(chromium, live_site)
    for url in ("/", "/environments/", "/jobs/", "/import/", "/account/"):
        page.goto(url)
        found += faults(page, f"empty {url}")
    evil, good = pages_seed.hostile_environment(), pages_seed.environment(category="Health")
    pages_seed.add_version(good, 2, source=pages_seed.PROGRAM + "\n# more\n")
    broken = pages_seed.job(
        JobState.FAILED,
        pages_seed.EVIL,
        error=pages_seed.EVIL,
        result={"failures": [{"place": "[1]", "reason": pages_seed.EVIL}]},
    )
    running = pages_seed.job(JobState.RUNNING, pages_seed.EVIL, done=3, total=9)
    tabs = [f"?tab={tab}" for tab in ("rules", "state", "tools", "findings", "versions")]
    urls = ["/", "/environments/", "/jobs/", f"/jobs/{broken.pk}/", f"/jobs/{running.pk}/"]
    for row in (evil, good):
        urls += [f"/environments/{row.pk}/{tab}" for tab in tabs] + [f"/environments/{row.pk}/diff/1/2/"]
    for url in urls:
        page.goto(url)
        for summary in page.locator("details:not([data-menu]) > summary:visible").all()[:4]:
            summary.click()
        found += faults(page, url)
    assert not found, "\n".join(found)
    assert not complaints
    context.close()


def test_the_list_by_keyboard(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    for name in ("Airport", "Bakery", "Clinic"):
        pages_seed.environment(name)
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/environments/?sort=name")
    for key in ("j", "j", "j", "k"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.textContent") == "Bakery"
    page.keyboard.press("/")
    page.keyboard.type("jk?cli")
    assert page.input_value("[name=q]") == "jk?cli", "keys are silent in a field"
    assert not page.locator("#keys").is_visible()
    page.fill("[name=q]", "cli")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=cli**")
    expect(page.locator("[data-row-link]")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/environments/*/")
    page.keyboard.press("3")
    page.wait_for_url("**tab=tools**")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs/")
    assert not complaints
    context.close()


def test_the_key_sheet_switches_single_letters_off(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    pages_seed.environment()
    context, page, _ = signed_in(chromium, live_site)
    page.goto("/environments/")
    page.keyboard.press("?")
    sheet = page.locator("#keys")
    assert "Next row" in sheet.inner_text()
    assert not faults(page, "key sheet")
    for key, why in (("u", "“Undo” on many pages"), ("g", "is the key of “"), ("y", "“Next row” is y now")):
        sheet.get_by_role("button", name="Next row: key j. Change it").click()
        page.keyboard.press(key)
        expect(sheet.locator("[data-keys-said]")).to_contain_text(why)
    sheet.locator("[data-keys-reset]").click()
    sheet.locator("[name=letters]").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.tagName") != "A"
    page.keyboard.press("?")
    sheet.locator("[name=letters]").check()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == "Front desk"
    context.close()


def test_a_job_is_followed_until_it_ends(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    row = pages_seed.job(JobState.RUNNING, "step one", done=1, total=4)
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(f"/jobs/{row.pk}/")
    row.note, row.done = "step three", 3
    row.save()
    page.wait_for_selector("text=step three", timeout=5_000)
    row.state, row.result = JobState.SUCCEEDED, {"created": 4}
    row.save()
    page.wait_for_selector(".tag.good:has-text('succeeded')", timeout=5_000)
    assert page.locator("#job[hx-get]").count() == 0
    assert not complaints
    context.close()


def test_pages_work_without_scripts(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    row = pages_seed.environment()
    context, page, _ = signed_in(chromium, live_site, java_script_enabled=False)
    page.goto("/environments/?q=front")
    page.click("[data-row-link]")
    page.click(".tabs a:has-text('Tools')")
    page.wait_for_selector("details.tool")
    assert page.locator("details.tool").count() == 2
    page.locator("details.me > summary").click()
    page.click(".segments button[value=dark]")
    page.wait_for_load_state()
    assert page.get_attribute("html", "data-theme") == "dark"
    assert f"/environments/{row.pk}/?tab=tools" in page.url.replace("&", "?")
    context.close()
