"""A job's overview, a comparison, a group and a task's course in a browser, by keyboard alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.checks import arrived, faults
from tests.browser.test_curves import apart, made, opened, signed_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
LINE = "document.querySelector('[data-chart=reward] .plot').data.at(-2)"
DRAWN = "() => [...document.querySelectorAll('[data-small] svg')].filter((one) => one.querySelector('path')).length"

WHOLE_LEGEND = """() => {
  const [box, legend] = ['.plot', '.legend'].map((name) => document.querySelector(`[data-chart=reward] ${name}`));
  const [within, shown] = [box.getBoundingClientRect(), legend.getBoundingClientRect()];
  return shown.height > 30 && shown.bottom <= within.bottom && shown.right <= within.right;
}"""
OUTSIDE = """() => [...document.querySelectorAll('[data-small]')].filter((one) => {
  const texts = [one.querySelector('b').textContent, ...one.querySelector('.extent').textContent.split(' to ')];
  const [last, least, most] = texts.map((text) => Number(text.replaceAll(',', '')));
  return !(least <= last && last <= most);
}).map((one) => one.innerText)"""


def test_the_overview_is_smoothed_and_put_over_tokens_by_keys(live_site: str, chromium: Browser) -> None:
    job = made(steps=60, environments=2, total_steps=4_975)
    page = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    opened(page, job)
    page.wait_for_function(f"() => ({DRAWN})() === 12")
    assert page.locator("[data-chart]").count() == 1
    layout = "document.querySelector('[data-chart=reward] .plot').layout"
    assert 60 < page.evaluate(f"{layout}.xaxis.range[1]") < 90, "the curve has most of the width"
    assert "4,915 steps to come" in page.evaluate(f"{layout}.annotations.map((one) => one.text)")
    assert page.evaluate(OUTSIDE) == [], "the last number lies within its own range"
    before = page.evaluate(f"{LINE}.y")
    page.keyboard.press("e")
    page.keyboard.press("Home")
    page.wait_for_function(f"(before) => JSON.stringify({LINE}.y) !== before", arg=str(before))
    assert page.evaluate(f"{LINE}.y") != before
    assert "smooth=0" in page.url
    page.keyboard.press("[")
    page.wait_for_function("() => document.querySelector('[data-small=turns] .at').textContent.startsWith('at 59')")
    assert page.evaluate("document.activeElement.id") == "smoothing", "the slider keeps its arrows, the page its keys"
    page.focus("#axis input[value=step]")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"() => {LINE}.x.at(-1) > 1000")
    assert "x=tokens" in page.url
    page.reload()
    page.wait_for_function(
        f"() => window.Plotly && document.querySelector('.js-plotly-plot') && {LINE}.x.at(-1) > 1000"
    )
    assert page.input_value("#smoothing") == "0"
    page.focus("[data-small=turns] a")
    page.keyboard.press("Enter")
    page.wait_for_selector("#chart-turns .js-plotly-plot .scatterlayer", state="attached")
    assert page.problems == []  # type: ignore[attr-defined]


def test_a_first_step_is_a_point_and_the_legend_is_whole_in_a_turned_window(live_site: str, chromium: Browser) -> None:
    job = made(steps=1, environments=0, total_steps=4_975)
    page = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    opened(page, job)
    traces = "document.querySelector('[data-chart=reward] .plot').data"
    (mode,) = page.evaluate(f"{traces}.filter((one) => one.name === 'attempts').map((one) => one.mode)")
    assert "markers" in mode
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function(
        "() => document.querySelector('[data-chart=reward] .main-svg').getBoundingClientRect().width < 400"
    )
    page.wait_for_function(WHOLE_LEGEND)
    assert page.problems == []  # type: ignore[attr-defined]


def test_an_alert_is_muted_by_keys(live_site: str, chromium: Browser) -> None:
    job = made(steps=30, environments=0)

    def alert() -> None:
        from webapp.runs.models import TrainingAlert

        TrainingAlert.objects.create(
            job=job, rule="sampling_gap", message="<b>Large.</b>", value=0.2, last_value=0.3, from_step=12
        )

    apart(alert)
    page = signed_in(chromium, live_site)
    opened(page, job)
    page.wait_for_selector("[data-small=sampling_gap].hot")
    assert faults(page, "a job with an alert") == []
    page.keyboard.press("m")
    arrived(page, "text=Unmute")
    page.keyboard.press("g")
    page.wait_for_url("**/steps/12/")


def test_jobs_are_compared_by_keys(live_site: str, chromium: Browser) -> None:
    config = {"type": "reinforcement", "horizon": {"kind": "constant", "turns": 8}}
    first = made(steps=40, environments=0, name="Short, seed 1", config=config | {"seed": 1})
    again = {"config": config | {"seed": 2}, "dataset": first.dataset}
    jobs = [first, made(steps=40, environments=0, name="Short, seed 2", **again)]
    made(steps=30, environments=0, name="Long")
    page = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    opened(page, jobs[0])
    page.keyboard.press("v")
    page.wait_for_selector("#compared .scatterlayer", state="attached")
    page.select_option("#add-job select", jobs[1].public_id)
    page.focus("#add-job button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#compared .scatterlayer", state="attached")
    names = "document.getElementById('compared').data.map((one) => one.name)"
    assert "95 % interval over seeds" in page.evaluate(names)
    page.focus("#add-job select")
    page.keyboard.type("Long")
    page.focus("#add-job button")
    page.keyboard.press("Enter")
    page.wait_for_selector("table.compared")
    page.wait_for_function("() => document.querySelectorAll('[data-small=turns] path').length === 2")
    assert page.locator("table.compared >> text=2 seeds").count() >= 1
    assert faults(page, "comparison") == []
    assert page.problems == []  # type: ignore[attr-defined]


def test_a_group_and_its_tasks_course_by_keys(live_site: str, chromium: Browser) -> None:
    job = made(steps=3, environments=0)

    def attempts() -> None:
        from tests.fixtures.runs_seed import real_rollouts
        from tests.rollouts_web.support import make_task

        tasks = [make_task(), make_task(key="open-ada-again")]
        for step in (2, 3):
            real_rollouts(job, step, [task.current for task in tasks if task.current], each=3)

    apart(attempts)
    page = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    page.goto(f"/training/{job.public_id}/steps/3/?by=task")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    arrived(page, "table.group")
    first = page.url
    page.keyboard.press("l")
    page.wait_for_function("(first) => location.href !== first", arg=first)
    arrived(page, "table.group")
    page.keyboard.press("h")
    page.wait_for_function("(first) => location.href === first", arg=first)
    arrived(page, "table.group")
    assert faults(page, "group") == []
    page.keyboard.press("v")
    page.wait_for_selector("#course .scatterlayer", state="attached")
    assert page.locator("tbody tr").count() == 2
    assert faults(page, "course") == []
    assert page.problems == []  # type: ignore[attr-defined]
