"""A training job in Chromium: submitted by keyboard alone, tried as it is filled in; accessible with planted text."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Browser, BrowserContext, Page, Route

from tests.browser.checks import faults
from tests.browser.test_batches import tab_to
from tests.fixtures import pages_seed, runs_seed
from tests.fixtures.visitors import complaints_of, visit
from webapp.runs.models import TrainingJob, TrainingState

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
OPEN_ALL = "for (const one of document.querySelectorAll('main details')) one.open = true"


def signed_in(chromium: Browser, site: str, **options: Any) -> tuple[BrowserContext, Page, list[str]]:
    """A researcher's page, and what its console complained about. A refused form answers 422, which Chromium notes."""
    context = visit(chromium, site, "the-researcher", **options)
    page = context.new_page()
    return context, page, complaints_of(page, besides=("status of 422",))


def test_a_job_is_submitted_by_keyboard_alone(live_site: str, chromium: Browser) -> None:
    pages_seed.person("researcher")
    runs_seed.dataset("Careless teachers", kind="trajectories")
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("f")
    page.wait_for_url("**/training/")
    page.keyboard.press("c")
    page.wait_for_url("**/training/new/")
    tab_to(page, "#id_dataset")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("#beside .stats")
    tab_to(page, "#id_epochs")
    page.keyboard.press("Control+a")
    page.keyboard.type("none")
    page.wait_for_selector("#id_epochs_error:not(:empty)")
    page.keyboard.press("Control+a")
    page.keyboard.type("2")
    page.wait_for_selector("#beside [href='#id_epochs'] >> text=Epochs")
    page.wait_for_selector("#id_epochs_error:empty", state="attached")
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/training/ftjob-*/")
    job = TrainingJob.objects.get()
    assert (job.preset, job.changes) == ("demo-sft", {"epochs": 2.0})
    context.close()
    assert not complaints


def test_enter_in_a_field_starts_nothing(live_site: str, chromium: Browser) -> None:
    pages_seed.person("researcher")
    row = runs_seed.dataset("Careless teachers", kind="trajectories")
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(f"/training/new/?dataset={row.public_id}")
    page.fill("#id_name", "Half a name")
    page.keyboard.press("Enter")
    page.wait_for_timeout(800)
    assert page.input_value("#id_name") == "Half a name"
    assert not TrainingJob.objects.exists()
    context.close()
    assert not complaints


def test_another_method_and_preset_are_shown_at_once(live_site: str, chromium: Browser) -> None:
    pages_seed.person("researcher")
    row = runs_seed.dataset("Six environments")
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/training/new/")
    page.fill("#id_name", "Mine")
    page.check("input[value=reinforcement]")
    page.wait_for_selector("#id_steps")
    page.select_option("#id_preset", "autoforge-erpo")
    page.wait_for_selector("text=Values of AutoForge: ERPO")
    assert page.input_value("#id_name") == "Mine"
    page.select_option("#id_dataset", row.public_id)
    page.wait_for_selector("#beside .stats")
    page.click("summary >> text=Horizon and decoding")
    assert not page.is_visible("#id_horizon__list__turns")
    page.select_option("#id_horizon__kind", "list")
    assert page.is_visible("#id_horizon__list__turns")
    assert not page.is_visible("#id_horizon__constant__turns")
    context.close()
    assert not complaints


def test_what_is_typed_while_a_presets_values_are_asked_for_stays(live_site: str, chromium: Browser) -> None:
    pages_seed.person("researcher")
    row = runs_seed.dataset("Careless teachers", kind="trajectories")
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(f"/training/new/?dataset={row.public_id}")
    held: list[Route] = []
    page.route("**/training/new/", lambda route: held.append(route))
    with page.expect_request("**/training/new/"):
        page.select_option("#id_preset", "defaults")
    page.fill("#id_epochs", "7")
    page.fill("#id_name", "Mine")
    page.press("#id_name", "End")
    held[0].continue_()
    page.wait_for_selector("text=Values of Envarium's defaults")
    page.wait_for_selector("#beside [href='#id_epochs'] >> text=Epochs")
    assert (page.input_value("#id_epochs"), page.input_value("#id_name")) == ("7", "Mine")
    context.close()
    assert not complaints


def test_what_was_typed_stands_there_after_back(live_site: str, chromium: Browser) -> None:
    """Also values of a preset that was chosen since the page came."""
    pages_seed.person("researcher")
    row = runs_seed.dataset("Careless teachers", kind="trajectories")
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(f"/training/new/?dataset={row.public_id}")
    page.select_option("#id_preset", "defaults")
    page.wait_for_selector("text=Values of Envarium's defaults")
    typed = {"#id_name": "Mine", "#id_epochs": "0.03", "#id_max_length": "512"}
    for place, value in typed.items():
        page.fill(place, value)
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/training/ftjob-*/")
    page.go_back()
    page.wait_for_selector("text=Values of Envarium's defaults")
    assert {place: page.input_value(place) for place in typed} == typed
    page.wait_for_selector("#beside [href='#id_epochs'] >> text=Epochs")
    page.fill("#id_name", "The second")
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/training/ftjob-*/")
    first, second = TrainingJob.objects.order_by("pk")
    assert (first.preset, first.changes) == (second.preset, second.changes)
    assert second.changes["epochs"] == 0.03
    context.close()
    assert not complaints


def test_the_form_works_without_scripts(live_site: str, chromium: Browser) -> None:
    pages_seed.person("researcher")
    runs_seed.dataset("Careless teachers", kind="trajectories")
    context, page, _ = signed_in(chromium, live_site, java_script_enabled=False)
    page.goto("/training/new/")
    page.select_option("#id_preset", "envscaler-sft")
    page.click("text=Show its values")
    assert page.input_value("#id_max_length") == "32768"
    page.select_option("#id_preset", "demo-sft")
    page.click("text=Show its values")
    page.select_option("#id_dataset", index=1)
    page.fill("#id_epochs", "3")
    page.click("#look")
    assert "It can be queued" in page.inner_text("#beside")
    page.click("#start")
    assert "/training/ftjob-" in page.url
    assert TrainingJob.objects.get().changes == {"epochs": 3.0}
    context.close()


def test_training_pages_are_accessible(live_site: str, chromium: Browser) -> None:
    pages_seed.person("researcher")
    context, page, complaints = signed_in(chromium, live_site)
    found = []
    for url in ("/training/", "/training/workers/"):
        page.goto(url)
        found += faults(page, f"empty {url}")
    evil = pages_seed.EVIL[:200]
    for state in TrainingState.values:
        job = runs_seed.training_job(
            steps=3, environments=("shop",), state=state, name=evil, model=evil, reason=evil, error=evil
        )
    usage = {"gpus": [{"name": evil, "used_mib": 5, "total_mib": 10, "utilisation": 0.5}], "memory_mib": 7}
    runs_seed.worker(evil, host=evil, usage=usage, model_names=[evil], software={evil: evil})
    runs_seed.worker("lost", seen_at=timezone.now() - timedelta(hours=1))
    runs_seed.worker("gone", stopped_at=timezone.now())
    new = f"/training/new/?dataset={job.dataset.public_id}"
    for url in (
        "/",
        "/training/",
        "/training/?state=paused",
        "/training/workers/",
        new,
        f"/training/new/?from={job.public_id}",
    ):
        page.goto(url)
        page.evaluate(OPEN_ALL)
        found += faults(page, url)
    page.goto(new)
    page.fill("#id_steps", evil)
    with page.expect_navigation():  # the note of the refused value stands beside the form before
        page.keyboard.press("Control+Enter")
    page.wait_for_selector(".note.bad")
    page.evaluate(OPEN_ALL)
    found += faults(page, "refused")
    context.close()
    assert not found, "\n".join(found)
    assert not complaints
