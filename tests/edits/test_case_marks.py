"""Marks on the cases of a failing tool's desk: what a run on the draft makes of each, and what it breaks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from tests.edits.seed import RIGHT, WRONG, assessed
from tests.review import seed
from webapp.edits import services
from webapp.edits.case_runs import find_assessment
from webapp.edits.forecasts import compute_forecast
from webapp.edits.models import Edit
from webapp.edits.proposals import get_editable_source
from webapp.edits.saved_edit import save_edit
from webapp.environments.models import Assessment, Tool, ToolCase
from webapp.jobs.models import Job, JobState
from webapp.review.models import QueueItem

if TYPE_CHECKING:
    from synthesis.runtime import Sandbox
    from tests.edits.seed import SeedLibrary
    from webapp.accounts.models import User

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
    text, _ = get_editable_source(edit.version, edit.tool)

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


def test_a_tool_of_an_older_version_is_edited_as_the_newest_has_it_with_the_cases_that_were_judged(
    browser: Client, sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    assessed(sandbox, made)
    first = services.start_tool_edit(person, made.tool)
    text, _ = get_editable_source(first.version, first.tool)
    first = services.keep_draft(person, first.pk, {"tool_source": text.replace(WRONG, RIGHT)}, first.serial)
    shown = services.start_forecast(person, first.pk)
    assert services.start_forecast(person, first.pk, again=True).pk == shown.pk, "it is on its way"
    compute_forecast(sandbox, shown, None)
    Job.objects.update(state=JobState.SUCCEEDED)
    assert services.start_forecast(person, first.pk).pk == shown.pk, "it holds"
    assert services.start_forecast(person, first.pk, again=True).pk != shown.pk
    save_edit(sandbox, person, first.pk, None)
    edit = services.start_tool_edit(person, Tool.objects.get(pk=made.tool.pk))
    assert (edit.version.number, edit.tool) == (2, made.tool.name)
    found = find_assessment(edit.version)
    assert found is not None
    assert found.version.number == 1
    assert "the cases of version 1" in browser.get(f"/edits/{edit.pk}/").content.decode()
