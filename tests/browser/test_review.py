"""Review by keyboard alone: ten tasks one after the other, a draft that outlives its lease, an undone decision."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.checks import arrived, faults, next_item
from tests.browser.test_environments import signed_in
from tests.edits.test_pages import carried_out
from tests.fixtures import pages_seed
from tests.fixtures.pages_seed import EVIL
from tests.fixtures.visitors import visit
from tests.review import seed
from tests.review.test_desk_evidence import attempt, mutant
from webapp.review.models import Assignment, Draft, ReviewDecision
from webapp.scenarios.models import Audit, Task

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def decided(page: Page, before: str) -> None:
    page.wait_for_function("(before) => location.pathname !== before", arg=before)
    page.wait_for_load_state()
    page.wait_for_selector("[data-rows], #item, .stats")


def test_ten_tasks_are_approved_by_keys_and_the_last_is_undone(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    maker = seed.named("olga", "operator")
    for number in range(10):
        seed.task(f"t{number}", title=f"Tidy desk {number} {EVIL}")
    queue = seed.queue(maker, "Ten desks", guideline=EVIL)
    context, page, complaints = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    page.goto("/review/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/review/{queue.pk}/")
    next_item(page, "[data-lease]")
    found = faults(page, "an item")
    for number in range(10):
        here = page.evaluate("location.pathname")
        page.wait_for_selector("[data-lease]")
        page.keyboard.press("a")
        if number == 3:
            page.keyboard.press("i")
            page.keyboard.type("Looked at twice.")
            page.wait_for_function("() => document.querySelector('[data-draft-said]')?.textContent === 'Draft kept'")
        page.keyboard.press("Control+Enter")
        decided(page, here)
    assert ReviewDecision.objects.filter(verdict="approve").count() == 10
    assert ReviewDecision.objects.filter(comment="Looked at twice.").count() == 1
    assert not Draft.objects.exists()
    assert "Nothing is left for you" in page.locator("#flash").inner_text()
    page.keyboard.press("Control+z")
    page.wait_for_url("**/review/items/*/")
    assert page.locator("input[value=approve]").is_checked(), "what was filled in is back"
    assert Task.objects.filter(review_state="approved").count() == 9
    assert page.evaluate("window.hit") is None
    assert not complaints
    context.close()
    assert not found, "\n".join(found)


def test_attempts_are_ticked_and_compared_by_keys_on_the_desk(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    maker = seed.named("olga", "operator")
    task = seed.task("t")
    probes = {"mutants": [mutant("call_removed", step, EVIL, noticed=(step % 2,)) for step in range(9)]}
    Audit.objects.filter(pk=task.audit_id).update(probes=probes)
    first, *others = [attempt(task, outcome) for outcome in ("solved", "failed", "failed")]
    queue = seed.queue(maker, "One desk")
    context, page, complaints = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    page.goto(f"/review/{queue.pk}/")
    next_item(page, "#attempts")
    page.locator(f"[data-pick][value='{others[0].pk}']").locator("..").locator("[data-row-link]").focus()
    page.keyboard.press("x")
    page.keyboard.press("m")
    expect(page.locator("#compare-title")).to_be_focused()
    expect(page.locator("#compare .signs tbody th")).to_have_count(3)
    assert str(first.pk) in page.locator("#compare .bar").inner_text()
    found = faults(page, "a desk with a comparison")
    assert not complaints
    context.close()
    assert not found, "\n".join(found)


def test_a_lease_that_ends_is_told_before_and_the_draft_survives(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    maker, other = seed.named("olga", "operator"), seed.named("bob", "annotator")
    seed.task("t")
    queue = seed.queue(maker, "One desk", lease_minutes=1)
    context, page, _ = signed_in(chromium, live_site, viewport={"width": 400, "height": 800})
    page.goto(f"/review/{queue.pk}/")
    next_item(page, "[data-lease]")
    page.wait_for_selector("#lease-warning:not([hidden])")
    page.keyboard.press("c")
    page.keyboard.press("1")
    page.keyboard.press("i")
    page.keyboard.type("Unclear who tidies.")
    page.wait_for_function("() => document.querySelector('[data-draft-said]')?.textContent === 'Draft kept'")
    from webapp.review.assignments import take_over_item

    held = Assignment.objects.select_related("item__queue").get()
    take_over_item(other, held.item)
    page.click("[data-keep-item]")
    page.wait_for_selector("#flash .note.bad")
    assert "bob has it now" in page.locator("#flash").inner_text()
    page.reload()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert Draft.objects.get().body["comment"] == "Unclear who tidies."
    page.click("text=Take it over")
    page.wait_for_selector("[data-lease]")
    assert page.locator("#decision-comment").input_value() == "Unclear who tidies."
    assert page.locator("input[value=request_changes]").is_checked()
    context.close()


def test_the_second_of_two_is_told_and_an_edit_dismisses_the_approval(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    seed.named("bob", "annotator")
    task = seed.task("t")
    queue = seed.queue(seed.named("olga", "operator"), "One desk")
    context, page, _ = signed_in(chromium, live_site, viewport={"width": 1440, "height": 900})
    other = visit(chromium, live_site, "bob")
    his = other.new_page()
    page.goto(f"/review/{queue.pk}/")
    next_item(page, "[data-lease]")
    his.goto(page.url)
    his.wait_for_selector("text=the-annotator has this open too")
    his.click("text=Take it over")
    arrived(his, "[data-lease]")
    his.keyboard.press("a")
    his.keyboard.press("Control+Enter")
    his.wait_for_selector("text=Nothing is left for you")
    page.keyboard.press("a")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("p.note.bad[role=alert], #flash .note.bad")
    assert ReviewDecision.objects.get(user__username="bob").verdict == "approve"
    assert ReviewDecision.objects.count() == 1
    his.goto(f"/tasks/{task.pk}/")
    his.keyboard.press("E")
    his.wait_for_selector("#edit-instruction")
    his.fill("#edit-instruction", "Tidy it at once.")
    his.get_by_role("button", name="Save as a new revision").click()
    his.wait_for_selector("text=Being saved")
    carried_out("save_edit")
    his.wait_for_selector(".note.good >> text=Saved")
    his.goto(f"/tasks/{task.pk}/")
    assert his.locator(".head, header").get_by_text("in review").count()
    task.refresh_from_db()
    assert task.review_state == "in_review"
    context.close()
    other.close()
