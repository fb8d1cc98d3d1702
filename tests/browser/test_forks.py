"""A fork in Chromium, by keys: from the replay to the choice, the playground and the verified attempt."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from django.db import connection
from playwright.sync_api import Browser, expect

from tests.browser.checks import faults
from tests.browser.test_environments import signed_in
from tests.fixtures import pages_seed
from tests.rollouts_web.support import make_task
from tests.trajectories.test_forks import WRONG, only
from webapp.scenarios.references import save_reference
from webapp.trajectories.models import Trajectory
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
T = TypeVar("T")


def apart(work: Callable[[], T]) -> T:
    """In a thread without Playwright's event loop."""

    def released() -> T:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(released).result()


def test_a_fork_by_keys(live_site: str, chromium: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)
    user, task = pages_seed.person("annotator"), make_task(reference=False)
    assert task.current is not None
    save_reference(task.current, WRONG, "test")
    parent = apart(lambda: only(start_rollout(user, task, Spec(policy="reference", attempts=1))))
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(f"/trajectories/{parent.pk}/?step=2")
    page.keyboard.press("j")
    page.wait_for_url("**step=3")
    expect(page.locator(".step-panel .which b")).to_have_text("Step 3")
    page.keyboard.press("f")
    page.wait_for_url("**/fork/?step=3")
    found = faults(page, "choice")
    page.keyboard.press("h")
    page.wait_for_url("**/playground/**")
    expect(page.locator("#fork-answer")).to_be_visible()
    expect(page.locator("[name='arg.box_id']")).to_have_value("B-2")
    found += faults(page, "playground")
    expect(page.locator(".checks-now summary")).to_contain_text("hold now")
    page.locator("#fork-answer").fill("Her box is open, and")
    page.locator("[name='arg.box_id']").fill("B-1")
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**at=**")
    expect(page.locator("#fork-answer")).to_have_value("Her box is open, and")  # it stays over a call
    expect(page.locator("#history-title")).to_contain_text("3")
    page.locator("#fork-answer").fill("Her box B-1 is open.")
    page.locator("h1").click()
    page.keyboard.press("v")
    page.wait_for_url("**/trajectories/*/?step=3")
    expect(page.locator(".family")).to_contain_text("Make it the reference")
    found += faults(page, "fork")
    page.goto(f"/trajectories/run/{task.pk}/?fork={parent.pk}&step=3")
    found += faults(page, "run from a fork")
    assert not found, "\n".join(found)
    assert not complaints
    context.close()
    assert apart(lambda: Trajectory.objects.get(source="fork").reward) == 1.0
