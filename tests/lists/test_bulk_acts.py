"""Acts on selected rows: a preview, then each row by its own service; what is refused is told and left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from django.db.models import Model
from django.test import Client

from tests.fixtures import pages_seed
from tests.fixtures.markup import markup
from tests.taxonomy.samples import entries, server
from webapp.accounts.models import AuditEntry
from webapp.batches.models import Batch, BatchState
from webapp.datasets.models import Dataset, StoredFile
from webapp.environments.models import Environment, Version
from webapp.jobs.models import Job, JobState
from webapp.runs.models import TrainingJob
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.models import Theme

pytestmark = pytest.mark.django_db
TAGS = re.compile("<[^>]*>")
HOSTILE = "<img src=x onerror=window.hit=1>"


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(pages_seed.person("admin"))
    return client


def test_selected_jobs_are_looked_at_then_stopped_and_one_that_has_ended_is_told(admin: Client) -> None:
    waiting = [Job.objects.create(kind="audit", queue="sandbox", title=f"{HOSTILE} {number}") for number in range(2)]
    ended = Job.objects.create(kind="audit", queue="sandbox", title="Ended", state=JobState.SUCCEEDED)
    listed = markup(admin.get("/jobs/"))
    assert f'value="{ended.pk}"' in listed
    assert 'formaction="/jobs/selected/cancel/"' in listed
    keys = [row.pk for row in (*waiting, ended)]
    page = markup(admin.get("/jobs/selected/cancel/", {"ids": [*keys, 10**9]}))
    assert "1 of those chosen no longer exist" in page
    assert "&lt;img src=x" in page
    assert "1 of 3 would be left as it is." in page
    assert 'hx-get="/jobs/selected/cancel/"' in listed
    there = {"HX-Request": "true", "HX-Target": "bulk-told"}
    told = markup(admin.get("/jobs/selected/cancel/", {"ids": [*keys, 10**9]}, headers=there))
    assert " ".join(told.split()) == "<b>Cancel 2</b> of 3 · <b>Try again 0</b> of 3"
    assert not Job.objects.filter(state=JobState.CANCELLED).exists(), "looking does nothing"
    after = markup(admin.post("/jobs/selected/cancel/", {"ids": keys}, follow=True))
    assert "2 jobs asked to stop." in after
    assert "1 left as they are. Ended: it had ended" in after
    assert set(Job.objects.filter(state=JobState.CANCELLED)) == set(waiting)
    assert AuditEntry.objects.filter(action="job.cancel").count() == 2
    assert admin.get("/jobs/selected/burn/").status_code == 404
    assert "No job was chosen" in markup(admin.post("/jobs/selected/retry/", follow=True))


def test_the_other_lists_act_through_the_same_page(admin: Client) -> None:
    batches = [Batch.objects.create(name=f"b{number}", state=BatchState.RUNNING) for number in range(2)]
    admin.post("/batches/selected/pause/", {"ids": [row.pk for row in batches]})
    assert set(Batch.objects.values_list("state", flat=True)) == {BatchState.PAUSED}
    sets = [Dataset.objects.create(name=f"d{number}", kind="tasks", state="ready") for number in range(2)]
    freezing = Dataset.objects.create(name="cold", kind="tasks", state="freezing")
    told = markup(admin.post("/training/datasets/selected/archive/", {"ids": [sets[0].pk, freezing.pk]}, follow=True))
    assert "1 dataset archived." in told
    assert "cold: This dataset is being frozen" in told
    assert list(Dataset.objects.filter(archived=True)) == [sets[0]]
    admin.post("/training/datasets/selected/restore/", {"ids": [sets[0].pk]})
    assert not Dataset.objects.filter(archived=True).exists()
    file = StoredFile.objects.create(filename="f", kind="tasks", bytes=1)
    used = StoredFile.objects.create(filename="used", kind="tasks", bytes=1)
    Dataset.objects.create(name="of it", kind="tasks", state="ready", file=used)
    told = markup(admin.post("/training/files/selected/delete/", {"ids": [file.pk, used.pk]}, follow=True))
    assert "1 file deleted." in told
    assert "used: The file" in told
    assert list(StoredFile.objects.filter(deleted_at__isnull=True)) == [used]


def told(browser: Client, url: str, rows: Sequence[Model]) -> str:
    """What the bar below a selection says."""
    there = {"HX-Request": "true", "HX-Target": "bulk-told"}
    answer = browser.get(url, {"ids": [row.pk for row in rows]}, headers=there)
    return " ".join(TAGS.sub("", markup(answer)).split())


def test_a_selection_says_what_each_act_would_take_of_it(admin: Client, django_assert_max_num_queries: Any) -> None:
    states = {"ready": "ready", "cold": "freezing", "away": "ready", "used": "ready", "measured": "ready"}
    sets = {
        name: Dataset.objects.create(name=name, kind="tasks", state=state, archived=name == "away")
        for name, state in states.items()
    }
    TrainingJob.objects.create(dataset=sets["used"], evaluation=sets["measured"], state="queued")
    TrainingJob.objects.create(dataset=sets["ready"], state="succeeded")
    with django_assert_max_num_queries(5):  # as many for fifty rows
        said = told(admin, "/training/datasets/selected/archive/", [*sets.values()])
    assert said == "Archive 1 of 5 · Take back 1 of 5"
    files = [StoredFile.objects.create(filename=name, kind="tasks", bytes=1) for name in ("free", "of a dataset")]
    Dataset.objects.create(name="of it", kind="tasks", state="ready", file=files[1])
    assert told(admin, "/training/files/selected/delete/", files) == "Delete 1 of 2"
    assert 'hx-get="/training/files/selected/delete/"' in markup(admin.get("/training/files/"))


def test_environments_and_themes_say_how_many_could_grow(admin: Client, client: Client) -> None:
    rows = [Environment.objects.create(key=key, name=key, source="made") for key in ("empty", "whole")]
    version = Version.objects.create(environment=rows[1], number=1, content_hash="0", source="", class_name="A")
    Environment.objects.filter(pk=rows[1].pk).update(current=version)
    assert told(admin, "/environments/", rows) == "Grow more 1 of 2 · Export 1 of 2"
    import_servers(entries(server(1), server(2)))
    themes = [*Theme.objects.order_by("key")]
    Theme.objects.filter(pk=themes[1].pk).update(description=" ", tool_count=0)
    assert told(admin, "/taxonomy/themes/", themes) == "Grow these 1 of 2"
    assert "bulk-told" in markup(admin.get("/taxonomy/themes/"))
    client.force_login(pages_seed.person("viewer"))
    assert told(client, "/environments/", rows) == "Export 1 of 2"


def test_who_may_not_act_sees_no_boxes(client: Client) -> None:
    client.force_login(pages_seed.person("viewer"))
    Job.objects.create(kind="audit", queue="sandbox", title="A job")
    assert "data-pick" not in markup(client.get("/jobs/"))
    assert client.get("/jobs/selected/cancel/").status_code == 403
    assert client.post("/jobs/selected/cancel/", {"ids": [1]}).status_code == 403
