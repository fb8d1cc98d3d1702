"""A batch is started, followed, paused and seen to its end in a browser; a failure's reply is reached by keys."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.fixtures.llm import llm_server
from tests.fixtures.visitors import visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from webapp.batches.models import Batch

pytestmark = pytest.mark.browser
SAID = "#batch-live [role=status].said"
T = TypeVar("T")


@pytest.fixture(autouse=True)
def _short_pipeline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from tests.batches.support import use_table
    from webapp.jobs.registry import KINDS

    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)
    before = KINDS.get("run_batch")
    use_table()
    yield
    if before is not None:
        KINDS["run_batch"] = before


def apart(work: Callable[[], T]) -> T:
    """In a thread of its own, away from Playwright's event loop."""
    from django.db import connection

    def done() -> T:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(done).result()


def working(batch: Batch) -> threading.Thread:
    """A worker that does the batch's jobs until none waits."""
    from django.db import connection

    from tests.batches.support import work_off

    def done() -> None:
        try:
            work_off(batch)
        finally:
            connection.close()

    thread = threading.Thread(target=done)
    thread.start()
    return thread


def prepared(url: str) -> Batch:
    from tests.batches.support import make_batch, settings_at
    from tests.rollouts_web.support import person

    person("researcher")  # who is held to no limit
    names = ["malformed-1", "poor", *(f"theme-{number}" for number in range(6))]
    return make_batch(person("operator", "op"), settings_at(url, at_once=2), names, start=False)


def signed_in(chromium: Browser, site: str, **options: Any) -> Page:
    return visit(chromium, site, "ann", **options).new_page()


def press(page: Page, selector: str) -> None:
    """Reload until the action is there, stand on it, and press Enter."""
    page.wait_for_selector(selector)
    page.focus(selector)
    page.keyboard.press("Enter")


def state(page: Page, word: str) -> None:
    page.wait_for_function(
        "(word) => document.querySelector('#batch-live .tag')?.textContent.includes(word)", arg=word, timeout=60_000
    )


def ended(page: Page) -> int:
    return int(page.locator(SAID).inner_text().split()[0].replace(",", ""))


def test_a_batch_is_watched_live_and_a_failures_reply_is_reached_by_keys(live_site: str, chromium: Browser) -> None:
    from tests.batches.table import slow
    from tests.browser.checks import faults

    with llm_server(functools.partial(slow, 0.25)) as server:
        batch = apart(lambda: prepared(server.url))
        page = signed_in(chromium, live_site, viewport={"width": 1440, "height": 700})
        errors: list[str] = []
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.goto(f"/batches/{batch.pk}/")
        state(page, "draft")
        press(page, "#act-start")
        state(page, "running")
        worker = working(batch)
        page.wait_for_function("() => document.documentElement.dataset.live === 'stream'")
        page.evaluate("window.unbroken = true")
        page.focus("#level-theme")
        page.evaluate("window.scrollTo(0, 160)")
        before = ended(page)
        page.wait_for_function(
            "([said, before]) => parseInt(document.querySelector(said).textContent) > before + 1",
            arg=[SAID, before],
            timeout=60_000,
        )
        assert page.evaluate("document.activeElement.id") == "level-theme", "an update takes the focus from nobody"
        assert page.evaluate("window.scrollY") == 160
        assert page.evaluate("window.unbroken"), "nothing was loaded anew"
        press(page, "#act-pause")
        state(page, "paused")
        worker.join(60)
        assert not worker.is_alive()
        press(page, "#act-resume")
        state(page, "running")
        worker = working(batch)
        page.wait_for_function("() => document.documentElement.dataset.live === 'stream'")
        page.evaluate("window.unbroken = true")
        assert page.locator("#flash .note").inner_text() == "The batch goes on."
        state(page, "done")
        worker.join(60)
        assert page.evaluate("window.unbroken")
        # What goes on no more is not said to: the note goes once the last part has settled, a moment after it stands.
        page.wait_for_function("() => !document.querySelector('#flash .note')")
        assert "26 of 26 items ended" in page.locator(SAID).inner_text()
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.textContent") == "the reply"
        page.keyboard.press("Enter")
        page.wait_for_url("**/batches/calls/**")
        assert "This is no JSON." in page.locator("#reply").inner_text()
        assert not errors
        page.context.close()
        found = faults_of_every_page(chromium, live_site, batch, faults)
    assert not found, "\n".join(found)


def faults_of_every_page(
    chromium: Browser, site: str, batch: Batch, faults: Callable[[Page, str], list[str]]
) -> list[str]:
    """What axe and the width say of every page of a batch that has something of all kinds."""
    from webapp.batches.models import BatchItem, LLMCall

    def numbers() -> list[int]:
        made = BatchItem.objects.get(batch=batch, path="theme-1").pk
        lost = BatchItem.objects.get(batch=batch, path="malformed-1").pk
        poor = BatchItem.objects.get(batch=batch, path="poor").pk
        return [made, lost, poor, LLMCall.objects.filter(batch=batch).values_list("pk", flat=True)[0]]

    made, lost, poor, call = apart(numbers)
    urls = [f"/batches/{batch.pk}/?tab={tab}" for tab in ("overview", "items", "calls", "failures", "settings")]
    urls += [f"/batches/items/{pk}/" for pk in (made, lost, poor)]
    urls += [f"/batches/items/{made}/stages/assemble/", f"/batches/calls/{call}/"]
    found = []
    page = signed_in(chromium, site)
    for url in urls:
        page.goto(url)
        page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
        if "/items/" in url:  # what each stage gave is asked for as it is unfolded
            page.wait_for_load_state("networkidle")
        found += faults(page, url)
    page.context.close()
    return found


def test_a_batch_without_javascript(live_site: str, chromium: Browser) -> None:
    from tests.batches.support import work_off
    from tests.batches.table import answer

    with llm_server(answer) as server:
        batch = apart(lambda: prepared(server.url))
        page = signed_in(chromium, live_site, java_script_enabled=False)
        page.goto(f"/batches/{batch.pk}/")
        page.click("#act-start")
        assert "running" in page.locator("#batch-live .tag").first.inner_text()
        apart(lambda: work_off(batch))
        page.click("text=Refresh")
        assert "done" in page.locator("#batch-live .tag").first.inner_text()
        page.click("#level-theme")
        page.click("a:text-is('theme-1')")
        page.click("text=assemble")
        page.click("text=Open the result of “assemble”")
        assert "class Shelf" in page.locator("pre.code").first.inner_text()
        page.context.close()
