"""An uploaded file of servers through a real worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.fixtures.processes import wait_for
from tests.taxonomy.samples import entries, server
from webapp.jobs.models import Job, JobState
from webapp.jobs.services import Cancelled
from webapp.pages.recount import recount
from webapp.taxonomy import importing
from webapp.taxonomy.models import Theme
from webapp.taxonomy.starting import start_mcp_import

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


def test_a_stopped_import_keeps_whole_chunks_and_goes_on_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "CHUNK", 10)
    file = entries(*(server(n, custom_label=f"Topic {n}") for n in range(35)))

    def stop(done: int, total: int, note: str) -> None:
        if done > 15:
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        importing.import_servers(file, progress=stop)
    assert Theme.objects.count() == 10
    assert recount() == []
    again: dict[str, Any] = importing.import_servers(file)
    assert again["themes"] == {"created": 25, "unchanged": 10, "updated": 0}
    assert recount() == []
