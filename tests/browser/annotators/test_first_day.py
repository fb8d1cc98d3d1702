"""A new annotator's first minutes, by keyboard alone: from the password to ten decisions in the bundled queue."""

from __future__ import annotations

import time

import pytest
from django.core.management import call_command
from playwright.sync_api import Browser, Page

from synthesis.runtime import Sandbox
from synthesis.starter import load_bundle
from tests.browser.checks import arrived, faults, look_at
from tests.fixtures.visitors import complaints_of
from tests.review.seed import audited
from webapp.accounts import people
from webapp.accounts.models import Role
from webapp.review.models import ReviewDecision
from webapp.scenarios.models import AuditState, Task
from webapp.scenarios.starter_set import load_starter

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
FIVE_MINUTES = 300
TASKS = 10
COUNT_POINTERS = """
  window.pointers = Number(sessionStorage.getItem("pointers") || 0);
  for (const kind of ["pointerdown", "mousedown", "touchstart"]) {
    window.addEventListener(kind, () => { sessionStorage.setItem("pointers", String(++window.pointers)); }, true);
  }
"""
IN_SIGHT = """(selector) => {
  const box = document.querySelector(selector).getBoundingClientRect();
  return box.height > 0 && box.top >= 0 && box.bottom <= window.innerHeight;
}"""
ON_TO_NEXT = "(before) => location.pathname !== before && /^.review.items.[0-9]+.$/.test(location.pathname)"
"""Whether another item is shown: a refused decision would stay on the address of this one."""


def load_two_bundled_environments(sandbox: Sandbox) -> None:
    environments, tasks, _ = load_bundle()
    keys = {one.key for one in environments[:2]}
    load_starter(sandbox, environments[:2], [one for one in tasks if one.environment_key in keys])
    for task in Task.objects.select_related("current"):
        assert task.current is not None
        audited(task, task.current, AuditState.GREEN)  # as `tests.starter.audited` finds all of them
    call_command("demo_queue", verbosity=0)


def sign_in_by_keys(page: Page, name: str, password: str) -> None:
    page.goto("/")
    page.wait_for_load_state()
    page.keyboard.type(name)
    page.keyboard.press("Tab")
    page.keyboard.type(password)
    page.keyboard.press("Enter")
    arrived(page, "#waits")


def test_a_new_annotator_approves_ten_tasks_by_keyboard_in_their_first_five_minutes(
    live_site: str, chromium: Browser, sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    load_two_bundled_environments(sandbox)
    user, password = people.create_user(None, "newcomer", Role.ANNOTATOR)
    context = chromium.new_context(base_url=live_site, viewport={"width": 1440, "height": 900})
    context.add_init_script(COUNT_POINTERS)
    page = context.new_page()
    complaints = complaints_of(page)
    began = time.monotonic()
    sign_in_by_keys(page, user.username, password)
    first = page.locator("main .primary").first
    assert first.inner_text().startswith("Begin with"), "the queue is what a new annotator's home leads with"
    assert page.locator("main .primary").count() == 1
    page.keyboard.press("n")
    arrived(page, "[data-lease]")
    assert page.evaluate(IN_SIGHT, ".guideline"), "the guideline is read beside the decision"
    assert page.evaluate(IN_SIGHT, "#decision .verdict")
    for number in range(TASKS):
        here = page.evaluate("location.pathname")
        page.wait_for_selector("[data-lease]")
        assert page.locator(".guideline").evaluate("guideline => guideline.open") == (number < 2)
        page.keyboard.press("a")
        if number == 1:
            page.keyboard.press("h")  # read once, it is folded, and stays so
        page.keyboard.press("Control+Enter")
        page.wait_for_function(ON_TO_NEXT, arg=here)
        page.wait_for_load_state()
    taken = time.monotonic() - began
    assert ReviewDecision.objects.filter(user=user, verdict="approve").count() == TASKS
    assert page.evaluate("window.pointers") == 0, "a step needed a mouse"
    assert not complaints
    assert taken < FIVE_MINUTES
    with capsys.disabled():
        print(f"\nA new annotator approved {TASKS} tasks by keyboard, {taken:.1f} s after they opened the site.")
    require_desk_at_hand(page)
    context.close()


def require_desk_at_hand(page: Page) -> None:
    """On the desk that is open: "Send to" moves nothing, and the way to the decision stays in sight on a telephone."""
    page.wait_for_selector("[data-lease]")
    height = "document.querySelector('.queue-bar').getBoundingClientRect().height"
    before = page.evaluate(height)
    page.keyboard.press("t")
    page.wait_for_selector("details.menu[open] select")
    assert page.evaluate(height) == before
    page.keyboard.press("Escape")
    assert not faults(page, "a desk")
    look_at(page, 400, "light")
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight / 3)")
    page.wait_for_function(IN_SIGHT, arg=".to-decision")
    page.locator(".to-decision").focus()
    page.keyboard.press("Enter")
    page.wait_for_function(IN_SIGHT, arg="#decision .verdict")
