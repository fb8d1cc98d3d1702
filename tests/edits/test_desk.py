"""A task's draft on the desk where the task is decided: opened in its place, refused there, saved, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client

from tests.edits.test_pages import carried_out
from tests.review import seed
from webapp.edits.models import Edit
from webapp.review.models import Assignment

if TYPE_CHECKING:
    from tests.edits.seed import SeedLibrary

pytestmark = pytest.mark.django_db


def test_a_task_is_edited_in_place_and_its_desk_comes_back(browser: Client, made: SeedLibrary) -> None:
    queue = seed.queue(seed.people("adjudicator")[0], "Tasks")
    desk = browser.post(f"/review/{queue.pk}/next/")["Location"]
    held = Assignment.objects.get()
    task = held.item.task
    assert task is not None
    assert f'hx-post="/edits/task/{task.pk}/" hx-target="#task-asked"' in browser.get(desk).content.decode()
    there = {"HX-Request": "true", "HX-Target": "task-asked"}
    pane = browser.post(f"/edits/task/{task.pk}/", headers=there).content.decode()
    assert pane.count('hx-swap-oob="true"') == 2, "checks and reference follow in their own places"
    assert "<html" not in pane
    edit = Edit.objects.get()
    form = {
        "title": task.title, "instruction": "Lend them, and say how many are left.", "calls": "[{", "answer": "",
        "check_label": "Lent", "check_source": "def check_func(final_state):\n    return True\n",
        "serial": 0, "act": "save", "item": held.item_id,
    }  # fmt: skip
    here = {"HX-Request": "true", "HX-Target": "edit-kept"}
    refused = browser.post(f"/edits/{edit.pk}/keep/", form, headers=here).content.decode()
    assert "The reference&#x27;s calls" in refused
    assert "<html" not in refused
    hinted = f"/edits/own/?task={task.pk}"
    assert f'hx-get="{hinted}"' in browser.get(desk).content.decode()
    assert "unsaved edit" not in browser.get(hinted).content.decode(), "nothing is kept of it yet"
    more = browser.post(
        f"/edits/{edit.pk}/keep/", form | {"act": "add_check"}, headers=here | {"HX-Target": "checks"}
    ).content.decode()
    assert more.count('name="check_source"') == 2
    Edit.objects.update(serial=1)
    assert f'/edits/{edit.pk}/">edit {edit.pk}</a>' in browser.get(hinted).content.decode()
    other = Client()
    other.force_login(seed.people("annotator")[0])
    assert "unsaved edit" not in other.get(hinted).content.decode(), "another user's draft is theirs"
    Edit.objects.update(serial=0)
    saved = browser.post(f"/edits/{edit.pk}/keep/", form | {"calls": "[]"}, headers=here)
    assert saved["HX-Redirect"] == f"{desk}?saving={edit.pk}"
    asked = f"/edits/{edit.pk}/saving/?shown={task.current_id}"
    assert asked in browser.get(saved["HX-Redirect"]).content.decode()
    assert "every 2s" in browser.get(f"/edits/{edit.pk}/saving/").content.decode()
    carried_out("save_edit")
    assert browser.get(f"/edits/{edit.pk}/saving/?waited=1")["HX-Refresh"] == "true"
    assert browser.get(asked)["HX-Refresh"] == "true", "it was saved after the page was made and before it asked"
    task.refresh_from_db()
    asked = f"/edits/{edit.pk}/saving/?shown={task.current_id}"
    assert asked in browser.get(saved["HX-Redirect"]).content.decode()
    assert "saved as revision" in browser.get(asked).content.decode()
    assert "say how many are left." in browser.get(desk).content.decode()
    held.refresh_from_db()
    assert held.state == "held"
