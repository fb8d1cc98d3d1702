"""The assessment of an environment in Chromium: axe, planted text, the folded state, a re-run that follows itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.assessment.rows import saved
from tests.browser.checks import faults
from tests.browser.test_environments import signed_in
from tests.fixtures import pages_seed
from tests.fixtures.processes import celery_worker

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_pages_are_accessible_and_keep_planted_text_as_text(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    evil = saved(40, pages_seed.EVIL)
    none = pages_seed.environment("Bare desk")
    context, page, complaints = signed_in(chromium, live_site)
    found = []
    for url in (
        f"/environments/{evil.version.environment_id}/?tab=assessment",
        f"/environments/{none.pk}/?tab=assessment",
        f"/environments/cases/{evil.cases.get(position=1).pk}/",
    ):
        page.goto(url)
        for summary in page.locator("details.tool > summary").all()[:2]:
            summary.click()
        found += faults(page, url)
    assert not found, "\n".join(found)
    assert not complaints
    context.close()


def test_the_state_unfolds_and_a_re_run_shows_by_itself(
    live_site: str,
    chromium: Browser,
    tmp_path: Path,
) -> None:
    pages_seed.person("annotator")
    row = saved(8)
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(f"/environments/{row.version.environment_id}/?tab=assessment")
    page.locator("details.tool > summary").first.click()
    page.locator("details.tool details > summary").first.click()
    page.locator(f"#state-{row.cases.get(position=0).pk} pre").wait_for()
    with celery_worker(tmp_path, "assessments"):
        page.keyboard.press("u")
        page.get_by_text("8 differ").wait_for(timeout=30_000)
    page.goto(f"/environments/{row.version.environment_id}/?tab=assessment&rerun=differs")
    assert page.locator("details.tool").count() == 8
    assert not complaints
    context.close()
