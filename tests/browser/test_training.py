"""“Export for training” in a real browser: accessible, downloaded whole, made in the background, by keyboard."""

from __future__ import annotations

import json
import zipfile

import pytest
from playwright.sync_api import Browser

from tests.browser.checks import faults
from tests.browser.test_environments import signed_in
from tests.fixtures import pages_seed, replay_seed
from webapp.jobs.models import Job, JobState
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=window.hit=1>\u202e"


def seeded() -> Trajectory:
    told = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Move it."}]
    record = {"messages": [*told, {"role": "assistant", "content": "Done."}], "tools": []}
    plan = replay_seed.ordinary(outcome="solved", reward=1.0, policy=HOSTILE, record=record)
    plan.acts = [act for act in plan.acts if not act.error]
    return replay_seed.make(plan)


def made(title: str, state: str) -> Job:
    result = {"file": "exports/gone.zip", "records": 12_345, "trajectories": 678, "bytes": 9_876_543}
    done = result if state == JobState.SUCCEEDED else None
    return Job.objects.create(kind="export_sft", queue="sandbox", title=title, state=state, result=done)


def test_the_page_is_accessible_and_downloads_a_whole_archive(live_site: str, chromium: Browser) -> None:
    pages_seed.person("annotator")
    seeded()
    made(f"Export for training (trl): policy {HOSTILE}", JobState.SUCCEEDED)
    made("Export for training (alpaca): all trajectories", JobState.FAILED)
    context, page, complaints = signed_in(chromium, live_site)
    page.goto("/trajectories/?source=made&outcome=solved")
    page.keyboard.press("t")
    page.wait_for_url("**/trajectories/training/?*")
    found = faults(page, "form")
    assert "1 trajectory selected" in page.inner_text("main")
    with page.expect_download() as download:
        page.keyboard.press("x")
    with zipfile.ZipFile(download.value.path()) as archive:
        (line,) = archive.read("train.jsonl").splitlines()
        assert json.loads(line)["messages"][-1] == {"role": "assistant", "content": "Done."}
        assert json.loads(archive.read("manifest.json"))["policies"] == {HOSTILE: 1}
    page.select_option("select[name=actions]", "own")
    page.click("#download")
    page.wait_for_selector(".error:not(:empty)")
    found += faults(page, "form with an error")
    page.fill("input[name=fewest]", "1")
    page.fill("input[name=most]", "40")
    page.click("#start")
    page.wait_for_url("**#exports")
    assert page.inner_text("#exports tbody tr >> nth=0").count("made")
    found += faults(page, "exports")
    context.close()
    assert not found
    assert [one for one in complaints if "422" not in one] == [], "the browser itself notes the refused form"
