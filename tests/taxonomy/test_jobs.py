"""An uploaded file of servers through a real worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from synthesis.formats import mcp
from tests.fixtures.processes import wait_for
from tests.taxonomy import near
from tests.taxonomy.samples import entries, server
from webapp.endpoints.models import Endpoint
from webapp.jobs.claims import Cancelled
from webapp.jobs.models import Job, JobState
from webapp.pages.recount import recount_all
from webapp.taxonomy import importer
from webapp.taxonomy.models import Grouping, Theme
from webapp.taxonomy.near_duplicates.group_job import regroup_themes
from webapp.taxonomy.near_duplicates.services import start_grouping, undo_decision
from webapp.taxonomy.services import start_mcp_import

pytestmark = pytest.mark.django_db(transaction=True)


def ended(job: Job) -> Callable[[], Job | None]:
    return lambda: Job.objects.filter(pk=job.pk, finished_at__isnull=False).first()


@pytest.mark.usefixtures("worker_process")
def test_a_worker_imports_an_upload_and_says_what_was_left_out() -> None:
    lines = [json.dumps(server(n)) for n in range(3)] + ["{broken"]
    job = start_mcp_import(None, SimpleUploadedFile("servers.jsonl", "\n".join(lines).encode()))
    done = wait_for(ended(job), what="the import")
    assert done.state == JobState.SUCCEEDED, done.error
    assert done.result["themes"] == {"created": 3, "unchanged": 0, "updated": 0}
    assert [one["place"] for one in done.result["failed"]] == ["line 4"]
    empty = start_mcp_import(None, SimpleUploadedFile("none.json", b"[]"))
    refused = wait_for(ended(empty), what="the refusal")
    assert refused.state == JobState.FAILED
    assert "no records" in refused.error


@pytest.mark.usefixtures("worker_process")
def test_a_worker_groups_themes_and_says_why_it_could_not() -> None:
    near.plant()
    done = wait_for(ended(start_grouping(None, 0.85)), what="the grouping")
    assert done.state == JobState.SUCCEEDED, done.error
    grouping = Grouping.objects.get(job=done)
    assert done.result == {"themes": 6, "groups": 2, "folded": 3, "grouping": grouping.pk}
    assert near.folds() == {"1": "2", "3": "2", "4": "5"}
    endpoint = Endpoint.objects.create(name="nobody", base_url="http://127.0.0.1:9/v1", model_names=["e-1"])
    Endpoint.objects.update(from_environment=True, timeout_s=1)
    failed = wait_for(ended(start_grouping(None, 0.85, f"{endpoint.pk}/e-1")), what="the refusal", seconds=60)
    assert failed.state == JobState.FAILED
    assert "nobody" in failed.error
    assert Grouping.objects.count() == 1
    assert near.folds() == {"1": "2", "3": "2", "4": "5"}, "a failure folds nothing and unfolds nothing"


@pytest.mark.data
def test_the_real_servers_are_grouped(real_data: Path) -> None:
    importer.import_servers(mcp.read_servers(real_data / "mcp_servers" / "servers.jsonl.gz"))
    found = regroup_themes(0.85)
    print(f"{found.themes} themes in {found.seconds:.1f} s: {found.groups} groups, {found.folded} folded")
    assert found.themes == 2120
    assert 50 < found.groups < 150
    near.folds()
    numbers = [one["folded"] for one in found.counts]
    assert numbers == sorted(numbers, reverse=True)
    undo_decision(found.decision_id, None)
    assert near.folds() == {}


def test_a_stopped_import_keeps_whole_chunks_and_goes_on_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "CHUNK", 10)
    file = entries(*(server(n, custom_label=f"Topic {n}") for n in range(35)))

    def stop(done: int, total: int, note: str) -> None:
        if done > 15:
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        importer.import_servers(file, progress=stop)
    assert Theme.objects.count() == 10
    assert recount_all() == []
    again: dict[str, Any] = importer.import_servers(file)
    assert again["themes"] == {"created": 25, "unchanged": 10, "updated": 0}
    assert recount_all() == []
