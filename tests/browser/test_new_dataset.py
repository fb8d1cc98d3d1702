"""A new dataset in a real browser: drawn, kept apart, split by behaviour, frozen; what was found out about it."""

from __future__ import annotations

import os

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page

from tests.browser.checks import faults
from tests.browser.test_training_jobs import signed_in
from tests.datasets.dataset_support import carry_out, make_tasks
from tests.fixtures import pages_seed
from tests.rollouts_web.support import REFERENCE
from training.dataset import Split
from webapp.accounts.models import Role
from webapp.datasets import services
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.selection import parse_selection
from webapp.scenarios.models import ReviewState, Task, TaskRevision
from webapp.scenarios.references import save_reference

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=window.hit=1>\u202e"


def shots(page: Page, name: str) -> None:
    """Pictures of the page in each look, where somebody wants to see them."""
    if folder := os.environ.get("SHOTS"):
        for width in (1440, 400):
            for scheme in ("light", "dark"):
                page.set_viewport_size({"width": width, "height": 900})
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                page.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png", full_page=True)
        page.set_viewport_size({"width": 1440, "height": 900})


def test_a_dataset_by_behaviour_apart_from_another(
    live_site: str, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)
    pages_seed.person(Role.RESEARCHER)
    tasks = make_tasks(8, 3)
    for number, task in enumerate(tasks):
        words = f"Please open the box of Ada on the long shelf {HOSTILE} and say so, number {number % 12}."
        TaskRevision.objects.filter(pk=task.current_id).update(instruction=words)
        assert task.current is not None
        if number:
            save_reference(task.current, REFERENCE, "test")
    sft = carry_out(
        services.create_dataset(None, parse_selection({"environment_count": 2}), Split(test_share=0), "SFT")
    )
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(reverse("datasets:new"))
    assert "No task here is approved yet" in page.inner_text("#freeze")
    shots(page, "new-plain")
    approved = Task.objects.filter(pk__in=[task.pk for task in tasks[:20]])
    approved.update(review_state=ReviewState.APPROVED)
    TaskRevision.objects.filter(task__in=approved).update(review_state=ReviewState.APPROVED)
    page.goto(reverse("datasets:new"))
    page.wait_for_selector("text=Approved tasks only.")
    while (closed := page.locator("#chosen details:not([open]) > summary")).count():
        closed.first.press("Enter")
    page.fill("[name=environment_count]", "5")
    page.check(f"[name=apart_from][value={sft.public_id}]")
    page.check("[name=unit][value=behaviour]")
    page.fill("[name=test_share]", "0.4")
    page.fill("[name=licence]", "cc-by-4.0")
    page.wait_for_selector("#look >> text=environments drawn of")
    page.wait_for_selector("#look >> text=Apart from SFT: its 2 environments stay out.")
    found = faults(page, "a new dataset")
    shots(page, "new-filled")
    page.click("#freeze-now")
    page.wait_for_selector("text=Being frozen")
    row = carry_out(Dataset.objects.exclude(pk=sft.pk).get())
    assert row.state == DatasetState.READY, row.error
    page.wait_for_selector("main >> text=none of its 2 environments")  # by itself: the page follows the job
    assert "split by behaviour" in page.inner_text("main")
    found += faults(page, "its page")
    shots(page, "page")
    page.click("#near-duplicates")
    page.wait_for_selector("h1:has-text('Near-duplicates')")
    found += faults(page, "its near-duplicates")
    shots(page, "near")
    assert (found, complaints, page.evaluate("window.hit")) == ([], [], None)
    context.close()
