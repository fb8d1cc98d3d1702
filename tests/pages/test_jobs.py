from __future__ import annotations

import gzip
import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.fixtures import pages_seed
from tests.fixtures.markup import flat
from webapp.accounts.models import User
from webapp.datasets.models import Dataset
from webapp.jobs.claims import JobClaim
from webapp.jobs.models import Job, JobState

pytestmark = pytest.mark.django_db


def test_a_file_of_atif_in_another_field_is_told_where_it_belongs(page: Client) -> None:
    atif = json.dumps({"schema_version": "ATIF-v1.4", "session_id": "a", "steps": []}).encode()
    for what, field, named in (
        ("environments", "environments", "not environments"),
        ("environments", "scenarios", "not scenarios"),
        ("servers", "servers", "not MCP servers"),
    ):
        for content in (atif, gzip.compress(atif)):
            answer = page.post("/import/", {"what": what, field: SimpleUploadedFile("run.json", content)})
            assert answer.status_code == 422
            assert f"trajectories in ATIF (Harbor), {named}. Upload it under Trajectories" in answer.content.decode()
    assert not Job.objects.exists()


def test_the_list_filters_by_state(page: Client) -> None:
    pages_seed.job(JobState.FAILED, "broken one")
    pages_seed.job(JobState.SUCCEEDED, "good one")
    html = flat(page.get("/jobs/?state=failed"))
    assert "broken one" in html
    assert "good one" not in html
    assert "Nothing matches" in flat(page.get("/jobs/?state=running"))


def test_an_open_job_is_asked_for_again_and_a_closed_one_is_not(page: Client) -> None:
    running, ended = pages_seed.job(JobState.RUNNING, done=3, total=10), pages_seed.job()
    html = flat(page.get(f"/jobs/{running.pk}/"))
    assert f'hx-get="/jobs/{running.pk}/live"' in html
    assert 'value="3"' in html
    part = flat(page.get(f"/jobs/{running.pk}/live"))
    assert part.startswith('<div id="job"')
    assert "hx-get" not in flat(page.get(f"/jobs/{ended.pk}/live"))


def test_the_result_and_the_reason_are_readable_and_escaped(page: Client) -> None:
    evil = pages_seed.EVIL
    result = {
        "environments": {"created": 2, "failed": [{"place": "[7].tools", "reason": "missing"}]},
        "failures": [{"place": "[3]", "reason": evil}],
        "odd": {"a": [1]},
    }
    row = pages_seed.job(JobState.FAILED, evil, result=result, error=evil, worker=evil)
    html = flat(page.get(f"/jobs/{row.pk}/"))
    assert "1 record could not be used" in html
    assert "[7].tools" in html
    assert "[3]" in html
    assert "<script>window" not in html
    assert "<img" not in html
    assert "\u202e" not in html


def test_sums_are_not_counted_as_records(page: Client) -> None:
    result = {"themes": {"created": 5, "updated": 0, "unchanged": 0}, "failed": [{"place": "line 2", "reason": "no"}]}
    html = flat(page.get(f"/jobs/{pages_seed.job(JobState.SUCCEEDED, result=result).pk}/"))
    assert "<h3>themes</h3>" in html, "three kinds are not three themes"
    assert "<h3>failed · 1</h3>" in html


def test_findings_of_an_import_are_explained_and_lead_to_what_has_them(page: Client) -> None:
    counts = {"cut_identifier": 9, "no_checks": 22, "new_kind": 1}
    row = pages_seed.job(JobState.SUCCEEDED, result={"findings": counts})
    html = flat(page.get(f"/jobs/{row.pk}/"))
    assert html.index('href="/tasks/?finding=no_checks"') < html.index('href="/environments/?finding=cut_identifier"')
    assert "A name in the state schema lost letters at an end" in html
    assert ">New kind</a>" in html
    assert "gzip" in flat(page.get("/import/?what=trajectories")).partition('name="trajectories"')[2][:200]


def test_cancel_and_retry(page: Client) -> None:
    queued = pages_seed.job(JobState.QUEUED)
    assert page.get(f"/jobs/{queued.pk}/cancel").status_code == 405
    page.post(f"/jobs/{queued.pk}/cancel")
    queued.refresh_from_db()
    assert queued.state == JobState.CANCELLED
    page.post(f"/jobs/{queued.pk}/retry")
    queued.refresh_from_db()
    assert queued.state == JobState.QUEUED
    done = pages_seed.job()
    answer = page.post(f"/jobs/{done.pk}/retry", follow=True)
    assert "this one is neither" in flat(answer)
    assert page.post("/jobs/999999/cancel").status_code == 404


def test_a_viewer_sees_jobs_but_stops_none(db: None) -> None:
    client = Client()
    client.force_login(pages_seed.person("viewer"))
    row = pages_seed.job(JobState.QUEUED)
    assert "Cancel" not in flat(client.get(f"/jobs/{row.pk}/"))
    assert client.post(f"/jobs/{row.pk}/cancel").status_code == 403
    row.refresh_from_db()
    assert row.state == JobState.QUEUED


def upload(text: bytes = b"[]") -> SimpleUploadedFile:
    return SimpleUploadedFile("envs.json", text, "application/json")


def test_an_upload_becomes_a_job(page: Client, annotator: User) -> None:
    answer = page.post("/import/", {"what": "environments", "environments": upload()})
    made = Job.objects.get()
    assert answer.headers["Location"] == f"/jobs/{made.pk}/"
    assert made.created_by == annotator
    page.post("/import/", {"what": "trajectories", "trajectories": upload(), "frames": "on"})
    assert [job.payload["frames"] for job in Job.objects.order_by("pk")] == [False, True]


def test_refused_uploads_say_why(page: Client, settings: pytest.FixtureRequest) -> None:
    for data in ({"what": "environments"}, {"what": "environments", "environments": upload(b"")}, {"what": "odd"}, {}):
        answer = page.post("/import/", data)
        assert answer.status_code == 422
    settings.UPLOAD_LIMIT_MIB = 0  # type: ignore[attr-defined]
    answer = page.post("/import/", {"what": "trajectories", "trajectories": upload()})
    assert "takes 0" in flat(answer)
    assert Job.objects.count() == 0


def test_home_explains_an_empty_installation_and_then_shows_what_is_here(page: Client) -> None:
    assert "This installation is empty" in flat(page.get("/"))
    pages_seed.environment()
    html = flat(page.get("/"))
    assert "This installation is empty" not in html
    assert "Front desk" in html


def made(page: Client, kind: str, result: object, **fields: object) -> list[str]:
    """Addresses of what a job's page says that it made."""
    row = Job.objects.create(kind=kind, queue="sandbox", title="t", state="succeeded", result=result, **fields)
    return [link.url for link in page.get(f"/jobs/{row.pk}/").context["made"]]


def test_a_job_links_what_it_made(page: Client) -> None:
    place = pages_seed.environment()
    assert made(page, "rerun_cases", {"environment": place.pk}) == [f"/environments/{place.pk}/"]
    assert made(page, "odd", {"tasks": [1, 2], "trajectory": 7, "count": 3, "edit": True}) == [
        "/tasks/1/",
        "/tasks/2/",
        "/trajectories/7/",
    ]
    parts = {"environments": {"created": 2, "failed": []}, "tasks": {"created": 0, "failed": []}}
    assert made(page, "import_envscaler", parts) == ["/environments/"]
    assert made(page, "audit", {"audited": 3, "green": 2, "red": 1}) == ["/tasks/?audit=green", "/tasks/?audit=red"]
    assert made(page, "import_mcp_servers", {"themes": {"created": 3}}) == ["/taxonomy/themes/"]
    for odd in (None, [1], "x", {"dataset": "<b>"}, {"trajectory": [["x"]]}, {"tasks": {"a": 1}}):
        assert made(page, "odd", odd) == []


def test_a_frozen_dataset_is_linked_by_its_name(page: Client) -> None:
    job = Job.objects.create(
        kind="freeze_dataset", queue="sandbox", title="t", state="succeeded", result={"dataset": 1}
    )
    row = Dataset.objects.create(name=pages_seed.EVIL, kind="tasks", state="ready", job=job, train_rows=4)
    html = flat(page.get(f"/jobs/{job.pk}/"))
    assert f'href="/training/datasets/{row.public_id}/"' in html
    assert "<script>window" not in html


def test_an_import_of_nothing_is_no_success_in_the_list_and_on_its_page(page: Client) -> None:
    row = Job.objects.create(kind="import_mcp_servers", queue="sandbox", title="t", state="running", attempt=1)
    assert JobClaim(row.pk, 1).finish(JobState.SUCCEEDED, result={"themes": {"created": 0}})
    html = flat(page.get(f"/jobs/{row.pk}/"))
    assert "No result." in html
    assert 'class="note bad"' in html
    assert "Made:" not in html
    listed = flat(page.get("/jobs/"))
    assert "nothing came of it" in listed
    assert "succeeded" not in listed.split("<tbody>")[1]
    assert page.get(f"/api/v1/jobs/{row.pk}").json()["nothing_made"] is True
