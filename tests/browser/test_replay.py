"""The replay in Chromium: by keyboard alone, with the Back button, without scripts, in both themes."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.checks import faults
from tests.fixtures import replay_seed as seed
from tests.fixtures.atif_files import PICTURES, TERMINAL
from tests.fixtures.visitors import complaints_of, visit
from webapp.accounts.models import User
from webapp.trajectories.foreign_runs import import_foreign_runs
from webapp.trajectories.models import Trajectory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def run(live_site: str) -> Trajectory:
    User.objects.create_user("ada", role="annotator")
    return seed.make(seed.ordinary())


def signed_in(chromium: Browser, site: str, **options) -> tuple[BrowserContext, Page, list[str]]:
    context = visit(chromium, site, "ada", **options)
    page = context.new_page()
    return context, page, complaints_of(page)


def at(page: Page, step: int) -> None:
    """The panels, the list and the URL agree on the step."""
    expect(page.locator(".step-panel .which b")).to_have_text(f"Step {step}")
    expect(page.locator("#steps [aria-current]")).to_have_attribute("data-step", str(step))
    expect(page.locator("#steps [aria-current]")).to_be_in_viewport()
    assert parse_qs(urlparse(page.url).query)["step"] == [str(step)]


def fold_by_keyboard(page: Page) -> None:
    """What came before the step is folded; its key and its summary open and fold it."""
    before = page.locator("[data-remember=before]")
    expect(before).not_to_have_attribute("open", "")
    page.keyboard.press("o")
    expect(before).to_have_attribute("open", "")
    before.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(before).not_to_have_attribute("open", "")


def test_every_key(live_site: str, chromium: Browser, run: Trajectory) -> None:
    granted = {"permissions": ["clipboard-read", "clipboard-write"]}
    context, page, complaints = signed_in(chromium, live_site, **granted)
    page.goto(f"/trajectories/{run.pk}/?step=0")
    moves = [("j", 1), ("j", 2), ("k", 1), ("]", 5), ("]", 6), ("[", 5), ("e", 7), ("d", 8), ("}", 9), ("}", 10)]
    moves += [("{", 9), ("G", 12), ("E", 7), ("g g", 0)]
    for keys, step in moves:
        for key in keys.split():
            page.keyboard.press(key)
        at(page, step)
    page.keyboard.press("]")
    at(page, 5)
    page.keyboard.press("]")
    at(page, 6)
    expect(page.locator("table.flips th.now")).to_have_attribute("data-col", "6")
    expect(page.locator("#holding")).to_have_text("at step 6: 3 of 6 hold")
    page.keyboard.press("y")
    expect(page.locator("#flash")).to_contain_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()").endswith(f"/trajectories/{run.pk}/?step=6")
    reasoning = page.locator("[data-remember=reasoning]")
    page.keyboard.press("r")
    expect(reasoning).not_to_have_attribute("open", "")
    fold_by_keyboard(page)
    page.keyboard.press("s")
    expect(page.locator(".state-panel h2")).to_contain_text("whole")
    page.locator("[data-branch='/rooms']").focus()
    expanded = page.locator("[data-branch='/rooms']").get_attribute("aria-expanded")
    page.keyboard.press("Enter")
    expect(page.locator("[data-branch='/rooms']")).not_to_have_attribute("aria-expanded", str(expanded))
    page.keyboard.press("s")
    expect(page.locator(".state-panel h2")).to_contain_text("1 change")
    page.reload()
    at(page, 6)
    expect(page.locator("[data-remember=reasoning]")).not_to_have_attribute("open", "")
    page.keyboard.press("/")
    page.keyboard.type("release_room")
    page.keyboard.press("Enter")
    expect(page.locator("#hits li")).to_have_count(2)
    at(page, 7)
    page.keyboard.press("n")
    at(page, 9)
    page.keyboard.press("N")
    at(page, 7)
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    expect(page.locator("#keys")).to_contain_text("Next flip of a check")
    for does, keys in (("First step", "g g"), ("Tasks", "g t")):
        line = page.locator("#keys dl > div", has=page.get_by_text(does, exact=True))
        expect(line.locator("dd")).to_have_text(keys)
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("jk]")
    at(page, 7)
    assert complaints == []
    context.close()


def test_back_returns_to_the_step_before(live_site: str, chromium: Browser, run: Trajectory) -> None:
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(f"/trajectories/{run.pk}/?step=1")
    page.click("#steps [data-step='5']")
    at(page, 5)
    page.click("table.flips tbody a[data-step='9']")
    at(page, 9)
    page.click(".changes .path a >> nth=-1")
    expect(page.locator(".chosen .mono").first).to_contain_text("/rooms/R1/occupied")
    page.go_back()
    at(page, 9)
    expect(page.locator(".chosen")).to_have_count(0)
    page.go_back()
    at(page, 5)
    page.go_back()
    at(page, 1)
    page.select_option("#only", "errors")
    expect(page.locator("#steps li:visible a")).to_have_count(2)
    assert "only=errors" in page.url
    at(page, 1)
    page.keyboard.press("j")
    at(page, 7)
    expect(page.locator("#steps li:visible a")).to_have_count(1)
    page.click("table.flips tbody th a >> nth=5")
    expect(page.locator("#check")).to_contain_text("def check")
    assert complaints == []
    context.close()


def test_the_keys_of_other_pages_work_in_the_replay(live_site: str, chromium: Browser, run: Trajectory) -> None:
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(f"/trajectories/{run.pk}/?step=5")
    page.keyboard.press("g")
    at(page, 5)
    page.keyboard.press("t")
    page.wait_for_url("**/tasks/")
    assert complaints == []
    context.close()


def wordy() -> Trajectory:
    """Steps of which some have long names and long texts, and some are short: what stands above and beside differs."""
    plan = seed.ordinary("wordy")
    name = "look_up_every_appointment_of_a_patient_at_all_sites_of_the_clinic"
    plan.acts[3].content = "Which day suits you? " * 80
    plan.acts[6].reasoning = "The old check-up has to go. " * 120
    plan.acts[8:8] = [seed.Act("query", name, arguments={"patient": "P-1"}, result=["A-101"], reasoning="Once more.")]
    plan.acts += [seed.Act("query", "get_room", arguments={"room": f"R{number}"}, result={}) for number in range(12)]
    return seed.make(plan)


@pytest.mark.parametrize("width", [1440, 400])
def test_next_and_before_stay_where_they_are_at_every_step(live_site: str, chromium: Browser, width: int) -> None:
    User.objects.create_user("ada", role="annotator")
    run = wordy()
    last = run.step_count - 1
    context, page, complaints = signed_in(chromium, live_site, viewport={"width": width, "height": 900})
    page.goto(f"/trajectories/{run.pk}/?step=0")
    buttons = {name: page.locator(".step-panel .bar .button", has_text=name) for name in ("Before", "Next")}
    buttons["Next"].scroll_into_view_if_needed()
    places = {name: button.bounding_box() for name, button in buttons.items()}
    assert all(places.values())
    for name, steps in (("Next", range(1, last + 1)), ("Before", range(last - 1, -1, -1))):
        box = places[name]
        for step in steps:
            page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            expect(page.locator(".step-panel .which b")).to_have_text(f"Step {step}")
            assert {known: button.bounding_box() for known, button in buttons.items()} == places, step
            assert seen_in_the_list(page), step
    page.keyboard.press("G")
    at(page, last)
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    page.keyboard.press("/")
    page.keyboard.type("A-101")
    page.keyboard.press("Enter")
    expect(page.locator("#hits li")).not_to_have_count(0)
    expect(page.locator("#steps [aria-current]")).to_have_count(1)
    page.wait_for_function("() => document.querySelector('#hits').offsetHeight > 0")
    assert seen_in_the_list(page), "the hits take a part of the list's place"
    assert complaints == []
    context.close()


def seen_in_the_list(page: Page) -> bool:
    """Whether the line of the current step is inside the list's own scroll region."""
    return page.evaluate(
        """() => {
            const line = document.querySelector("#steps [aria-current]").getBoundingClientRect();
            const box = document.querySelector("#steps").parentElement.getBoundingClientRect();
            return line.height > 0 && line.top >= box.top && line.bottom <= box.bottom + 1;
        }"""
    )


def test_pages_are_accessible_and_planted_text_stays_text(live_site: str, chromium: Browser, run: Trajectory) -> None:
    bad, big = seed.make(seed.hostile()), seed.make(seed.large(steps=120, records=60, checks=60))
    void, lost = seed.make(seed.empty()), seed.make(seed.failed())
    context, page, complaints = signed_in(chromium, live_site)
    paths = ["", f"{run.pk}/?step=6&path=/appointments/A-107/status", f"{run.pk}/?step=8", f"{big.pk}/?step=60"]
    paths += [f"{big.pk}/?step=60&view=state&matrix=all", f"{bad.pk}/?step=1&q=img", f"{bad.pk}/?step=2"]
    paths += [f"{bad.pk}/?step=3&view=state", f"{bad.pk}/?step=3&view=state&find=img", f"{bad.pk}/checks/0/"]
    paths += [f"{void.pk}/", f"{lost.pk}/?step=6", f"of-task/{run.task_id}/"]
    found = []
    for path in paths:
        page.goto(f"/trajectories/{path}")
        found += faults(page, path)
    page.goto(f"/trajectories/{bad.pk}/?step=0")
    for step in range(1, 5):
        page.keyboard.press("j")
        at(page, step)
    assert not page.evaluate("window.pwned")
    assert found == []
    assert complaints == []
    context.close()


def test_the_same_links_work_without_scripts(live_site: str, chromium: Browser, run: Trajectory) -> None:
    context, page, _ = signed_in(chromium, live_site, java_script_enabled=False)
    page.goto(f"/trajectories/{run.pk}/?step=5")
    page.click("a[rel=next]")
    assert page.locator(".step-panel .which b").inner_text() == "Step 6"
    assert page.locator(".changes .del").inner_text().strip().endswith('"booked"')
    page.click("table.flips tbody a[data-step='9']")
    assert page.locator(".step-panel .which b").inner_text() == "Step 9"
    page.click(".state-panel .bar a")
    page.click("[data-branch='/appointments']")
    assert "path=%2Fappointments" in page.url
    page.fill("#find-text", "Thursday")
    page.click("#finder button")
    expect(page.locator("#hits li").first).to_be_visible()
    page.click("#hits li a >> nth=0")
    page.click("table.flips tbody th a >> nth=0")
    source = page.locator("main pre.code").inner_text()
    assert "Ada got a notice" in source, "the check that fails comes first"
    context.close()


def test_a_trajectory_without_an_environment_is_read_step_by_step(live_site: str, chromium: Browser) -> None:
    User.objects.create_user("ada", role="annotator")
    import_foreign_runs(json.dumps([PICTURES, TERMINAL]).encode(), "runs.json", 1 << 20)
    row = Trajectory.objects.get(title__startswith="Count")
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(f"/trajectories/{row.pk}/?step=1")
    page.keyboard.press("j")
    at(page, 2)
    expect(page.locator(".step-panel")).to_contain_text("41 notes.txt")
    expect(page.locator(".state-panel")).to_contain_text("no environment")
    assert faults(page, "replay") == []
    page.goto("/trajectories/?replay=no_environment")
    expect(page.locator("tr[data-row]")).to_have_count(2)
    assert faults(page, "list") == []
    assert complaints == []
    context.close()
