"""Exports on a dataset's page in a real browser: begun by keyboard, followed, fetched, deleted; accessible."""

from __future__ import annotations

import json
import os
import zipfile

import pytest
from django.urls import reverse
from playwright.sync_api import Browser

from tests.browser.checks import faults
from tests.browser.test_training_jobs import signed_in
from tests.datasets.test_export import run
from tests.fixtures import pages_seed
from tests.fixtures.dataset_seed import frozen, trajectory_rows
from webapp.accounts.models import Role
from webapp.datasets.export import services
from webapp.datasets.models import DatasetExport, ExportState

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=window.hit=1>\u202e"


def test_an_export_from_the_form_to_its_archive(
    live_site: str, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)
    pages_seed.person(Role.RESEARCHER)
    dataset = frozen(trajectory_rows(40), f"Boxes {HOSTILE}")
    context, page, complaints = signed_in(chromium, live_site)
    page.goto(reverse("datasets:dataset", args=[dataset.public_id]) + "#exports")
    found = faults(page, "no export yet")
    page.focus("#export-as")
    page.keyboard.type("ATIF")
    page.focus("#start-export")
    page.keyboard.press("Enter")
    page.wait_for_selector("#exports-list article")
    assert "It waits for a worker" in page.inner_text("#exports")
    found += faults(page, "being made")
    export = DatasetExport.objects.get(form="atif")
    run(export)
    page.wait_for_selector(f"#export-file-{export.pk}")
    failed, _ = services.start_export(None, dataset, "trl", "parquet")
    DatasetExport.objects.filter(pk=failed.pk).update(state=ExportState.FAILED, error=HOSTILE * 30)
    page.reload()
    page.click(f"#export-files-{export.pk}")
    found += faults(page, "made and failed")
    with page.expect_download() as download:
        page.click(f"#export-file-{export.pk}")
    with zipfile.ZipFile(download.value.path()) as archive:
        assert json.loads(archive.read("manifest.json"))["form"] == "atif"
    if folder := os.environ.get("SHOTS"):
        for width in (1440, 400):
            for scheme in ("light", "dark"):
                page.set_viewport_size({"width": width, "height": 1000})
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                page.locator("#exports").screenshot(path=f"{folder}/{width}-{scheme}.png")
    page.click(f"#export-delete-{export.pk}")
    page.wait_for_selector("text=The archive is deleted")
    assert "cleared away" in page.inner_text("#exports")
    assert (found, complaints, page.evaluate("window.hit")) == ([], [], None)
    context.close()
