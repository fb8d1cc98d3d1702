"""Tokens, people and "the same by API" in Chromium: by keyboard alone, and without JavaScript."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.checks import LOOKS, faults
from tests.fixtures import pages_seed
from tests.fixtures.api import Program
from webapp.accounts.models import ApiToken, User
from webapp.accounts.services import write_audit_entry

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def admin_page(chromium: Browser, site: str, **options: object) -> Page:
    pages_seed.person("admin")
    page = chromium.new_context(base_url=site, **options).new_page()  # type: ignore[arg-type]
    page.goto("/account/login/")
    page.fill("[name=username]", "the-admin")
    page.fill("[name=password]", pages_seed.PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector(".rail .brand")
    return page


def test_a_token_is_made_used_and_revoked_by_keyboard(live_site: str, chromium: Browser) -> None:
    page = admin_page(chromium, live_site)
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto("/account/tokens/")
    page.keyboard.press("a")
    page.keyboard.type("night import")
    page.keyboard.press("Enter")
    page.wait_for_selector(".secret")
    token = page.inner_text(".secret")
    assert Program(token).get("/jobs").status_code == 200
    page.locator("tr", has_text="night import").locator("button").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=is revoked")
    assert ApiToken.objects.get().state == "revoked"
    page.context.close()


def test_without_javascript_everything_is_there(live_site: str, chromium: Browser) -> None:
    page = admin_page(chromium, live_site, java_script_enabled=False)
    page.goto("/account/users/")
    page.click("summary:has-text('New user')")
    page.fill("details [name=username]", "kim")
    page.click("text=Create the user")
    assert page.inner_text(".secret")
    kim = User.objects.get(username="kim")
    page.goto(f"/account/users/{kim.pk}/")
    page.check("[name=role][value=operator]")
    page.click("text=Change the role")
    page.click("button:has-text('Deactivate')")
    kim.refresh_from_db()
    assert (kim.role, kim.is_active) == ("operator", False)
    page.goto("/environments/?q=desk")
    page.click("summary:has-text('This list by API')")
    assert "/api/v1/environments?q=desk" in page.inner_text(".copy-as")
    page.goto("/api/")
    page.click(".api-index a[href='#cancel_job']")
    assert page.url.endswith("#cancel_job")
    page.context.close()


def test_the_pages_are_accessible_with_hostile_text(live_site: str, chromium: Browser) -> None:
    page = admin_page(chromium, live_site)
    admin = User.objects.get(username="the-admin")
    write_audit_entry(admin, pages_seed.EVIL[:64], what=pages_seed.EVIL, **{"many words " * 3: "x" * 500})
    found: list[str] = []
    page.goto("/account/tokens/")
    page.fill("[name=name]", pages_seed.EVIL[:90])
    page.click("text=Make the token")
    page.wait_for_selector(".secret")
    found += faults(page, "a token made")
    pk = admin.pk
    for path in ("tokens/all/", "users/", f"users/{pk}/", "audit/", "audit/?actor=nobody"):
        page.goto(f"/account/{path}")
        found += faults(page, path)
    page.goto("/account/audit/")
    for width, _ in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        box = page.locator("td.break").first.bounding_box()
        assert box
        assert box["width"] > 120, "details are not squeezed into a column of single letters"
    page.goto("/environments/")
    page.click("summary:has-text('This list by API')")
    found += faults(page, "the same by API")
    assert not found, "\n".join(found)
    page.context.close()
