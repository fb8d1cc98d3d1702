"""Lists and the palette in a real browser: filters that apply at once, selection by keyboard, Back, search, phones."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.checks import faults, violations
from tests.browser.test_environments import signed_in
from tests.fixtures import pages_seed, replay_seed
from tests.review import seed as review_seed
from webapp.review.models import ReviewDecision
from webapp.trajectories.text_search.text_rows import write_text

pytestmark = pytest.mark.browser
EVIL = "<img src=x onerror=window.hit=1>\u202e quixotic"


def seeded() -> None:
    pages_seed.person("annotator")
    for number in range(60):
        pages_seed.environment(f"Desk {number:02}", category="Health" if number % 2 else "School")
    pages_seed.environment(EVIL, category=EVIL)


def picked(page: Page) -> list[str]:
    return page.eval_on_selector_all("[data-pick]:checked", "boxes => boxes.map(box => box.value)")  # type: ignore[no-any-return]


def test_filters_apply_as_they_are_set_and_back_returns_to_the_row(live_site: str, chromium: Browser) -> None:
    seeded()
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/environments/?sort=name")
    expect(page.locator(".pager")).to_contain_text("1\u201350 of 61")
    found = faults(page, "list")
    page.locator("#chips summary", has_text="Category").click()
    page.locator("#chips select[name=category]").select_option("Health")
    page.wait_for_url(re.compile(r"category=Health"))
    expect(page.locator(".pager")).to_contain_text("1\u201330 of 30")
    expect(page.locator(".chip.set")).to_contain_text("Health")
    assert "q=&" not in page.url
    assert page.evaluate("document.activeElement.textContent.trim().startsWith('Category')")
    page.keyboard.press("/")
    page.keyboard.type("desk 3")
    page.wait_for_url(re.compile(r"q=desk"))
    expect(page.locator(".pager")).to_contain_text("1\u20135 of 5")
    assert page.input_value("[name=q]") == "desk 3"
    found += faults(page, "narrowed")
    page.locator("[data-row-link]", has_text="Desk 35").click()
    page.wait_for_url("**/environments/*/")
    page.go_back()
    expect(page.locator("[data-row-link]", has_text="Desk 35")).to_be_focused()
    page.locator(".chip.set .remove").first.click()
    page.wait_for_url(re.compile(r"^(?!.*category)"))
    assert not found, "\n".join(found)
    assert not complaints
    context.close()


def test_rows_are_selected_by_keyboard_and_views_and_columns_kept(live_site: str, chromium: Browser) -> None:
    seeded()
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/environments/?sort=name")
    bar = page.locator("[data-bulk]")
    expect(bar).to_be_hidden()
    for key in ("j", "j", "x", "j", "j", "Shift+X"):
        page.keyboard.press(key)
    assert len(picked(page)) == 3
    expect(bar).to_contain_text("3 selected")
    found = faults(page, "selected")
    page.get_by_role("button", name="Show only these").click()
    page.wait_for_url(re.compile(r"ids="))
    expect(page.locator(".pager")).to_contain_text("1\u20133 of 3")
    page.keyboard.press("s")
    page.fill(".views [name=name]", EVIL)
    page.keyboard.press("Enter")
    expect(page.locator(".views [aria-current]")).to_contain_text("quixotic")
    page.wait_for_load_state()
    page.keyboard.press("v")
    page.locator(".columns label", has_text="Scenarios").click()
    page.get_by_role("button", name="Show these").click()
    expect(page.locator("thead")).not_to_contain_text("Scenarios")
    found += faults(page, "view")
    assert not found, "\n".join(found)
    assert not complaints
    context.close()


def test_the_palette_finds_by_words_and_opens_by_keyboard(live_site: str, chromium: Browser) -> None:
    seeded()
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/jobs/")
    page.route("**/search/**", lambda route: None, times=1)  # what is asked as it opens never comes, and is given up
    page.keyboard.press("Control+k")
    page.keyboard.type("quixo")
    hits = page.locator("#palette [data-hit]")
    expect(hits).to_have_count(1)
    expect(hits.locator("mark").first).to_have_text("quixo")
    found = faults(page, "palette")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    page.goto("/jobs/?state=failed")
    page.keyboard.press("Control+k")
    page.keyboard.type("save this v")
    expect(hits.last).to_have_text(re.compile("Save this view"))
    page.keyboard.press("Enter")
    page.keyboard.type("Broken")
    page.keyboard.press("Enter")
    expect(page.locator("#views [aria-current=page]")).to_have_text("Broken")
    page.wait_for_load_state()  # shortcuts hold once the new page's scripts have run
    page.keyboard.press("Control+k")
    page.keyboard.type("desk 1")
    expect(hits.nth(1)).to_have_text(re.compile("desk 1", re.IGNORECASE))  # not those of a part of the words
    page.keyboard.press("ArrowDown")
    expect(page.locator("#palette [data-chosen]")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/environments/*/")
    page.goto("/search/?q=quixotic")
    found += faults(page, "search page")
    assert not found, "\n".join(found)
    assert not complaints
    context.close()


def test_trajectories_are_found_by_their_text_and_open_at_the_step(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    run = replay_seed.make(replay_seed.ordinary())
    run.steps.filter(index=4).update(content=f"Say {EVIL}, " + "and so on. " * 40)
    write_text(run)
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/trajectories/")
    page.keyboard.press("/")
    page.keyboard.type("quixo")
    expect(page.locator("tr.found mark")).to_have_text("quixotic")
    found = faults(page, "found")
    page.locator("#filter_q").press("Enter")
    expect(page.locator("[data-row-link]")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/trajectories/{run.pk}/?step=4")
    page.keyboard.press("Control+k")
    page.keyboard.type("quixotic")
    expect(page.locator("#palette .found mark")).to_have_text("quixotic")
    found += faults(page, "palette")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/trajectories/{run.pk}/?step=4")
    assert not found, "\n".join(found)
    assert not complaints
    context.close()


def test_on_a_phone_filters_are_a_sheet_and_the_rail_a_menu(live_site: str, chromium: Browser) -> None:
    seeded()
    context, page, complaints = signed_in(chromium, live_site)
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto("/environments/")
    expect(page.locator("#filters")).to_be_hidden()
    expect(page.locator("#main-nav")).to_be_hidden()
    page.get_by_role("button", name="Filters").click()
    expect(page.locator("#filters")).to_be_visible()
    page.locator("#chips summary", has_text="Category").click()
    page.locator("#chips select[name=category]").select_option("Health")
    page.wait_for_url(re.compile(r"category=Health"))
    page.keyboard.press("Escape")
    cells = page.locator("#list tbody td[data-label]")
    expect(cells.first).to_be_visible()
    assert max(cells.evaluate_all("cells => cells.map(cell => cell.getBoundingClientRect().right)")) <= 400
    found = violations(page)
    page.get_by_role("button", name="Menu").click()
    page.locator("#main-nav").get_by_role("link", name="Tasks").click()
    page.wait_for_url("**/tasks/")
    assert not complaints
    context.close()
    assert not found


def test_what_a_bulk_act_takes_back_is_whole_in_its_bar(live_site: str, chromium: Browser) -> None:
    person = pages_seed.person("annotator")
    for number, verdict in enumerate(("approve", "reject", "")):
        task = review_seed.task(f"desk {number}")
        if verdict:
            ReviewDecision.objects.create(user=person, task=task, revision=task.current, verdict=verdict, seen="x")
    review_seed.task("unsolved", audit="unproven")
    context, page, complaints = signed_in(chromium, live_site)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/tasks/")
    page.keyboard.press("A")
    told = page.locator("[data-bulk] [data-told]")
    expect(told).to_contain_text("takes back your own decision")
    assert told.evaluate("(told) => told.scrollWidth <= told.clientWidth"), told.inner_text()
    found = faults(page, "a bulk act")
    context.close()
    assert not [*found, *complaints]


def test_everything_of_a_filter_is_selected_by_keyboard_and_decided_on(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    for number in range(52):
        review_seed.task(f"desk {number:02}")
    review_seed.task("red", audit="red")
    title = "You are a temporary quality operations contractor preparing the feed of May"
    review_seed.task("imported", title=title)
    context, page, complaints = signed_in(chromium, live_site)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/tasks/?audit=green")
    name = page.get_by_role("link", name=title)
    assert name.evaluate("(link) => link.scrollHeight <= link.clientHeight + 1"), "the name is whole"
    assert page.locator("#list .table").evaluate("(table) => table.scrollWidth <= table.clientWidth")
    bar = page.locator("[data-bulk]")
    expect(bar).to_be_hidden()
    page.keyboard.press("A")
    expect(bar).to_be_visible()
    assert page.evaluate(
        "document.querySelector('[data-bulk]').getBoundingClientRect().top"
        " >= document.querySelector('#list .table').getBoundingClientRect().bottom"
    ), "the bar covers no row"
    expect(bar.locator("[data-count]")).to_have_text("50 selected")
    expect(bar.locator("[data-pick-whole]")).to_contain_text("Select all 53 of this filter")
    page.keyboard.press("A")
    expect(bar.locator("[data-count]")).to_have_text("All 53 selected")
    expect(bar.locator("[data-told]")).to_contain_text("Approve 53")
    rows = {
        round(box["y"] + box["height"] / 2) for part in bar.locator(":scope > *").all() if (box := part.bounding_box())
    }
    assert max(rows) - min(rows) <= 2, "the bar is one row"
    found = faults(page, "all of the filter")
    page.locator("[data-pick]").first.click()
    expect(bar.locator("[data-count]")).to_have_text("49 selected")
    page.keyboard.press("A")
    page.keyboard.press("A")
    bar.get_by_role("button", name="Decide").click()
    page.wait_for_url(re.compile(r"/review/tasks/\?"))
    assert "ids=" not in page.url
    assert "audit=green" in page.url
    expect(page.locator("h1")).to_have_text("Decide on 53 tasks")
    cell = page.locator(".in-the-way").first
    assert cell.evaluate(
        "cell => cell.getBoundingClientRect().right <= cell.closest('.table').getBoundingClientRect().right"
    )
    found += faults(page, "decide on all")
    page.locator("input[value=approve]").check()
    page.keyboard.press("Control+Enter")
    expect(page.locator(".messages, [role=status], [role=alert]").first).to_contain_text(
        "53 tasks decided: 53 approved"
    )
    assert not found, "\n".join(found)
    assert not complaints
    context.close()
