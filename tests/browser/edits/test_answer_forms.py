"""Answer forms in a browser: typed by keys alone in an edit, moved, refused at the field; shown, large and hostile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.checks import faults
from tests.browser.test_environments import signed_in
from tests.edits.seed import SeedLibrary, library
from tests.review import seed
from tests.trajectories_pages.test_submitted_answers import submit
from webapp.edits import services
from webapp.edits.models import Edit
from webapp.scenarios.models import Task, TaskRevision

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from synthesis.runtime import Sandbox

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
HOSTILE = '<img src=x onerror="window.hit=1">\u202e'


@pytest.fixture
def made(sandbox: Sandbox) -> SeedLibrary:
    seed.people("annotator")
    return library(sandbox)


@pytest.fixture
def page(chromium: Browser, live_site: str, made: SeedLibrary) -> Iterator[Page]:
    context, opened, complaints = signed_in(chromium, live_site)
    yield opened
    assert [one for one in complaints if "422" not in one] == [], "what is refused is told as such"
    context.close()


def huge_form() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Twenty fields with long texts, and a list of 200 records."""
    inner = [{"name": "place", "type": "name", "description": HOSTILE}, {"name": "at", "type": "time"}]
    stops = {"name": "stops", "type": "list", "items": {"name": "stop", "type": "record", "fields": inner}}
    form: list[dict[str, Any]] = [stops]
    kinds = ("number", "money", "date", "time", "duration", "enumeration", "boolean", "text")
    for number in range(19):
        kind = kinds[number % len(kinds)]
        more = {"choices": [f"{HOSTILE} {choice}" for choice in range(20)]} if kind == "enumeration" else {}
        form.append({"name": f"field_{number}", "type": kind, "description": f"{HOSTILE} " + "word " * 50, **more})
    return form, {"stops": [{"place": f"{HOSTILE} {number}", "at": "08:15"} for number in range(200)]}


def set_form(task: Task, form: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    assert task.current is not None
    record = TaskRevision.objects.get(pk=task.current_id).record
    TaskRevision.objects.filter(pk=task.current_id).update(
        record=record | {"answer_form": form, "expected_answer": expected}
    )


def press(page: Page, name: str) -> None:
    """A button of the form by the keyboard, and wait until the form is drawn anew."""
    page.get_by_role("button", name=name).focus()
    with page.expect_response("**/keep/"):
        page.keyboard.press("Enter")
    page.wait_for_function("() => !document.querySelector('.htmx-request, .htmx-settling, .htmx-swapping')")


def test_a_form_is_typed_by_keys_and_the_focus_moves_with_a_field(page: Page, made: SeedLibrary) -> None:
    page.goto(f"/tasks/{made.task('three').pk}/")
    page.get_by_role("button", name="Edit").first.click()
    page.wait_for_selector("#answer-form")
    assert not faults(page, "an edit without a form")
    press(page, "Add a field")
    expect(page.locator("[name='form-0-name']")).to_be_focused()
    page.keyboard.type("left")
    page.keyboard.press("Tab")
    with page.expect_response("**/keep/"):
        page.keyboard.type("nu")
    expect(page.locator("#form-0-type")).to_be_focused()
    expect(page.locator("#form-0-unit")).to_be_visible()
    expect(page.locator("#form-0-choices")).to_be_hidden()
    page.locator("#form-0-expected").fill("eleven")
    press(page, "Add a field")
    page.keyboard.type("names")
    page.locator("#form-1-type").select_option("list")
    page.wait_for_selector("text=Each item of the list")
    press(page, "Up names")
    expect(page.locator("#form-1-up")).to_be_focused()
    assert page.locator("#answer-form .form-row legend").all_inner_texts() == ["names", "Each item of the list", "left"]
    page.get_by_role("button", name="Keep").first.click()
    page.wait_for_selector("#form-0-error >> text=write a number")
    assert not faults(page, "an edit with a wrong form")
    page.locator("#form-0-expected").fill("11")
    page.get_by_role("button", name="Keep").first.click()
    page.wait_for_selector("text=1 check from the answer form")
    assert [field["name"] for field in Edit.objects.get().body["answer_form"]] == ["names", "left"]


def test_a_huge_and_hostile_form_stays_readable_everywhere(page: Page, made: SeedLibrary) -> None:
    form, expected = huge_form()
    first, second = made.runs("three")
    submit(first, left=11, who="Olga")
    submit(second, left=9)
    set_form(made.task("three"), form, expected)
    row = made.task("three")
    edit = services.start_task_edit(seed.people("adjudicator")[0], made.task("eight"))
    set_form(made.task("none"), [{"name": "left", "type": "number"}], {"left": 0})
    TaskRevision.objects.filter(pk=made.task("eight").current_id).update(superseded=f"Its checks read {HOSTILE}.")
    pages = {
        "a task with a huge form": f"/tasks/{row.pk}/",
        "an ordinary form": f"/tasks/{made.task('none').pk}/",
        "a superseded task": f"/tasks/{made.task('eight').pk}/",
        "another person's edit": f"/edits/{edit.pk}/",
        "a replay": f"/trajectories/{first.pk}/?step={first.step_count - 1}",
        "a comparison": f"/trajectories/compare/?ids={first.pk},{second.pk}",
    }
    for name, address in pages.items():
        page.goto(address)
        assert not faults(page, name)
    page.goto(f"/tasks/{row.pk}/")
    page.get_by_role("button", name="Edit").first.click()
    page.wait_for_selector("#answer-form")
    assert page.locator(".form-row").count() == 23
    assert not faults(page, "an edit of a huge form")
