"""An agent is run and followed in a real browser: by keyboard, without a reload, without axe violations."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.browser.checks import faults
from tests.fixtures.llm import Request, Scripted, call, llm_server, say
from tests.fixtures.visitors import visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.browser
T = TypeVar("T")


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


class Gate:
    """A model that makes one more move whenever the test lets it."""

    def __init__(self) -> None:
        self.moves = 0

    def __call__(self, request: Request) -> Scripted:
        done = sum(message["role"] == "tool" for message in request["messages"])
        until = time.monotonic() + 60
        while self.moves <= done and time.monotonic() < until:
            time.sleep(0.02)
        if done < 3:
            return call("find_box", owner="Ada")
        return call("open_box", box_id="B-1") if done == 3 else say("It is open.")


def prepared(url: str, role: str = "annotator") -> int:
    from tests.rollouts_web.support import endpoint_at, make_task, person

    person(role)
    endpoint_at(url)
    return make_task().pk


def signed_in(chromium: Browser, site: str, **options: Any) -> Page:
    return visit(chromium, site, "ann", **options).new_page()


def steps(page: Page) -> int:
    return page.locator("#steps a").count()


def test_an_agent_is_run_followed_paused_and_seen_to_its_end(live_site: str, chromium: Browser, tmp_path: Path) -> None:
    from tests.fixtures.processes import celery_worker

    gate = Gate()
    with llm_server(gate) as server, celery_worker(tmp_path, "browser"):
        task = apart(lambda: prepared(server.url))
        page = signed_in(chromium, live_site)
        errors: list[str] = []
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.goto(f"{live_site}/tasks/{task}/?tab=attempts")
        page.wait_for_selector("#run-agent")
        page.fill("[name=attempts]", "1")
        page.keyboard.press("Escape")
        page.keyboard.press("x")
        page.wait_for_selector(".rollout a[data-row-link]")
        assert "1 running, 1 in all" in page.locator(".rollout [role=status]").inner_text()
        page.locator(".rollout a[data-row-link]").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#pause")
        page.wait_for_function("() => document.documentElement.dataset.live === 'stream'")
        page.evaluate("window.unbroken = true")
        gate.moves = 1
        page.wait_for_function("() => document.querySelectorAll('#steps a').length === 2")
        page.wait_for_url("**step=1*")
        page.keyboard.press("p")
        page.wait_for_function("() => document.getElementById('pause').getAttribute('aria-pressed') === 'true'")
        gate.moves = 3
        page.wait_for_function("() => document.querySelectorAll('#steps a').length === 4")
        assert "step=1" in page.url
        assert "2 new steps" in page.locator("#news").inner_text()
        assert "2 new" in page.locator("#pause").inner_text()
        held: list[Route] = []
        page.route("**/steps/3/*", lambda route: held.append(route))
        page.keyboard.press("p")
        page.wait_for_url("**step=3*")
        page.keyboard.press("k")
        page.wait_for_url("**step=2*")
        page.wait_for_function("() => document.getElementById('pause').getAttribute('aria-pressed') === 'true'")
        for slow in held:
            slow.continue_()
        page.unroute_all()
        gate.moves = 99
        page.wait_for_selector("header.head :text('solved')", timeout=20_000)
        page.wait_for_selector("#checks table")
        assert "step=2" in page.url
        assert "agent's LLM" in page.locator("#follow").inner_text()
        assert page.locator("#steps a[data-marks*=f]").count() == 1
        assert page.evaluate("window.unbroken")
        page.go_back()  # to the newest step, which a person's own step left
        page.wait_for_url("**step=3*")
        page.go_back()
        page.wait_for_selector("text=1 of 1 solved")
        assert errors == []


def test_two_tabs_share_one_stream_and_one_takes_over(live_site: str, chromium: Browser) -> None:
    from webapp.common.events.services import publish_topics

    task = apart(lambda: prepared("http://127.0.0.1:9/v1"))
    apart(lambda: _started(task))
    first = signed_in(chromium, live_site)
    streams: list[str] = []
    first.context.on("request", lambda request: streams.append(request.url) if "/events/" in request.url else None)
    first.goto(f"{live_site}/tasks/{task}/?tab=attempts")
    first.wait_for_function("() => document.documentElement.dataset.live === 'stream'")
    second = first.context.new_page()
    second.goto(f"{live_site}/tasks/{task}/?tab=attempts")
    second.wait_for_selector(".rollout")
    second.wait_for_timeout(500)
    assert len(streams) == 1
    job = apart(_newest_job)
    for page in (first, second):
        page.evaluate("document.querySelector('.rollout').dataset.old = '1'")
    apart(lambda: publish_topics([f"job:{job}"]))
    for page in (first, second):
        page.wait_for_function("() => !document.querySelector('.rollout').dataset.old")
    first.close()
    second.wait_for_function("() => document.documentElement.dataset.live === 'stream'")
    second.evaluate("document.querySelector('.rollout').dataset.old = '1'")
    second.wait_for_timeout(500)
    apart(lambda: publish_topics([f"job:{job}"]))
    second.wait_for_function("() => !document.querySelector('.rollout').dataset.old")


def test_without_a_stream_the_page_asks_by_itself(live_site: str, chromium: Browser) -> None:
    task = apart(lambda: prepared("http://127.0.0.1:9/v1"))
    apart(lambda: _started(task))
    page = signed_in(chromium, live_site)
    page.route("**/events/**", lambda route: route.abort())
    page.goto(f"{live_site}/tasks/{task}/?tab=attempts")
    page.wait_for_selector(".rollout")
    page.evaluate("document.querySelector('.rollout').dataset.old = '1'")
    page.wait_for_function("() => !document.querySelector('.rollout').dataset.old", timeout=10_000)


def test_a_stream_that_says_nothing_is_not_waited_for(live_site: str, chromium: Browser) -> None:
    """A proxy that holds it back: it is neither open nor refused."""
    task = apart(lambda: prepared("http://127.0.0.1:9/v1"))
    apart(lambda: _started(task))
    page = signed_in(chromium, live_site)
    page.route("**/events/**", lambda route: None)
    page.goto(f"{live_site}/tasks/{task}/?tab=attempts")
    page.wait_for_function("() => document.documentElement.dataset.live === 'poll'", timeout=20_000)


def test_what_changes_while_a_part_is_fetched_is_fetched_too(live_site: str, chromium: Browser) -> None:
    """The last change of a job came while the one before was fetched, and the page said “running” until a beat."""
    from webapp.common.events.services import publish_topics

    task = apart(lambda: prepared("http://127.0.0.1:9/v1"))
    apart(lambda: _started(task))
    job = apart(_newest_job)
    page = signed_in(chromium, live_site)
    page.goto(f"{live_site}/tasks/{task}/?tab=attempts")
    page.wait_for_function("() => document.documentElement.dataset.live === 'stream'")
    page.wait_for_timeout(1_000)
    page.evaluate(
        """() => {
            const ajax = window.htmx.ajax.bind(window.htmx);
            window.fetches = 0;
            window.htmx.ajax = async (...given) => {
                window.fetches += 1;
                if (window.fetches === 1) await new Promise((go) => { window.deliver = go; });
                await ajax(...given);
            };
        }"""
    )
    apart(lambda: publish_topics([f"job:{job}"]))
    page.wait_for_function("() => window.deliver")
    apart(lambda: publish_topics([f"job:{job}"]))
    page.wait_for_timeout(1_000)
    page.evaluate("() => window.deliver()")
    page.wait_for_function("() => window.fetches === 2", timeout=6_000)


def _started(task: int) -> None:
    from webapp.scenarios.models import Task
    from webapp.trajectories.rollouts.services import start_rollout
    from webapp.trajectories.rollouts.spec import Spec

    start_rollout(None, Task.objects.get(pk=task), Spec(policy="reference", attempts=2))


def _newest_job() -> int:
    from webapp.jobs.models import Job

    return Job.objects.latest("id").pk


def _played(task: int) -> tuple[int, int]:
    """A rollout that ended, and one of its trajectories."""
    from tests.rollouts_web.test_jobs import run
    from webapp.trajectories.models import Rollout, Trajectory

    _started(task)
    rollout = Rollout.objects.latest("id")
    run(rollout)
    return rollout.pk, Trajectory.objects.latest("id").pk


def test_pages_pass_axe_and_reflow(live_site: str, chromium: Browser) -> None:
    task = apart(lambda: prepared("http://127.0.0.1:9/v1"))
    rollout, trajectory = apart(lambda: _played(task))
    page = signed_in(chromium, live_site)
    found = []
    for name in (f"tasks/{task}/", f"trajectories/rollouts/{rollout}/", f"trajectories/{trajectory}/"):
        page.goto(f"{live_site}/{name}")
        page.wait_for_load_state("networkidle")
        for summary in page.locator(".run-form summary, .copy-as summary").all():
            summary.click()
        found += faults(page, name)
    apart(lambda: _started(task))
    page.goto(f"{live_site}/trajectories/run/{task}/")
    page.wait_for_selector(".rollout")
    found += faults(page, "running")
    apart(lambda: _relive(trajectory))
    page.goto(f"{live_site}/trajectories/{trajectory}/")
    page.wait_for_selector("#pause")
    found += faults(page, "followed")
    assert not found, "\n".join(found)


def _relive(trajectory: int) -> None:
    from webapp.jobs.models import Job, JobState
    from webapp.trajectories.models import Trajectory

    Trajectory.objects.filter(pk=trajectory).update(live=True, outcome="", matrix=None, final_hash="")
    Job.objects.update(state=JobState.RUNNING)


def test_calls_of_a_user_with_tools_are_told_from_the_agents(live_site: str, chromium: Browser) -> None:
    from tests.rollouts_web.support import make_task, person
    from tests.rollouts_web.test_user_tools import conversing, only, talking

    with llm_server(conversing) as server:
        row = apart(lambda: only(talking(make_task(), server, person("annotator"))))
    page = signed_in(chromium, live_site)
    page.goto(f"{live_site}/trajectories/{row.pk}/?step=5")
    page.wait_for_selector(".which >> text=by the user")
    assert not faults(page, "a call of the user")
    page.select_option("#only", "user calls")
    page.wait_for_function("() => document.querySelectorAll('#steps li:not([hidden])').length === 2")
    page.keyboard.press("k")
    page.wait_for_url("**step=4*")
    assert "Said with the call, not delivered" in page.locator("#panels").inner_text()
