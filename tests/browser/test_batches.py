"""Batches in Chromium: started by keyboard alone in two steps, tried dry, cloned; accessible with planted text."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from synthesis.pipeline import ENVSCALER
from synthesis.scripted import list_bundled_themes
from tests.browser.checks import faults
from tests.browser.test_environments import signed_in
from tests.fixtures import pages_seed
from webapp.batches.models import Batch, BatchState
from webapp.batches.services import build_theme_spec, create_batch
from webapp.batches.spec import BatchSettings

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def tab_to(page: Page, wanted: str, most: int = 60) -> None:
    """Press Tab until the element has the focus, as somebody without a mouse does."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("(wanted) => document.activeElement.matches(wanted)", wanted):
            return
    raise AssertionError(f"Tab does not come to {wanted}.")


def a_batch(name: str, **how: Any) -> Batch:
    user = pages_seed.User.objects.get(username="the-annotator")
    specs = [build_theme_spec(one) for one in list_bundled_themes()[:2]]
    return create_batch(user, name, specs, BatchSettings(), ENVSCALER, **how)


def test_two_steps_start_a_batch_by_keyboard_alone(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/")
    tab_to(page, "a[href='/batches/new/']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/batches/new/")
    tab_to(page, "#start")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.rstrip("/").split("/")[-1].isdigit())
    assert page.locator("h1").is_visible()
    batch = Batch.objects.get()
    assert (batch.state, batch.scripted, batch.items.count()) == (BatchState.RUNNING, True, 6)
    page.goto("/batches/")
    page.keyboard.press("b")
    page.wait_for_url("**/batches/new/")
    page.keyboard.press("d")
    page.wait_for_selector("#dry-run .stats")
    page.fill("#id_scenarios", "1")
    page.focus("#id_scenarios")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(lambda url: url.rstrip("/").split("/")[-1].isdigit())
    assert Batch.objects.count() == 2
    context.close()
    assert not complaints


def test_enter_in_a_field_starts_nothing(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/batches/new/")
    page.fill("#id_name", "Half a name")
    page.keyboard.press("Enter")
    page.wait_for_selector("#dry-run .stats")
    assert page.input_value("#id_name") == "Half a name"
    assert not Batch.objects.exists()
    context.close()
    assert not complaints


def test_a_clone_says_what_differs_while_it_is_filled_in(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    origin = a_batch("First", start=False)
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(f"/batches/{origin.pk}/clone/")
    assert "No setting differs" in page.locator("#differences").inner_text()
    page.fill("#id_tasks", "5")
    page.wait_for_selector("#differences table")
    assert "Tasks" in page.locator("#differences tbody").inner_text()
    context.close()
    assert not complaints


def test_launch_pages_are_accessible(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/batches/")
    found = faults(page, "no batches")
    origin = a_batch(pages_seed.EVIL[:200])
    clone = create_batch(
        None,
        "x" * 200,
        [build_theme_spec(list_bundled_themes()[0])],
        BatchSettings(seed=3),
        ENVSCALER,
        cloned_from=origin,
    )
    for state in BatchState.values:
        Batch.objects.create(name=f"is {state}", state=state, spent=0.0004, cap=12.5, note=pages_seed.EVIL)
    pages_seed.hostile_environment()
    for url in ("/", "/batches/", "/batches/?state=capped", "/batches/new/", f"/batches/{clone.pk}/clone/"):
        page.goto(url)
        for summary in page.locator("details:not([data-menu]) > summary.bar:visible").all():
            summary.click()
        if page.locator("#dry-run").count():
            page.keyboard.press("d")
            page.wait_for_selector("#dry-run .stats")
            for summary in page.locator("#dry-run summary:visible").all():
                summary.click()
        found += faults(page, url)
    page.fill("#id_tasks", "0")
    assert not complaints
    with page.expect_navigation():
        page.keyboard.press("Control+Enter")
    page.wait_for_selector(".note.bad")
    found += faults(page, "refused")
    context.close()
    assert not found, "\n".join(found)
