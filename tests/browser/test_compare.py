"""Attempts side by side in Chromium: chosen in the list by keys, read by keys, seen at both widths."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.checks import faults_in_all_looks
from tests.browser.test_environments import signed_in
from tests.fixtures import pages_seed
from tests.fixtures import replay_seed as seed
from tests.trajectories_pages.test_compare import another, ids, score

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_attempts_are_chosen_and_compared_by_keys_alone(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    first = seed.make(seed.ordinary())
    second = another(first, outcome="solved", answer="All is done.")
    second.steps.filter(index=5).update(arguments={"patient_id": "P-1", "slot": "fri-10"})
    score(first, True, True, True, True, False, False)
    score(second, True, True, True, True, True, True)
    type(first.task).objects.filter(pk=first.task_id).update(trajectory_count=2)
    context, page, complaints = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    page.goto("/trajectories/")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("#bulk [data-picks]")).to_be_disabled()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("#bulk-told")).to_contain_text("solved")
    page.keyboard.press("c")
    page.wait_for_url(f"**{ids(second, first)}")
    page.keyboard.press("f")
    expect(page.locator("#parting")).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/trajectories/{second.pk}/?step=6")
    page.keyboard.press("c")
    page.wait_for_url(f"**{ids(second)}")
    expect(page.locator("[data-pick]:checked")).to_have_count(2)
    assert not complaints
    context.close()


def test_the_comparison_can_be_read(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    first, evil = seed.make(seed.ordinary()), seed.make(seed.hostile())
    others = [another(first), another(first, live=True), another(first)]
    others[0].steps.filter(index=5).update(arguments={"patient_id": "P-1", "slot": "fri-10"})
    others[1].steps.filter(index__gte=9).delete()
    others[2].steps.filter(index=8).update(result="w" * 500)
    plot = another(evil, answer=seed.PAYLOAD * 20)
    plot.steps.filter(index=1).update(arguments={seed.PAYLOAD: "x" * 400})
    score(first, True, True, True, True, False, False)
    score(others[0], True, True, True, True, True, True)
    context, page, complaints = signed_in(chromium, live_site)
    found = []
    for url in (ids(first, others[0]), ids(first, *others), ids(evil, plot), ids(first), ids(first, evil)):
        page.goto(url)
        found += faults_in_all_looks(page, url)
    assert not found, "\n".join(found)
    assert not complaints
    assert page.evaluate("window.pwned") is None
    context.close()
