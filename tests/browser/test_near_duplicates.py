"""Near-duplicate themes in Chromium: accessible at both widths and themes, decided and undone by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser.checks import faults
from tests.browser.test_environments import signed_in
from tests.fixtures import pages_seed
from tests.taxonomy.near import folds, plant, theme
from webapp.jobs.models import Job, JobState
from webapp.taxonomy.models import Theme, ThemeSource, ThemeTool
from webapp.taxonomy.near_duplicates import services
from webapp.taxonomy.near_duplicates.group_job import regroup_themes
from webapp.taxonomy.theme_services import Judgement, note_judged_text

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
GROUPED = {"1": "2", "3": "2", "4": "5"}


@pytest.fixture
def grouped(transactional_db: None) -> None:
    """Two groups, one of them decided on by a person; a task set with one text kept and one not."""
    person = pages_seed.person("annotator")
    plant()
    regroup_themes(0.85)
    made = services.choose_theme(theme(4).pk, person)
    services.undo_decision(made.pk, person)
    note_judged_text(
        "asked.jsonl", Judgement("a", "Write me a poem.", "not_stateful", "No records.", {"stateful": False})
    )
    note_judged_text("asked.jsonl", Judgement("b", "Cancel the order of Mrs Ito."))


@pytest.mark.usefixtures("grouped")
def test_pages_are_accessible(live_site: str, chromium: Browser) -> None:
    context, page, complaints = signed_in(chromium, live_site)
    Job.objects.filter(pk=pages_seed.job(JobState.RUNNING).pk).update(kind="group_themes", total=6, done=2)
    source = ThemeSource.objects.get(name="asked.jsonl").pk
    urls = {
        "duplicates": "/taxonomy/themes/duplicates/",
        "sources": "/taxonomy/themes/sources/",
        "source": f"/taxonomy/themes/sources/{source}/",
        "new": "/taxonomy/themes/new/",
        "list": "/taxonomy/themes/?folded=1",
        "folded": f"/taxonomy/themes/{theme(1).pk}/",
        "kept": f"/taxonomy/themes/{theme(2).pk}/",
        "neighbours": f"/taxonomy/themes/{theme(6).pk}/neighbours/",
        "place": f"/taxonomy/themes/{theme(6).pk}/place/?q=a",
    }
    found = []
    for name, url in urls.items():
        page.goto(url)
        page.wait_for_load_state("networkidle") if name != "duplicates" else page.wait_for_timeout(300)
        found += faults(page, name)
    context.close()
    assert not [*found, *complaints]


@pytest.mark.usefixtures("grouped")
def test_names_of_tools_leave_room_for_descriptions(live_site: str, chromium: Browser) -> None:
    for row in Theme.objects.all():
        row.tools.all().delete()
        for position in range(6):
            ThemeTool.objects.create(theme=row, position=position, name=f"list_everything_of_kind_{position}")
    Theme.objects.update(description="Staff lend books to members, and take them back. " * 5, tool_count=6)
    context, page, complaints = signed_in(chromium, live_site)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/taxonomy/themes/duplicates/")
    widths = page.locator(".group .table").first.evaluate("table => [table.scrollWidth, table.clientWidth]")
    assert widths[0] <= widths[1], "the last columns are in sight"
    context.close()
    assert not complaints


@pytest.mark.usefixtures("grouped")
def test_decisions_by_keyboard(live_site: str, chromium: Browser) -> None:
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/taxonomy/themes/")
    page.keyboard.press("5")
    page.wait_for_url("**/taxonomy/themes/duplicates/")
    page.keyboard.press("t")
    assert page.evaluate("document.activeElement.name") == "threshold"
    page.locator(f"#group-{theme(2).pk} summary").focus()
    page.keyboard.press("Tab")
    wanted = f"form[action='/taxonomy/themes/{theme(3).pk}/keep-apart/'] button"
    for _ in range(12):
        if page.evaluate(f'document.activeElement === document.querySelector("{wanted}")'):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=It can be undone under Near-duplicates")
    assert folds() == {"1": "2", "4": "5"}
    page.locator("#decisions button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Undid: Kept")
    assert folds() == GROUPED
    context.close()
    assert not complaints


@pytest.mark.usefixtures("grouped")
def test_a_theme_is_kept_apart_and_folded_by_keyboard(live_site: str, chromium: Browser) -> None:
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/taxonomy/themes/duplicates/?q=town")
    page.focus(".group tbody tr:first-child [data-row-link]")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('tr').querySelector('[data-act]') !== null")
    page.keyboard.press("a")
    page.wait_for_selector("text=apart from")
    assert len(folds()) == len(GROUPED) - 1
    assert page.url.endswith(f"?q=town#group-{theme(2).pk}"), "the search and the group are the same afterwards"
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('.group').id") == f"group-{theme(2).pk}"
    page.goto(f"/taxonomy/themes/{theme(6).pk}/")
    page.wait_for_selector("#neighbours .nearest")
    page.keyboard.press("w")
    page.wait_for_url("**/neighbours/")
    page.keyboard.press("/")
    page.keyboard.type("clinic")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=clinic*")
    page.locator("button:text-is('Belongs with this')").first.press("Enter")
    page.wait_for_selector("text=It can be undone under Near-duplicates")
    assert folds()["6"] == "5"
    assert not complaints
    context.close()
