"""Forms while the server cannot be reached: nothing typed is lost, and nothing is made twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser import test_every_page as every_page
from tests.browser.checks import arrived, faults, next_item
from tests.fixtures import pages_seed
from tests.fixtures.visitors import complaints_of, visit
from tests.labelling import seed as labels
from tests.review import seed
from tests.web.test_access import arguments  # noqa: F401  the fixture that gives routes their objects
from webapp.batches.models import Batch
from webapp.labelling.models import Label, LabelSession
from webapp.review.models import ReviewDecision, ReviewQueue
from webapp.taxonomy.models import Theme

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
AWAY = "The server cannot be reached."
BACK = "did not send has been restored"


def opened(chromium: Browser, site: str, name: str) -> tuple[BrowserContext, Page, list[str]]:
    context = visit(chromium, site, name, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    complaints = complaints_of(page, besides=("ERR_INTERNET_DISCONNECTED", "htmx:sendError", "status of 4"))
    return context, page, complaints


def test_a_decision_waits_for_the_server_and_is_sent_once(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    for name in ("one", "two"):
        seed.task(name)
    queue = seed.queue(seed.named("olga", "operator"), "Desks")
    context, page, complaints = opened(chromium, live_site, "the-annotator")
    page.goto(f"/review/{queue.pk}/")
    next_item(page, "[data-lease]")
    here = page.url
    context.set_offline(True)
    page.keyboard.press("a")
    page.keyboard.press("i")
    page.keyboard.type("Looked at while away.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".held-said")).to_contain_text(AWAY)
    expect(page.locator("[data-draft-said]")).to_contain_text("in this browser only")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".held-said")).to_have_count(1)
    assert page.url == here
    assert not ReviewDecision.objects.exists()
    assert not faults(page, "a decision held")
    context.set_offline(False)
    page.wait_for_url(lambda url: url != here)
    arrived(page, "[data-lease]")
    assert ReviewDecision.objects.get().comment == "Looked at while away."
    # Left while away: what was typed is there again.
    context.set_offline(True)
    page.keyboard.press("i")
    page.keyboard.type("Half a thought")
    page.wait_for_timeout(500)
    context.set_offline(False)
    page.reload()
    page.wait_for_load_state()
    expect(page.locator("#decision-comment")).to_have_value("Half a thought")
    expect(page.locator("[data-draft-said]")).to_contain_text("Draft kept")
    assert not page.evaluate("Object.keys(localStorage).filter(key => key.includes('/review/items/')).length")
    assert not complaints
    context.close()


def test_a_placing_and_a_grouping_wait_for_the_server(live_site: str, chromium: Browser) -> None:
    (user,) = labels.people("adjudicator")
    nodes = labels.tree()
    labels.environment("Ferry line", nodes["Clubs"])
    placing, merging = labels.place_session(user, overlap=1), labels.merge_session(user, overlap=1)
    context, page, complaints = opened(chromium, live_site, user.username)
    page.goto(f"/taxonomy/sessions/{placing.pk}/")
    with page.expect_navigation():
        page.keyboard.press("n")
    page.wait_for_load_state()
    desk = page.url
    with page.expect_navigation():
        page.keyboard.press("Control+Enter")  # refused, without a node
    page.wait_for_load_state()
    assert page.url == desk, "a reload would send the refused values once more, over the draft"
    context.set_offline(True)
    page.get_by_role("treeitem", name="Ticketing").last.locator("button.name").first.click()
    expect(page.locator("#chosen-path [data-name]")).to_have_text("Ticketing")
    page.keyboard.press("2")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".held-said")).to_contain_text(AWAY)
    page.wait_for_timeout(500)
    page.get_by_role("button", name="Do not send it").click()
    expect(page.locator(".held-said")).to_have_count(0)
    context.set_offline(False)
    page.wait_for_timeout(1500)
    assert not Label.objects.exists(), "it was told not to be sent"
    page.evaluate("sessionStorage.clear()")
    page.goto(page.url)
    expect(page.locator("#chosen-path [data-name]")).to_have_text("Ticketing")
    context.set_offline(True)
    page.keyboard.press("Control+Enter")
    expect(page.locator(".held-said")).to_contain_text(AWAY)
    context.set_offline(False)
    page.wait_for_selector("text=Nothing is left for you")
    assert Label.objects.get().node == nodes["Ticketing"]
    page.goto(f"/taxonomy/sessions/{merging.pk}/")
    with page.expect_navigation():
        page.keyboard.press("n")
    page.wait_for_load_state()
    context.set_offline(True)
    page.locator("#grouping li", has_text="Clubs").locator("input").check()
    page.keyboard.press("g")
    page.keyboard.type("Sharing")
    page.keyboard.press("Enter")
    expect(page.locator(".held-said")).to_contain_text(AWAY)
    context.set_offline(False)
    page.wait_for_selector("[data-drop='Sharing'] >> text=Clubs")
    assert not [words for words in complaints if "status of 422" not in words]
    context.close()


def test_long_forms_survive_a_reload_and_a_lost_answer(live_site: str, chromium: Browser) -> None:
    seed.named("olga", "operator")
    context, page, complaints = opened(chromium, live_site, "olga")
    for url, field in (
        ("/review/new/task/", "name"),
        ("/batches/new/", "name"),
        ("/taxonomy/sessions/new/place/", "name"),
    ):
        page.goto(url)
        page.locator(f"main [name={field}]").fill("A long story")
        page.wait_for_timeout(400)
        page.reload()
        expect(page.locator(f"main [name={field}]")).to_have_value("A long story")
        expect(page.locator(".held-note")).to_contain_text(BACK)
        assert not faults(page, f"{url} restored")
        page.goto("/")
        page.go_back()
        expect(page.locator(f"main [name={field}]")).to_have_value("A long story")
        page.goto(url)
        page.get_by_role("button", name="Discard").click()
        expect(page.locator(".held-note")).to_have_count(0)
        expect(page.locator(f"main [name={field}]")).not_to_have_value("A long story")
    page.goto("/taxonomy/themes/new/")
    page.fill("main [name=name]", "Ferry tickets")
    page.fill("main [name=description]", "Sells tickets of ferries and changes them.")
    page.route(
        "**/taxonomy/themes/new/", lambda route: route.abort() if route.request.method == "POST" else route.continue_()
    )
    with page.expect_event("requestfailed"):
        page.get_by_role("button", name="Keep this theme").click()
    page.wait_for_timeout(500)
    assert page.evaluate("location.protocol") == "chrome-error:"
    page.unroute("**/taxonomy/themes/new/")
    page.goto("/taxonomy/themes/new/")
    expect(page.locator(".held-note")).to_contain_text("It is not known whether")
    expect(page.locator("main [name=name]")).to_have_value("Ferry tickets")
    page.get_by_role("button", name="Keep this theme").click()
    page.wait_for_url(lambda url: "/new/" not in url)
    assert Theme.objects.filter(name="Ferry tickets").count() == 1
    page.goto("/taxonomy/themes/new/")
    expect(page.locator("main [name=name]")).to_have_value("")
    assert not ReviewQueue.objects.exists()
    assert not Batch.objects.exists()
    assert not LabelSession.objects.exists()
    assert not complaints
    context.close()


def test_saving_an_edit_from_what_it_would_do_waits_for_the_server(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    task = seed.task("one")
    context, page, complaints = opened(chromium, live_site, "the-annotator")
    page.goto(f"/tasks/{task.pk}/")
    page.keyboard.press("E")
    page.wait_for_url("**/edits/*/")
    page.goto(f"{page.url}forecast/")
    context.set_offline(True)
    page.get_by_role("button", name="Save it").click()
    expect(page.locator(".held-said")).to_contain_text(AWAY)
    assert page.url.endswith("/forecast/")
    context.set_offline(False)
    page.wait_for_url(lambda url: not url.endswith("/forecast/"))
    expect(page.locator("main")).to_contain_text("edit", ignore_case=True)
    assert not complaints
    context.close()


TYPED = "Typed while the server was away"
FIRST_TEXT = ":is(input:not([type]), input[type=text], textarea):enabled:read-write"


def test_every_form_that_takes_long_is_held_and_restored(
    live_site: str,
    chromium: Browser,
    arguments: dict[str, dict[str, Any]],  # noqa: F811
) -> None:
    pages_seed.person("admin")
    context, page, complaints = opened(chromium, live_site, "the-admin")
    checked = set()
    for name, url in every_page.pages(arguments).items():
        if not every_page.is_page(context, url) or "data-held" not in context.request.get(url).text():
            continue
        page.goto(url)
        for form in page.locator("form[data-held]").all():
            field = form.locator(FIRST_TEXT).locator("visible=true").first
            form_id = f"{name} {form.get_attribute('id') or ''}".strip()
            if form_id in checked or not field.count() or not field.is_editable():
                continue
            checked.add(form_id)
            require_held(page, form, field, form_id)
            page.goto(url)
    assert {"batches:clone launch", "runs:new launch", "labelling:item"} <= checked, checked
    assert len(checked) >= 10, checked
    assert not complaints
    context.close()


def require_held(page: Page, form: Locator, field: Locator, where: str) -> None:
    """Type and submit while the server is away: nothing is sent, the page says so in sight, reloading restores it."""
    here, context = page.url, page.context
    field.fill(TYPED)
    page.evaluate("window.scrollTo(0, 0)")
    context.set_offline(True)
    form.evaluate("(form) => { form.noValidate = true; form.requestSubmit(form.querySelector('button.primary')); }")
    expect(page.locator(".held-said"), where).to_contain_text(AWAY)
    expect(page.locator(".held-said"), where).to_be_in_viewport()
    page.get_by_role("button", name="Do not send it").click()
    expect(page.locator(".held-said"), where).to_have_count(0)
    assert page.url == here, where
    context.set_offline(False)
    page.reload()
    expect(field, where).to_have_value(TYPED)
    page.evaluate("localStorage.clear()")
