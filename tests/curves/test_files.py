"""Curves as files: CSV and PNG by chart and by job, from the API and the page; the result file of OpenAI's clients."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import openai
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from matplotlib.image import imread

from tests.fixtures import pages_seed
from tests.fixtures.api import problem, program, token_of
from tests.runs.job_support import frozen, jsonl, lessons
from tests.runs.test_series import add
from training.config import Supervised
from webapp.datasets import file_uploads
from webapp.runs.curves import chart_images, files
from webapp.runs.curves.chart_points import build_drawing
from webapp.runs.curves.charts import CurveChoice
from webapp.runs.models import TrainingJob, TrainingState

pytestmark = pytest.mark.django_db
HOSTILE = "=HYPERLINK($x_{1}$)"
"""A name that spreadsheets take for a formula, and Matplotlib for one of its own."""


@pytest.fixture
def job() -> TrainingJob:
    row = TrainingJob.objects.create(
        method="supervised",
        model="m",
        config=Supervised().model_dump(mode="json"),
        name="A $\\frac{1$ job",
        dataset=frozen(lessons()),
        step=4,
        total_steps=4,
        state=TrainingState.SUCCEEDED,
    )
    add(
        row,
        "loss",
        [(1, 1, 2.0, False), (2, 1, 9.0, True), (2, 2, 1.0, False), (3, 2, None, False), (4, 2, 0.1, False)],
    )
    add(row, "token_accuracy", [(1, 1, 0.25, False), (4, 2, 0.75, False)])
    add(row, "evaluation/success", [(4, 2, 0.5, False)])
    add(row, "outcome/solved", [(1, 1, 0.5, False), (4, 2, 1.0, False)])
    add(row, "outcome/failed", [(1, 1, 0.5, False)])
    add(row, f"environment/{HOSTILE}/reward", [(1, 1, 0.5, False), (2, 2, 0.6, False)])
    add(row, HOSTILE, [(1, 1, 1.0, False)])
    return row


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def pixels(content: bytes) -> Any:
    return imread(io.BytesIO(content))


def test_numbers_leave_step_by_step(job: TrainingJob) -> None:
    caller = program(pages_seed.person("viewer"), "read")
    base = f"/fine_tuning/jobs/{job.public_id}/metrics.csv"
    answer = caller.get(base)
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    head, *rows = table(answer.content.decode())
    assert head == [
        "step",
        f"'{HOSTILE}",
        "evaluation/success",
        "loss",
        "outcome/failed",
        "outcome/solved",
        "token_accuracy",
    ]
    assert [[row[0], row[3]] for row in rows] == [["1", "2.0"], ["2", "1.0"], ["3", ""], ["4", "0.1"]]
    part = table(caller.get(f"{base}?chart=loss,token_accuracy&from_step=2&to_step=3").content.decode())
    assert part == [["step", "loss", "token_accuracy"], ["2", "1.0", ""], ["3", "", ""]]
    assert table(caller.get(f"{base}?keys=loss").content.decode())[-1] == ["4", "0.1"]
    for query, where in (("chart=nothing", "chart"), ("from_step=3&to_step=2", "to_step"), ("measure=odd", "measure")):
        assert problem(caller.get(f"{base}?{query}"), 422)["errors"][0]["loc"] == ["query", where]


def test_charts_leave_as_images_of_what_they_draw(job: TrainingJob) -> None:
    caller = program(pages_seed.person("viewer"), "read")
    base = f"/fine_tuning/jobs/{job.public_id}/curves.png"
    one, whole = caller.get(f"{base}?chart=loss"), caller.get(base)
    assert (one.headers["Content-Type"], one.status_code, whole.status_code) == ("image/png", 200, 200)
    assert pixels(one.content).shape[1] == chart_images.ALONE[0] * chart_images.DOTS
    assert pixels(whole.content).shape[0] > 3 * chart_images.BESIDE[1] * chart_images.DOTS, "three rows of two charts"
    before = files.make_png(job, ["loss"], CurveChoice())
    assert before == one.content, "the same numbers make the same image"
    zoomed = files.make_png(job, ["loss"], CurveChoice(low=1, high=2))
    assert not np.array_equal(pixels(zoomed), pixels(before))
    assert problem(caller.get(f"{base}?chart=loss,nothing"), 422)["detail"].startswith("The job has no chart 'nothing'")
    empty = TrainingJob.objects.create(method="supervised", model="m", dataset=job.dataset)
    assert "no numbers yet" in problem(caller.get(f"/fine_tuning/jobs/{empty.public_id}/curves.png"), 422)["detail"]


def test_points_that_are_not_verified_are_rings_in_images_too(job: TrainingJob) -> None:
    (chart,) = files.list_named_charts(job, ["success"], CurveChoice())
    drawn = build_drawing(job, [chart], CurveChoice())
    assert [line["open"] for line in drawn["charts"]["success"]] == [[True]]
    told = [pixels(chart_images.draw_png([chart], drawn, "h", "n"))]
    for line in drawn["charts"]["success"]:
        del line["open"]
    told.append(pixels(chart_images.draw_png([chart], drawn, "h", "n")))
    assert told[0].shape == told[1].shape
    assert not np.array_equal(*told)


def test_the_page_links_each_charts_files_and_the_jobs(client: Client, job: TrainingJob) -> None:
    client.force_login(pages_seed.person("viewer"))
    page = client.get(f"/training/{job.public_id}/").content.decode()
    assert f'href="/training/{job.public_id}/curves.csv"' in page
    assert f'href="/training/{job.public_id}/curves.png"' in page
    numbers = client.get(f"/training/{job.public_id}/numbers/?chart=loss").content.decode()
    assert f'href="/training/{job.public_id}/curves.csv?chart=loss"' in numbers
    told = client.get(f"/training/{job.public_id}/curves.csv?chart=loss")
    assert table(told.content.decode())[0] == ["step", "loss"]
    assert told.headers["Content-Disposition"] == f'attachment; filename="{job.public_id}-loss.csv"'
    assert client.get(f"/training/{job.public_id}/curves.png?chart=loss").content.startswith(b"\x89PNG")
    assert client.get(f"/training/{job.public_id}/curves.png?chart=nothing").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_result_files_are_fetched_by_the_openai_client(
    transactional_db: None, site_process: str, job: TrainingJob
) -> None:
    token = token_of(pages_seed.person("viewer"), "read")
    client = openai.OpenAI(base_url=f"{site_process}/api/v1", api_key=token, max_retries=0)
    (name,) = client.fine_tuning.jobs.retrieve(job.public_id).result_files
    about = client.files.retrieve(name)
    content = client.files.content(name).text
    assert (about.purpose, about.filename, about.bytes) == ("fine-tune-results", "step_metrics.csv", len(content))
    head, first, *_ = table(content)
    assert head[:3] == ["step", "train_loss", "train_accuracy"]
    assert first[:3] == ["1", "2.0", "0.25"]
    later = SimpleUploadedFile("later.jsonl", jsonl(lessons(2)))
    uploaded = [file_uploads.store_file(None, later).public_id]
    assert [file.id for file in client.files.list()] == [*uploaded, name], "the newest first"
    assert [file.id for file in client.files.list(order="asc", limit=1)] == [name, *uploaded], "page by page"
    assert [(file.id, file.bytes) for file in client.files.list(purpose="fine-tune-results")] == [(name, about.bytes)]
    assert [file.id for file in client.files.list(purpose="fine-tune")] == uploaded
    with pytest.raises(openai.PermissionDeniedError):
        client.files.delete(name)
    token = token_of(pages_seed.person("researcher"), "read", "train")
    with pytest.raises(openai.ConflictError, match="made of the numbers of its training job"):
        client.with_options(api_key=token).files.delete(name)
    with pytest.raises(openai.BadRequestError):
        list(client.files.list(after="file-nowhere"))
    TrainingJob.objects.filter(pk=job.pk).update(state=TrainingState.RUNNING)
    assert [file.id for file in client.files.list()] == uploaded
    assert client.fine_tuning.jobs.retrieve(job.public_id).result_files == []
    with pytest.raises(openai.NotFoundError):
        client.files.retrieve(name)
