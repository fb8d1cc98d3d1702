"""Edits in a browser, by keys alone: a tool is mended, tried, worked out and saved; keys are given other letters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.checks import arrived, faults, next_item
from tests.browser.test_environments import signed_in
from tests.edits.seed import RIGHT, WRONG, SeedLibrary, approve, assessed, library
from tests.edits.test_pages import carried_out
from tests.review import seed
from webapp.edits.models import Edit
from webapp.environments.models import Environment, ToolCase, Version
from webapp.review.models import Assignment

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from synthesis.runtime import Sandbox

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture
def made(sandbox: Sandbox) -> SeedLibrary:
    person = seed.people("annotator")[0]
    found = library(sandbox)
    assessed(sandbox, found)
    Environment.objects.filter(pk=found.environment.pk).update(name=f"Seeds {HOSTILE}")
    shown = {"reason": f"Line 14 looks at six {HOSTILE}", "result": {"success": True, "said": HOSTILE}}
    ToolCase.objects.filter(verdict="fail").update(**shown)
    for name in ("three", "eight"):
        approve(person, found.task(name))
    return found


@pytest.fixture
def page(chromium: Browser, live_site: str, made: SeedLibrary) -> Iterator[Page]:
    context, opened, complaints = signed_in(chromium, live_site)
    yield opened
    assert not complaints
    context.close()


def test_a_tool_is_mended_by_keys_and_its_fix_carries_over_right_approvals(page: Page, made: SeedLibrary) -> None:
    queue = seed.queue(seed.people("adjudicator")[0], "Failing tools", "tool")
    page.goto(f"/review/{queue.pk}/")
    next_item(page, "form[data-decide]")
    assert not faults(page, "the desk of a failing tool")
    page.keyboard.press("e")
    page.wait_for_function("() => document.activeElement.matches('.ace_text-input')")
    assert "/review/items/" in page.url, "the source is edited where its cases are judged"
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.activeElement.matches('.ace_scroller')")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+Home")
    wrong_line = "ace.edit(document.querySelector('.ace-box')).session.documentToScreenRow(5, 0)"
    for _ in range(page.evaluate(wrong_line)):  # long lines are wrapped
        page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    page.keyboard.press("Shift+Home")
    page.keyboard.type(RIGHT.replace(":", ""))
    page.keyboard.press("Escape")
    page.locator("#edit-why").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("v")
    page.wait_for_selector("text=is not Python")
    saving = page.get_by_role("button", name="Save as version")
    page.keyboard.press("Control+s")
    page.wait_for_selector("#edit-kept >> text=It cannot be saved as it is")
    expect(saving).to_be_disabled()
    page.locator(".ace_scroller").focus()
    page.keyboard.press("Enter")
    page.keyboard.type(":")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.locator("#edit-why").focus()
    page.keyboard.type(HOSTILE)
    page.keyboard.press("Escape")
    page.keyboard.press("V")
    page.wait_for_selector("text=as expected now >> nth=1")
    assert "→ ✓ as expected now" in " ".join(page.locator("details.tool-case[open] .case-mark").inner_text().split())
    assert page.locator(".case-group .case-mark").is_visible(), "its group counts it, and the case is open as it was"
    page.wait_for_function("!document.querySelector('.htmx-request')")  # the case that runs is dimmed meanwhile
    assert not faults(page, "a draft in its place")
    page.keyboard.press("Control+s")
    page.wait_for_selector("#edit-kept:not([data-faulty]) .tag")
    assert page.locator("#changes .add").count(), "what the draft changes comes along"
    page.keyboard.press("w")
    page.wait_for_selector("text=Being computed")
    carried_out("forecast_edit")
    page.wait_for_selector("text=Approvals that carry over")
    assert page.locator("text=carries over").count() == 1
    assert page.locator("text=Its audit turns red.").count() == 1
    assert not faults(page, "edits")
    page.get_by_role("button", name="Save it").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Being saved")
    carried_out("save_edit")
    page.wait_for_selector(".note.good >> text=Saved")
    assert not faults(page, "edits")
    assert RIGHT in Version.objects.get(environment=made.environment, number=2).source
    assert (made.task("three").review_state, made.task("eight").review_state) == ("approved", "in_review")


def test_a_task_is_edited_on_its_desk_while_its_lease_is_kept_and_the_desk_shows_what_was_saved(
    page: Page, made: SeedLibrary
) -> None:
    queue = seed.queue(seed.people("adjudicator")[0], "Tasks", "task", lease_minutes=1)
    page.goto(f"/review/{queue.pk}/")
    next_item(page, "form[data-decide]")
    desk = page.evaluate("location.pathname")
    page.keyboard.press("e")
    page.wait_for_function("() => document.activeElement.id === 'edit-instruction'")
    assert page.evaluate("location.pathname") == desk
    assert page.locator("#checks .ace_editor").count() == page.locator("#checks [name=check_source]").count() == 2
    assert page.locator("#reference .ace_editor").count() == 1, "each part is edited where it stands"
    assert not faults(page, "a task's draft in its place")
    page.keyboard.press("Control+End")
    with page.expect_response("**/heartbeat/") as beat:
        page.keyboard.type(" Tell me how many are left.")
        page.wait_for_selector("#edit-kept .tag")
        page.wait_for_selector("#lease-warning:not([hidden])")
        page.click("[data-keep-item]")
    assert beat.value.ok, "the lease is kept while one edits"
    assert Edit.objects.get().body["instruction"].endswith("Tell me how many are left."), "kept without being asked"
    spent = "JSON.parse(localStorage['envarium.spent']).seconds"
    page.get_by_role("link", name="its own page").click()
    page.wait_for_selector("text=back to your decision")
    before = page.evaluate(spent)
    assert before >= 1, "it counts on from what the desk had counted"
    page.wait_for_function(f"before => {spent} >= before + 2", arg=before)
    assert not faults(page, "an edit's own page of who holds its task")
    page.get_by_role("link", name="back to your decision").click()
    page.wait_for_selector("form[data-decide]")
    page.keyboard.press("e")
    page.wait_for_selector("#edit-instruction")
    page.wait_for_function(f"before => {spent} >= before + 3", arg=before)
    assert Assignment.objects.get().seconds >= before + 1, "time on the edit's own page is time on the item"
    page.get_by_role("button", name="Add a check").click()
    page.wait_for_selector("#checks details:nth-of-type(3)")
    page.locator("#checks [name=check_out]").last.check()
    page.get_by_role("button", name="Save as a new revision").click()
    page.wait_for_selector("text=Being saved")
    assert page.evaluate("location.pathname") == desk
    carried_out("save_edit")
    page.wait_for_selector("text=Your edit is saved as revision 3")
    expect(page.locator("#task-asked", has_text="Tell me how many are left.")).to_be_visible()
    assert page.locator("[data-lease]").count(), "and is theirs to decide as before"
    assert not faults(page, "the desk after its edit")


def test_a_tool_is_saved_after_one_of_its_cases_was_run(page: Page, made: SeedLibrary) -> None:
    styles: list[str] = []
    page.on("console", lambda said: styles.append(said.text) if "inline style" in said.text else None)
    queue = seed.queue(seed.people("adjudicator")[0], "Failing tools", "tool")
    page.goto(f"/review/{queue.pk}/")
    next_item(page, "form[data-decide]")
    page.keyboard.press("e")
    page.wait_for_function("() => document.activeElement.matches('.ace_text-input')")
    mended = made.tool.source.replace(WRONG, RIGHT)
    page.evaluate("source => ace.edit(document.querySelector('.ace-box')).setValue(source, 1)", mended)
    page.get_by_role("button", name="Run case 1").click()
    page.wait_for_selector("#case-results >> text=as expected now")
    page.evaluate("document.querySelector('#case-results').setAttribute('data-old', '')")
    page.evaluate("document.querySelector('#case-results').style.color = ''")
    page.locator("#case-results summary").click()
    page.get_by_role("button", name="Run case 1").click()
    page.wait_for_selector("#case-results:not([data-old])")
    page.get_by_role("button", name="Save as version 2").click()
    page.wait_for_selector("text=Being saved")
    assert not styles


def test_what_two_tabs_type_is_not_lost(page: Page, made: SeedLibrary) -> None:
    page.goto(f"/tasks/{made.task('none').pk}/")
    page.keyboard.press("E")
    page.wait_for_selector("#edit-instruction")
    address = page.url
    other = page.context.new_page()
    other.goto(address)
    page.fill("#edit-instruction", "First.")
    page.keyboard.press("Control+s")
    page.wait_for_selector("text=The draft is kept")  # else the other tab may come first
    other.fill("#edit-instruction", "First.")
    other.keyboard.press("Control+s")
    other.wait_for_selector("text=The draft is kept")  # the same text in both tabs is no conflict
    page.fill("#edit-instruction", "First of all.")
    with page.expect_navigation():
        page.keyboard.press("Control+s")
    page.wait_for_selector("text=The draft is kept")
    other.fill("#edit-instruction", "Second.")
    other.keyboard.press("Control+s")
    arrived(other, "text=changed in another tab")
    assert other.input_value("#edit-instruction") == "Second."
    with other.expect_navigation():  # the page that is leaving says the same
        other.keyboard.press("Control+s")
    arrived(other, "text=changed in another tab")
    assert Edit.objects.get().body["instruction"] == "First of all.", "pressing it once more does not win either"
    expect(other.locator("[aria-label^='Mine, theirs']")).to_contain_text("First of all.")
    assert not faults(other, "edits")
    other.get_by_role("button", name="Replace the other tab's draft").click()
    other.wait_for_selector("text=The draft is kept")
    assert Edit.objects.get().body["instruction"] == "Second."
    other.locator("#edit-why").focus()
    other.keyboard.insert_text("w" * 2001)
    assert len(other.input_value("#edit-why")) == 2001, "nothing is cut"
    expect(other.locator("#edit-why + .length-said")).to_contain_text("2,001 of 2,000 characters")
    other.keyboard.press("Backspace")
    expect(other.locator("#edit-why + .length-said")).to_have_text("2,000 of 2,000 characters")


def test_a_key_is_given_another_letter_and_back(page: Page) -> None:
    page.goto("/review/")
    page.keyboard.press("?")
    page.get_by_role("button", name="Edits: key e").click()
    page.keyboard.press("y")
    page.wait_for_selector("text=“Edits” is y now.")
    assert not faults(page, "edits")
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    assert page.url.endswith("/review/")
    page.keyboard.press("y")
    page.wait_for_url("**/edits/")
    page.goto("/review/")
    assert page.locator("a", has_text="Edits").locator("kbd").inner_text() == "y"
    page.keyboard.press("?")
    page.get_by_role("button", name="Reset all keys").click()
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    page.wait_for_url("**/edits/")
