"""Uploads that hold nothing, or far more than their size says, end with a reason and before memory runs out."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.test import Client

from synthesis.errors import InputError
from tests.fixtures import pages_seed
from tests.fixtures.markup import flat
from tests.importing import samples
from tests.importing.test_importer import context_of, counts, upload
from webapp.common.errors import QuotaExceeded
from webapp.jobs import uploads
from webapp.jobs.jobs import execute_job
from webapp.jobs.models import Job, JobState
from webapp.jobs.registry import KINDS
from webapp.jobs.services import claim_job
from webapp.scenarios.services import start_envscaler_import
from webapp.taxonomy.services import start_mcp_import
from webapp.trajectories.services import start_trajectory_import

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("nothing", [[], {}, {"records": []}])
def test_an_import_of_nothing_fails_and_says_so(nothing: Any) -> None:
    job = start_envscaler_import(None, upload(nothing, "e.json"), upload([], "s.json"))
    with pytest.raises(InputError, match=r"e\.json and s\.json: no records"):
        KINDS["import_envscaler"].handler(context_of(job))
    job = start_trajectory_import(None, upload(nothing, "t.json"))
    with pytest.raises(InputError, match=r"t\.json: no records"):
        KINDS["import_trajectories"].handler(context_of(job))


def test_one_file_with_records_is_enough() -> None:
    job = start_envscaler_import(None, upload([samples.environment()]), upload([], "s.json"))
    assert counts(KINDS["import_envscaler"].handler(context_of(job)))[0] == (1, 0, 0, 0)


@pytest.mark.parametrize("content", [b"[]," * 2_000_000, b'{"a":1},' * 700_000, b'{"a":[]}\n' * 700_000])
def test_a_small_file_of_countless_values_is_not_read(content: bytes) -> None:
    """Kilobytes of gzip that took a gigabyte."""
    stored = uploads.store_upload(None, ContentFile(gzip.compress(b"[" + content + b"1]"), name="bomb.json.gz"))
    with pytest.raises(InputError, match=r"it would take more than [0-9,]+ MiB .* packed file of its size"):
        uploads.read_upload(stored)


def test_a_person_has_few_imports_under_way() -> None:
    ann, bo = pages_seed.person("annotator"), pages_seed.person("operator")
    for number in range(uploads.MOST_WAITING):
        start_trajectory_import(ann, upload([], f"{number}.json"))
    kept = len(default_storage.listdir(uploads.FOLDER)[1])
    with pytest.raises(QuotaExceeded, match="8 of your imports wait or run"):
        start_envscaler_import(ann, upload([], "one-more.json"))
    assert len(default_storage.listdir(uploads.FOLDER)[1]) == kept
    start_mcp_import(bo, upload([], "another's.json"))
    Job.objects.filter(created_by=ann).update(state=JobState.FAILED)
    start_trajectory_import(ann, upload([], "later.json"))


def test_a_file_stays_until_the_job_is_known_to_have_succeeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is lost between its work and the row's last write leaves the next attempt its file."""
    job = start_envscaler_import(None, upload([samples.environment()], "e.json"), None)
    stored = job.payload["environments"]["name"]
    monkeypatch.setattr("webapp.jobs.claims.JobClaim.finish", lambda *given, **how: False)
    claimed = claim_job(job.pk, "lost")
    assert claimed is not None
    execute_job(claimed)
    assert default_storage.exists(stored)
    monkeypatch.undo()
    Job.objects.filter(pk=job.pk).update(state=JobState.QUEUED)
    again = claim_job(job.pk, "next")
    assert again is not None
    execute_job(again)
    job.refresh_from_db()
    assert (job.state, job.error) == (JobState.SUCCEEDED, "")
    assert not default_storage.exists(stored)


def import_of(job: Job) -> Job:
    claimed = claim_job(job.pk, "here")
    assert claimed is not None
    execute_job(claimed)
    job.refresh_from_db()
    return job


@pytest.mark.parametrize(
    ("start", "records", "other"),
    [
        (start_trajectory_import, [{"task_id": "none"}] * 2, ()),
        (start_mcp_import, [{"name": 5}, {"nothing": 1}], ()),
        (start_envscaler_import, [{"environment_id": 5}], ([samples.scenario(env_id="elsewhere")],)),
    ],
)
def test_an_import_of_which_every_record_failed_has_failed(start: Any, records: list[Any], other: Any) -> None:
    """And keeps its result and its files: with what was missing in place, Retry brings them in."""
    job = import_of(start(None, upload(records), *(upload(one) for one in other)))
    assert job.state == JobState.FAILED
    assert job.error.startswith("2 of 2 records failed, so nothing was imported. The first: ")
    assert default_storage.exists(job.payload.get("file", job.payload.get("environments"))["name"])
    client = Client()
    client.force_login(pages_seed.person("annotator"))
    shown = flat(client.get(f"/jobs/{job.pk}/"))
    assert "<b>Why it failed:</b>" in shown
    assert "2 of 2 records failed" in shown
    assert "<h3>failed · 2</h3>" in shown or "<h3>tasks: failed · 1</h3>" in shown
    told = client.get(f"/api/v1/jobs/{job.pk}").json()
    assert (told["state"], bool(told["result"])) == ("failed", True)


def test_an_import_of_which_some_record_came_in_has_succeeded() -> None:
    job = import_of(start_envscaler_import(None, upload([samples.environment(), {"environment_id": 5}]), None))
    assert (job.state, job.error) == (JobState.SUCCEEDED, "")
    assert len(job.result["environments"]["failed"]) == 1
    again = import_of(start_envscaler_import(None, upload([samples.environment(), {"environment_id": 5}]), None))
    assert again.state == JobState.SUCCEEDED, "what is here already came in"
