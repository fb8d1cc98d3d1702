"""Marks on the cases of a failing tool's desk: what a run on the draft makes of each, and what it breaks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from tests.edits.seed import RIGHT, WRONG, assessed
from tests.review import seed
from webapp.edits.models import Edit
from webapp.edits.proposals import editable_source
from webapp.environments.models import Assessment, ToolCase
from webapp.review.models import QueueItem

if TYPE_CHECKING:
    from synthesis.runtime import Sandbox
    from tests.edits.seed import SeedLibrary

pytestmark = pytest.mark.django_db
HOSTILE = "<img src=x onerror=window.hit=1>"


def places(page: str) -> set[str]:
    return set(re.findall(r'id="(marks?-[\w-]+)"', page))


def words_at(page: str, place: str) -> str:
    """The text of one mark as a screen reader has it; empty where it is hidden."""
    pattern = rf'<(?:span|div)([^>]*id="{place}"[^>]*)>(.*?)(?=<span\s+class="case-mark|<div|\Z)'
    tag, inside = re.findall(pattern, page, re.S)[0]
    return "" if "hidden" in tag.split() else " ".join(re.sub(r"<[^>]*>", " ", inside).split())


def test_a_run_on_the_draft_marks_the_desks_cases_and_groups_and_tells_what_broke(
    browser: Client, sandbox: Sandbox, made: SeedLibrary
) -> None:
    assessed(sandbox, made)
    failed, lent, _ = ToolCase.objects.order_by("position")
    ToolCase.objects.filter(pk=lent.pk).update(arguments={"lot_id": HOSTILE, "packets": 3})
    queue = seed.queue(seed.people("adjudicator")[0], "Failing tools", "tool")
    desk = browser.get(f"/review/items/{QueueItem.objects.get(queue=queue).pk}/").content.decode()
    mark, group = f"mark-{failed.pk}", "marks-accepts"
    assert places(desk) == {mark, group, "marks-broken"}
    opening = {"HX-Request": "true", "HX-Target": "tool-source"}
    pane = browser.post(f"/edits/tool/{made.tool.pk}/", headers=opening).content.decode()
    shown = Assessment.objects.get().pk
    assert f'name="marks" value="{shown}"' in pane
    edit = Edit.objects.get()
    text, _ = editable_source(edit.version, edit.tool)

    def ran(**form: str | int) -> str:
        edit.refresh_from_db()
        sent = {"tool_source": text.replace(WRONG, RIGHT), "serial": edit.serial, "marks": shown} | form
        there = {"HX-Request": "true", "HX-Target": "case-results"}
        return browser.post(f"/edits/{edit.pk}/keep/", sent, headers=there).content.decode()

    page = ran(act="cases")
    assert places(page) == places(desk), "each mark has its place on the desk"
    assert words_at(page, mark) == "on your draft ✕ → ✓ as expected now"
    assert words_at(page, group) == "on your draft 1 as expected now"
    broken = page.split('id="marks-broken"')[1]
    assert "not as expected on your draft" in broken, "no lot has that name: it was lent before, it is refused now"
    assert "&lt;img src=x" in broken
    assert "<img src=x" not in page
    page = ran(act="failing", tool_source=text)
    assert words_at(page, mark) == "on your draft ✕ = as before"
    assert "not as expected on your draft" not in page.split('id="marks-broken"')[1]
    page = ran(act="case", case=lent.pk)
    assert (words_at(page, mark), words_at(page, group)) == ("", ""), "what was not run has no mark of an earlier run"
    assert f'value="{failed.pk}"' in page, "the others can be run next"
    assert not places(ran(act="cases", marks=shown + 1)), "the desk shows the cases of another assessment"
    assert words_at(ran(act="cases", tool_source="def lend_packets(:"), mark) == ""
