"""Verification scripts in a browser: chosen and typed in an edit, refused at the field; shown, large and hostile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.checks import arrived, faults
from tests.browser.edits.test_answer_forms import HOSTILE, made, page  # noqa: F401
from webapp.edits import services
from webapp.edits.models import Edit
from webapp.edits.saved_edit import save_edit

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from synthesis.runtime import Sandbox
    from tests.edits.seed import SeedLibrary

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
NAMES = [f"{HOSTILE} {number} " + "long" * 30 for number in range(50)]
SOURCE = f"""# {HOSTILE} {"long " * 60}
def verify(answer, expected, initial_state, final_state):
    left = final_state["lots"]["S-1"]["packets"]
    return {{name: left == 11 for name in NAMES}}


NAMES = {NAMES!r}
"""
CHOSEN = "() => !document.querySelector('.htmx-request, .htmx-settling, .htmx-swapping')"


def test_a_script_is_chosen_typed_and_shown(page: Page, made: SeedLibrary, sandbox: Sandbox) -> None:  # noqa: F811
    task = made.task("three")
    page.goto(f"/tasks/{task.pk}/")
    page.get_by_role("button", name="Edit").first.click()
    arrived(page, "#edit-verifier")
    page.get_by_label("Judged by").select_option("script")
    page.wait_for_selector("#edit-assertions")
    page.wait_for_function(CHOSEN)
    expect(page.locator("#edit-assertions")).to_have_value("done")
    assert not faults(page, "an edit with a script")
    page.locator("#edit-assertions").fill("done\ndone")
    page.get_by_role("button", name="Keep the draft").last.click()
    expect(page.locator("#edit-assertions-error")).to_have_text("Two assertions are named 'done'.")
    assert not faults(page, "an edit with a script that is refused")
    page.get_by_label("Judged by").select_option("checks")
    page.wait_for_selector("[name='check_label']:not([type='hidden'])")
    page.wait_for_function(CHOSEN)
    page.get_by_label("Judged by").select_option("script")
    page.wait_for_selector("#edit-assertions")
    expect(page.locator("#edit-assertions")).to_have_value("done\ndone")
    page.locator("#edit-assertions").fill("done")
    page.get_by_role("button", name="Keep the draft").last.click()
    page.get_by_text("The draft is kept.").wait_for()
    edit = Edit.objects.get()
    part = {"kind": "script", "source": SOURCE, "assertions": [name.strip() for name in NAMES]}
    services.keep_draft(edit.author, edit.pk, {"verifier": part}, edit.serial)
    page.goto(f"/edits/{edit.pk}/")
    arrived(page, "#edit-assertions")
    assert not faults(page, "an edit with a large script")
    save_edit(sandbox, edit.author, edit.pk, None)
    number = made.task("three").current.number  # type: ignore[union-attr]
    for address in (f"/tasks/{task.pk}/", f"/tasks/{task.pk}/diff/{number - 1}/{number}/", "/tasks/?verifier=script"):
        page.goto(address)
        page.wait_for_load_state()
        assert not faults(page, address)
