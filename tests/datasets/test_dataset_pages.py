"""Pages of datasets and uploaded files: three clicks, what it comes to beforehand, rows, archive, upload."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.datasets.dataset_support import (
    add_task,
    attempts,
    carry_out,
    make_environment,
    make_tasks,
    talk,
    uploaded_file,
)
from tests.datasets.test_datasets import job_on
from tests.fixtures.markup import markup
from tests.rollouts_web.support import make_task, person
from tests.training_data.test_export import solving, store
from training.dataset import Split
from webapp.datasets import row_page, services
from webapp.datasets.models import Dataset, DatasetState, StoredFile
from webapp.datasets.selection import parse_selection
from webapp.datasets.storage import read_rows
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>\u202e"
NEW = "/training/datasets/new/"


@pytest.fixture
def client() -> Client:
    made = Client()
    made.force_login(person("researcher", "ruth"))
    return made


def text(answer: Any) -> str:
    """What a person reads of a page."""
    page = answer.content.decode()
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


def fields(answer: Any) -> dict[str, Any]:
    """What the browser would send of the form as it stands."""
    form = answer.context["form"]
    said = {name: form[name].value() for name in form.fields if form[name].value() not in (None, "")}
    return {**said, "kind": form.kind_now}


def frozen(**told: Any) -> Dataset:
    split = told.pop("split", Split(test_share=0))
    return carry_out(services.create_dataset(None, parse_selection(told), split))


def page_of(row: Dataset) -> str:
    return reverse("datasets:dataset", args=[row.public_id])


def test_three_clicks_from_the_list_to_a_dataset(client: Client) -> None:
    make_tasks(8, 6)
    first = client.get(reverse("datasets:list"))
    assert "No datasets yet" in text(first)
    assert NEW in first.content.decode()
    form = client.get(NEW)
    assert "48 tasks match" in text(form)
    assert "Ready to freeze." in text(form)
    sent = client.post(NEW, fields(form))
    row = carry_out(Dataset.objects.get())
    assert sent.headers["Location"] == page_of(row)
    assert row.state == DatasetState.READY, row.error
    assert row.train_rows + row.test_rows == 48
    assert row.test_rows
    assert row.created_by is not None
    page = client.get(page_of(row))
    assert "held out; split by environment" in text(page)
    assert f"?dataset={row.public_id}" in page.content.decode()
    assert row.name in text(client.get(reverse("datasets:list")))


def test_what_the_form_says_beforehand_is_what_is_frozen(client: Client) -> None:
    make_tasks(5, 3)
    add_task(make_environment("shelf-0"), "unchecked", checks=False)
    form = client.get(NEW, {"unit": "task", "test_share": "0.4", "seed": "7"})
    found = form.context["found"]
    assert "This task has no checks" in text(form)
    client.post(NEW, fields(form))
    row = carry_out(Dataset.objects.get())
    assert (row.train_rows, row.test_rows) == (found.sides.train_rows, found.sides.test_rows)
    assert row.left_out == found.left_out


def test_a_seed_that_nobody_chose_leaves_both_sides_something(client: Client) -> None:
    make_tasks(2, 2)
    for share in ("0.05", "0.2", "0.9"):
        found = client.get(NEW, {"test_share": share}).context["found"]
        assert found.sides.train_rows, share
        assert found.sides.test_rows, share
        assert not found.problem


def test_a_side_that_would_be_empty_is_said_with_ways_out(client: Client) -> None:
    make_tasks(1, 4)
    page = client.get(NEW)
    assert "With this split there is" in text(page)
    assert "Ready to freeze" not in text(page)
    ways = re.findall(r'<li><a href="([^"]+)">([^<]+)</a>', markup(page))
    assert [words.partition(",")[0] for _, words in ways] == ["Split by task", "Hold nothing out"]
    for address, _ in ways:
        assert not client.get(unescape(address)).context["found"].problem


def test_the_panel_follows_the_filter(client: Client) -> None:
    tasks = make_tasks(3, 2)
    attempts(tasks[0], "solved", "failed")
    look = reverse("datasets:preview")
    said = {"kind": "tasks", "unit": "task", "test_share": "0.2", "seed": "0"}
    assert "6 tasks match" in text(client.get(look, said))
    assert "1 task matches" in text(client.get(look, said | {"pass_low": "0.2", "pass_high": "0.8"}))
    assert "2 tasks match" in text(client.get(look, said | {"environments": str(tasks[2].environment_id)}))
    assert "Nothing matches. Widen the filter." in text(client.get(look, said | {"source": "nowhere"}))
    assert "The form has errors" in text(client.get(look, said | {"pass_low": "7"}))


def test_trajectories_are_looked_at_as_they_will_be_filtered(client: Client) -> None:
    task = make_task()
    store(task, solving())
    attempts(task, "failed", "solved")
    page = client.get(NEW, {"kind": "trajectories", "test_share": "0"})
    found = page.context["found"]
    assert (found.found, found.usable) == (3, 1)
    assert found.left_out["Earned less than the least reward"] == 1
    client.post(NEW, fields(page))
    row = carry_out(Dataset.objects.get())
    assert row.kind == "trajectories"
    assert row.train_rows == 1
    assert row.left_out == found.left_out
    turns = client.get(NEW, {"kind": "trajectories", "test_share": "0", "shape": "turns"}).context["found"]
    assert turns.usable == 3


def test_what_is_wrong_with_the_form_is_said_and_nothing_is_lost(client: Client) -> None:
    make_tasks(2, 1)
    said = fields(client.get(NEW)) | {"pass_low": "0.9", "pass_high": "0.1", "name": "Mine"}
    page = client.post(NEW, said)
    assert page.status_code == 422
    assert "the higher end is below the lower one" in text(page)
    assert 'value="Mine"' in page.content.decode()
    assert not Dataset.objects.exists()
    page = client.post(NEW, said | {"kind": "trajectories", "pass_low": "", "pass_high": "", "actions": "9-3"})
    assert "Write a range of actions as 3-29" in text(page)


def test_looking_without_scripts_stores_nothing_and_keeps_what_was_typed(client: Client) -> None:
    make_tasks(2, 2)
    page = client.post(NEW, fields(client.get(NEW)) | {"look": "1", "unit": "task", "name": "Mine"})
    assert page.status_code == 200
    assert 'value="Mine"' in page.content.decode()
    assert page.context["found"].sides.split.unit == "task"
    assert not Dataset.objects.exists()


def test_a_split_that_is_sure_to_leave_a_side_nothing_is_refused_with_its_preview(client: Client) -> None:
    make_tasks(1, 2)
    said = fields(client.get(NEW)) | {"unit": "environment", "test_share": "0.1", "name": "Mine"}
    page = client.post(NEW, said)
    assert page.status_code == 422
    assert "Nothing is frozen yet. With this split there is nothing" in text(page)
    assert page.context["found"].problem
    assert fields(page)["name"] == "Mine"
    assert not Dataset.objects.exists()


def test_a_form_sent_twice_makes_one_dataset(client: Client) -> None:
    make_tasks(2, 2)
    said = fields(client.get(NEW))
    assert client.post(NEW, said).headers["Location"] == client.post(NEW, said).headers["Location"]
    assert Dataset.objects.count() == 1


def test_environments_are_found_by_name_and_ticked_ones_stay(client: Client) -> None:
    tasks = make_tasks(4, 1)
    ticked = tasks[3].environment_id
    page = client.get(reverse("datasets:environments"), {"find": "shelf-1", "environments": str(ticked)})
    assert "Shelf shelf-1" in text(page)
    assert "Shelf shelf-2" not in text(page)
    assert re.search(rf'value="{ticked}" checked', page.content.decode())


def test_rows_are_paged_without_reading_those_before(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tasks(1, 5)
    row = frozen()
    monkeypatch.setattr(row_page, "PAGE", 2)
    seen, address, pages = [], page_of(row), 0
    while address:
        page = client.get(address)
        seen += [one["row"].id for one in page.context["lines"]]
        address, pages = page.context["following"], pages + 1
    assert pages == 3
    assert seen == [one.id for one in read_rows(row, "train")]
    assert "from row 5 on" in text(page)
    lost = client.get(page_of(row), {"at": "7"})
    assert "no row begins there" in text(lost)


def test_rows_lead_to_their_task_and_those_of_a_file_nowhere(client: Client) -> None:
    (task,) = make_tasks(1, 1)
    page = client.get(page_of(frozen()))
    assert reverse("scenarios:task", args=[task.pk]) in page.content.decode()
    line = json.loads(talk(1)) | {"id": f"revision:{task.current_id}"}
    file = uploaded_file([json.dumps(line).encode()])
    page = client.get(page_of(carry_out(services.create_file_dataset(None, file))))
    assert reverse("scenarios:task", args=[task.pk]) not in page.content.decode()
    assert "Hello 1" in text(page)


def test_a_page_takes_as_many_queries_however_many_rows_and_jobs(client: Client) -> None:
    version = make_environment("shelf")
    add_task(version, "t0")
    small = frozen()
    for number in range(1, 12):
        add_task(version, f"t{number}")
    large = frozen()
    for _ in range(8):
        job_on(large)
    client.get(page_of(small))
    with CaptureQueriesContext(connection) as few:
        client.get(page_of(small))
    with CaptureQueriesContext(connection) as many:
        assert client.get(page_of(large)).status_code == 200
    assert len(many) <= len(few)


def test_hostile_text_is_shown_and_does_nothing(client: Client) -> None:
    (task,) = make_tasks(1, 1)
    Task.objects.filter(pk=task.pk).update(title=HOSTILE)
    task.current.instruction = HOSTILE  # type: ignore[union-attr]
    task.current.save()  # type: ignore[union-attr]
    row = frozen()
    Dataset.objects.filter(pk=row.pk).update(name=HOSTILE, left_out={HOSTILE: 2})
    for address in (NEW, page_of(row), reverse("datasets:list"), reverse("datasets:rows", args=[row.public_id])):
        page = client.get(address).content.decode()
        assert "<script>alert" not in page
        assert "\u202e" not in page


def test_while_it_is_frozen_the_page_says_so_and_then_reloads(client: Client) -> None:
    make_tasks(1, 1)
    row = services.create_dataset(None, parse_selection({}), Split(test_share=0))
    assert "Being frozen" in text(client.get(page_of(row)))
    live = reverse("datasets:live", args=[row.public_id])
    assert "HX-Refresh" not in client.get(live).headers
    assert client.get(reverse("datasets:rows", args=[row.public_id])).status_code == 404
    carry_out(row)
    assert client.get(live).headers["HX-Refresh"] == "true"


def test_a_dataset_that_could_not_be_frozen_says_why(client: Client) -> None:
    row = frozen(source="nowhere")
    page = text(client.get(page_of(row)))
    assert "It could not be frozen." in page
    assert "the selection is empty" in page


def test_the_same_content_is_said(client: Client) -> None:
    make_tasks(1, 2)
    first, second = frozen(), frozen()
    assert "The same content, by its hash" in text(client.get(page_of(second)))
    assert page_of(first) in client.get(page_of(second)).content.decode()


def test_archive_from_the_page_and_back(client: Client) -> None:
    make_tasks(1, 1)
    row = frozen()
    job = job_on(row)
    archive = reverse("datasets:archive", args=[row.public_id])
    assert job.public_id in text(client.post(archive, follow=True))
    job.delete()
    assert "It is archived" in text(client.post(archive, follow=True))
    assert row.public_id not in client.get(reverse("datasets:list")).content.decode()
    assert row.public_id in client.get(reverse("datasets:list"), {"archived": "1"}).content.decode()
    client.post(reverse("datasets:restore", args=[row.public_id]))
    assert row.public_id in client.get(reverse("datasets:list")).content.decode()


def test_download_is_the_frozen_file(client: Client) -> None:
    make_tasks(1, 2)
    row = frozen()
    answer = client.get(reverse("datasets:side", args=[row.public_id, "train"]))

    async def read() -> bytes:
        return b"".join([part async for part in answer])  # type: ignore[union-attr]

    assert answer.headers["Content-Disposition"] == f'attachment; filename="{row.public_id}-train.jsonl"'
    assert [json.loads(line)["task"] for line in async_to_sync(read)().splitlines()] == ["test:t0", "test:t1"]
    assert client.get(reverse("datasets:side", args=[row.public_id, "manifest"])).status_code == 404


def upload(client: Client, content: bytes) -> Any:
    file = SimpleUploadedFile("mine.jsonl", content)
    return client.post(reverse("datasets:file_upload"), {"file": file, "kind": ""}, follow=True)


def test_an_uploaded_file_is_checked_split_and_frozen(client: Client) -> None:
    page = upload(client, b"".join(talk(number) + b"\n" for number in range(9)))
    file = StoredFile.objects.get()
    assert page.redirect_chain[-1][0] == reverse("datasets:file", args=[file.public_id])
    assert "Make a dataset of it" in text(page)
    said = {"unit": "environment", "test_share": "0.5", "seed": "1", "name": "Talks"}
    make = reverse("datasets:file_make", args=[file.public_id])
    refused = text(client.post(make, said))
    assert "With this split there is nothing held out. Take another: by environment with seed" in refused
    assert not Dataset.objects.exists()
    proposed = re.search(r"with seed (\d+)", refused)
    assert proposed is not None
    client.post(make, said | {"seed": proposed[1]})
    row = carry_out(Dataset.objects.get())
    assert row.state == DatasetState.READY, row.error
    assert (row.name, row.train_rows + row.test_rows) == ("Talks", 9)
    refused = client.post(reverse("datasets:file_delete", args=[file.public_id]), follow=True)
    assert "cannot be deleted" in text(refused)


def test_problems_of_an_upload_are_said_by_line(client: Client) -> None:
    page = upload(client, talk(1) + b'\n{"messages": 3}\nno JSON\n')
    assert page.status_code == 422
    assert "Nothing was kept: 2 problems in 3 lines" in text(page)
    assert "2 messages must be a list" in text(page)
    assert re.search(r"3 not valid JSON", text(page))
    assert not StoredFile.objects.exists()
    nothing = client.post(reverse("datasets:file_upload"), {"kind": ""})
    assert "Choose a file" in text(nothing)


def test_a_viewer_looks_and_does_not_act() -> None:
    make_tasks(1, 1)
    row = frozen()
    viewer = Client()
    viewer.force_login(person("viewer", "vi"))
    page = viewer.get(page_of(row))
    assert page.status_code == 200
    assert 'id="archive"' not in page.content.decode()
    assert "Train on this" not in text(page)
    assert viewer.get(NEW).status_code == 403
    assert 'id="upload"' not in viewer.get(reverse("datasets:files")).content.decode()


def test_more_than_is_looked_at_is_said(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tasks(1, 5)
    monkeypatch.setattr("webapp.datasets.preview.COUNTED", 3)
    monkeypatch.setattr("webapp.datasets.preview.TASKS", 4)
    page = text(client.get(NEW, {"unit": "task"}))
    assert "More than 3 tasks match; of the first 4 come 4 rows" in page
    assert Trajectory.objects.count() == 0
