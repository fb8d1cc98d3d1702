"""A job's curves in a browser: live, zoomed on the server, walked by mouse and by keyboard, with hostile names."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import TimeoutError as Late
from playwright.sync_api import expect

from tests.browser.checks import faults_in_all_looks
from tests.fixtures.visitors import complaints_of, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from webapp.runs.models import TrainingJob

pytestmark = pytest.mark.browser
EVIL = "<img src=x onerror='window.hit=1'><b>bold</b>"
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


def made(**fields: Any) -> TrainingJob:
    from tests.fixtures.runs_seed import training_job

    return apart(lambda: training_job(**fields))


def signed_in(chromium: Browser, site: str, **options: Any) -> Page:
    from tests.rollouts_web.support import person

    person("researcher")
    page = visit(chromium, site, "ann", **options).new_page()
    page.problems = complaints_of(page)  # type: ignore[attr-defined]
    return page


def opened(page: Page, job: TrainingJob, query: str = "") -> None:
    page.goto(f"/training/{job.public_id}/{query}")
    page.locator('[data-chart="reward"]').scroll_into_view_if_needed()  # a chart is drawn once it is seen
    page.wait_for_selector('[data-chart="reward"] .js-plotly-plot .scatterlayer', state="attached", timeout=60_000)


def step_of(page: Page, chart: str = "reward") -> int:
    """The last step that a chart has drawn."""
    script = "(name) => Math.max(...document.querySelector(name).data.flatMap((one) => one.x))"
    return int(page.evaluate(script, f'[data-chart="{chart}"] .plot'))


def publish(job: TrainingJob) -> None:
    from webapp.common.events.services import publish_topics

    publish_topics([f"training:{job.pk}"])


def test_a_point_arrives_without_a_reload(live_site: str, chromium: Browser) -> None:
    from tests.fixtures.runs_seed import add_points

    job = made(steps=30, environments=2)
    page = signed_in(chromium, live_site)
    opened(page, job, "?show=parts")
    page.evaluate("window.same = true")
    assert step_of(page) == 30
    table = '[data-chart="reward"] details.twin'
    page.click(f"{table} > summary")
    page.wait_for_selector(f'{table} tr[data-step="30"]')

    def more() -> None:
        add_points(job, [31], ["environment-0", "environment-1"])
        publish(job)

    page.wait_for_function("() => document.documentElement.dataset.live")
    apart(more)
    page.wait_for_function("() => document.documentElement.dataset.curves === '31'", timeout=30_000)
    assert step_of(page) == 31
    assert page.evaluate("window.same")
    page.wait_for_function("() => document.querySelector('#job-live .said').textContent.includes('step 31')")
    page.wait_for_selector(f'{table} tbody tr:first-child[data-step="31"]')
    assert page.input_value("#step") == "31"
    page.focus(f"{table} > summary")

    def another() -> None:
        add_points(job, [32], ["environment-0", "environment-1", "environment-2"])
        publish(job)

    apart(another)
    page.wait_for_selector('[data-chart="by-environment"] .lasts >> text=environment-2')
    page.wait_for_selector(f'{table}[open] tr[data-step="32"]')
    assert page.evaluate("document.activeElement.id") == "twin-reward"
    assert page.evaluate("window.same")
    assert page.problems == []  # type: ignore[attr-defined]


def test_the_first_numbers_bring_the_curves(live_site: str, chromium: Browser) -> None:
    from tests.fixtures.runs_seed import add_points

    job = made(steps=0, environments=2)
    page = signed_in(chromium, live_site)
    page.goto(f"/training/{job.public_id}/")
    assert page.locator("text=No numbers yet").count() == 1
    page.wait_for_function("() => document.documentElement.dataset.live")

    def first() -> None:
        add_points(job, [1], ["environment-0"])
        publish(job)

    apart(first)
    page.wait_for_selector('[data-chart="reward"]', timeout=30_000)


def test_a_zoom_asks_the_server_for_finer_points_of_all_charts(live_site: str, chromium: Browser) -> None:
    job = made(steps=1_000, environments=0)
    page = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    opened(page, job, "?show=reward")
    count = "document.querySelector('[data-chart=reward] .plot').data.at(-2).x"
    before = page.evaluate(f"{count}.length")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "curves.json" in request.url else None)
    plot = page.locator('[data-chart="reward"] .nsewdrag').first
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.5, steps=5)
    page.mouse.up()
    page.wait_for_function("() => new URL(window.location.href).searchParams.has('from')")
    page.wait_for_function(f"() => {count}[0] > 300", timeout=30_000)
    steps = page.evaluate(count)
    assert [b - a for a, b in pairwise(steps)] == [1] * (len(steps) - 1)
    assert before < 300
    query = parse_qs(urlparse(asked[-1]).query)
    assert int(query["from"][0]) <= steps[0]
    assert page.input_value("#from") == query["from"][0]
    page.reload()
    page.wait_for_selector('[data-chart="reward"] .js-plotly-plot .scatterlayer', state="attached", timeout=60_000)
    assert page.evaluate("document.querySelector('[data-chart=reward] .plot').data.at(-2).x[0]") == steps[0]


def test_a_click_on_a_point_opens_its_step(live_site: str, chromium: Browser) -> None:
    job = made(steps=20, environments=0, total_steps=20)
    page = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    opened(page, job)
    box = page.locator('[data-chart="reward"] .nsewdrag').first.bounding_box()
    assert box is not None
    place = (box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    # A chart that is drawn anew between hover and click takes the click for none; a person clicks once more.
    for _ in range(3):
        page.mouse.move(*place)
        page.wait_for_selector(
            '[data-chart="reward"] .hoverlayer .legend, [data-chart="reward"] .hoverlayer .hovertext'
        )
        page.mouse.click(*place)
        with suppress(Late):
            page.wait_for_url(f"**/training/{job.public_id}/steps/*/", timeout=8_000)
            break
        page.mouse.move(place[0] + 9, place[1])
    assert 8 <= int(page.url.rstrip("/").rsplit("/", 1)[-1]) <= 12


def test_a_point_is_reached_by_keys_alone(live_site: str, chromium: Browser) -> None:
    job = made(steps=20, environments=0)
    page = signed_in(chromium, live_site)
    opened(page, job)
    page.keyboard.press("[")
    page.keyboard.press("[")
    page.wait_for_function("() => document.getElementById('at-step').textContent.startsWith('Step 18.')")
    assert "Reward" in page.inner_text("#at-step")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open] >> text=Step before")
    page.keyboard.press("Escape")
    page.keyboard.press("o")
    page.wait_for_url(f"**/training/{job.public_id}/steps/18/")


def test_markup_in_a_name_is_text_in_chart_table_and_chooser(live_site: str, chromium: Browser) -> None:
    job = made(steps=12, environments=[EVIL, "plain"])
    page = signed_in(chromium, live_site)
    opened(page, job, "?show=parts&show=reward")
    page.locator('[data-chart="by-environment"]').scroll_into_view_if_needed()
    page.wait_for_selector('[data-chart="by-environment"] .legendtext', timeout=30_000)
    page.locator('[data-chart="by-environment"] details.twin summary').click()
    page.wait_for_selector('[data-chart="by-environment"] details.twin table')
    assert page.evaluate("window.hit") is None
    assert page.locator("main img").count() == 0
    assert "<img" in page.locator('[data-chart="by-environment"] table').inner_text()


def test_a_lone_point_that_is_not_verified_is_a_ring(live_site: str, chromium: Browser) -> None:
    job = made(steps=1, environments=0)
    page = signed_in(chromium, live_site)
    opened(page, job)
    (line,) = page.evaluate(
        "[...document.querySelector('[data-chart=reward] .plot').data].filter((one) => one.name === 'attempts')"
    )
    assert [colour.endswith(", 0)") for colour in line["marker"]["color"]] == [True]


LINK = '<a href="https://elsewhere.example/">look</a>'
PLANTED = "outcome/{} environment/{}/reward node/{}/reward check/{}/success {} evaluation/environment/{}/success"


def test_a_key_of_a_worker_s_makes_no_link_in_any_drawing(live_site: str, chromium: Browser) -> None:
    """Plotly makes links and bold words of what it is given as a name."""
    job = made(steps=6, environments=["plain"])

    def plant() -> None:
        from webapp.runs.models import MetricKey, MetricPoint

        for form in PLANTED.split():
            key = MetricKey.objects.create(job=job, name=form.format(LINK), last_step=6, last_value=0.5)
            MetricPoint.objects.bulk_create(MetricPoint(key=key, attempt=1, step=n, value=0.5) for n in range(1, 7))

    apart(plant)
    page = signed_in(chromium, live_site)
    opened(page, job, "?show=all")
    charts = page.locator("[data-chart]")
    for place in range(charts.count()):
        charts.nth(place).scroll_into_view_if_needed()
        page.wait_for_function(
            "(at) => document.querySelectorAll('[data-chart]')[at].querySelector('.main-svg')", arg=place
        )
    drawn = page.locator("[data-chart='outcome'] .legendtext").all_text_contents()
    assert any("look" in text for text in drawn), drawn
    assert page.locator("svg a").count() == 0
    assert page.locator("a[href^='https://elsewhere']").count() == 0
    assert page.locator("svg [style*='font-weight:bold'], svg [style*='font-weight: bold']").count() == 0


def test_it_fits_and_has_no_violation(live_site: str, chromium: Browser) -> None:
    job = made(steps=200, environments=6)
    page = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    for query in ("", "?show=all", "?tab=events", "?tab=checkpoints", "?tab=settings"):
        if query:
            page.goto(f"/training/{job.public_id}/{query}")
        else:
            opened(page, job)
        assert faults_in_all_looks(page, query) == []
    assert page.problems == []  # type: ignore[attr-defined]


def test_without_a_script_the_page_shows_numbers_and_tables(live_site: str, chromium: Browser) -> None:
    job = made(steps=20, environments=2)
    page = signed_in(chromium, live_site, java_script_enabled=False)
    page.goto(f"/training/{job.public_id}/")
    assert page.locator('[data-chart="reward"] .lasts dd').count() == 2
    page.locator('[data-chart="reward"] details.twin summary').click()
    page.locator('[data-chart="reward"] details.twin a').click()
    expect(page.locator("table.data tbody tr")).to_have_count(20)
    page.goto(f"/training/{job.public_id}/")
    page.fill("#step", "7")
    page.click("#step-open")
    page.wait_for_url("**/steps/7/")
