"""What the API says beyond OpenAI's: numbers, rollouts, logs, presets, models."""

from __future__ import annotations

import hashlib
import re
import time
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.fixtures import pages_seed
from tests.fixtures.api import Program, problem, program
from tests.runs.job_support import asks, frozen, lessons, tasks
from tests.workers.test_claims import upload
from tests.workers.worker_support import announced, checkpoint_files, claimed
from training import presets
from webapp.accounts.models import AuditEntry
from webapp.runs.models import MetricKey, MetricPoint, RolloutFile, RunRollout, TrainingAttempt, TrainingJob
from webapp.runs.services import create_job
from webapp.workers import checkpoint_uploads

pytestmark = pytest.mark.django_db
ADVANTAGES = [0.5, None, -1.0, 0.5, 2.0, None]


@pytest.fixture
def job() -> TrainingJob:
    return create_job(asks(frozen(tasks(), test_share=0.3)), pages_seed.person("researcher"))


@pytest.fixture
def reader() -> Program:
    return program(pages_seed.person("viewer"), "read")


def test_numbers_come_in_buckets_with_their_names(job: TrainingJob, reader: Program) -> None:
    for name in ("reward", "environment/a/reward"):
        key = MetricKey.objects.create(job=job, name=name, last_step=100, last_value=1.0)
        MetricPoint.objects.bulk_create(MetricPoint(key=key, attempt=1, step=n, value=n / 100) for n in range(1, 101))
    path = f"/fine_tuning/jobs/{job.public_id}/metrics"
    whole = reader.get(path).json()
    assert [one["name"] for one in whole["series"]] == ["reward"]
    assert [key["label"] for key in whole["keys"]] == ["Mean reward of the attempts that count"] * 2
    assert "held out" in whole["sentence"]
    asked = "?keys=environment/a/reward,success&from_step=11&to_step=30&resolution=4"
    (found,) = reader.get(path + asked).json()["series"]
    assert found["width"] == 5
    assert [(one["first"], one["last_step"]) for one in found["buckets"]] == [(11, 15), (16, 20), (21, 25), (26, 30)]
    assert found["buckets"][0] | {"mean": 0.13} == {
        "first": 11, "last_step": 15, "points": 5, "gaps": 0, "min": 0.11, "max": 0.15, "mean": 0.13, "last": 0.15,
        "unverified": 5,
    }  # fmt: skip
    problem(reader.get(f"{path}?resolution=0"), 422)
    assert "No job has numbers called 'none'" in problem(reader.get(f"{path}?keys=reward,none"), 422)["detail"]
    assert "to_step: Is before from_step" in problem(reader.get(f"{path}?from_step=9&to_step=3"), 422)["detail"]
    problem(reader.get(f"{path}?keys={'a,' * 201}"), 422)


@pytest.mark.parametrize("order", ["-advantage", "advantage", "index"])
def test_a_steps_rollouts_are_paged_in_every_order(order: str, job: TrainingJob, reader: Program) -> None:
    files = [
        RolloutFile.objects.create(job=job, attempt=attempt, step=3, sha256="0" * 64, superseded=attempt == 1)
        for attempt in (1, 2)
    ]
    for place, advantage in enumerate(ADVANTAGES):
        for file in files:
            RunRollout.objects.create(file=file, index=place, row=f"r{place}", advantage=advantage)
    path = f"/fine_tuning/jobs/{job.public_id}/rollouts?step=3&order={order}&limit=2"
    rows: list[dict[str, Any]] = []
    more = True
    while more:
        page = reader.get(path + (f"&after={rows[-1]['id']}" if rows else "")).json()
        rows, more = rows + page["data"], page["has_more"]
        assert len(page["data"]) == 2
    places = {"-advantage": [4, 3, 0, 2, 5, 1], "advantage": [2, 0, 3, 4, 1, 5], "index": [0, 1, 2, 3, 4, 5]}[order]
    assert [row["index"] for row in rows] == places
    assert {(row["step"], row["attempt"]) for row in rows} == {(3, 2)}
    problem(reader.get(f"{path}&after=999999"), 400)


def test_the_end_is_estimated_by_the_last_steps_of_a_job_that_runs(job: TrainingJob, reader: Program) -> None:
    path = f"/fine_tuning/jobs/{job.public_id}"
    begun = timezone.now() - timedelta(days=3)  # most of which it was paused
    TrainingJob.objects.filter(pk=job.pk).update(state="running", step=30, total_steps=40, started_at=begun)
    assert reader.get(path).json()["estimated_finish"] is None, "no pace is known"
    key = MetricKey.objects.create(job=job, name="step_s", last_step=30)
    slow, lost = [MetricPoint(key=key, attempt=1, step=n, value=900) for n in range(1, 11)], 7_000.0
    points = [MetricPoint(key=key, attempt=2, step=n, value=59 + n % 2 * 2) for n in range(11, 31)]
    points += [MetricPoint(key=key, attempt=1, step=12, value=lost, superseded=True), *slow]
    MetricPoint.objects.bulk_create(points)
    for found in (reader.get(path).json(), reader.get("/fine_tuning/jobs?limit=1").json()["data"][0]):
        assert abs(found["estimated_finish"] - time.time() - 600) < 60
    assert re.search("about (9|10) min [0-9]+ s left", program_page(job))
    for change in ({"wish": "pause"}, {"wish": "", "state": "paused"}, {"state": "running", "total_steps": 0}):
        TrainingJob.objects.filter(pk=job.pk).update(**change)
        assert reader.get(path).json()["estimated_finish"] is None, change


def program_page(job: TrainingJob) -> str:
    client = Client()
    client.force_login(pages_seed.person("annotator"))
    return str(client.get(f"/training/{job.public_id}/live/").content.decode())


def test_files_of_a_checkpoint_are_downloaded_but_no_state_of_the_optimiser() -> None:
    job, _, _ = claimed()
    saved, half = (
        upload(job, 2),
        checkpoint_uploads.begin_checkpoint(job.public_id, 1, 3, False, announced(checkpoint_files(3))),
    )
    files = checkpoint_files(2)
    who = program(pages_seed.person("researcher"), "read", "train")
    place = f"/fine_tuning/jobs/{job.public_id}/checkpoints/{saved.public_id}/files"
    told = {one["path"]: one for one in who.get(place).json()["data"]}
    assert set(told) == {"model.safetensors", "trainer_state.json"}
    weights = files["model.safetensors"]
    assert (told["model.safetensors"]["bytes"], told["model.safetensors"]["sha256"]) == (
        len(weights), hashlib.sha256(weights).hexdigest()
    )  # fmt: skip
    url = told["model.safetensors"]["url"].removeprefix("/api/v1")
    whole, part = who.get(url), who.get(url, Range="bytes=10-19")
    assert (whole.status_code, whole.content) == (200, weights)
    assert whole.headers["Content-Disposition"] == 'attachment; filename="model.safetensors"'
    assert (part.status_code, part.content, part.headers["Content-Range"]) == (
        206, weights[10:20], f"bytes 10-19/{len(weights)}"
    )  # fmt: skip
    problem(who.get(url, Range=f"bytes={len(weights)}-"), 416)
    assert "for resuming" in problem(who.get(f"{place}/optimizer.pt"), 404)["detail"]
    problem(who.get(f"{place}/../secret"), 404)
    assert who.get(place.replace(saved.public_id, half.public_id)).json()["data"] == []
    problem(who.get(f"{place}/model.safetensors".replace(saved.public_id, half.public_id)), 404)
    other = create_job(asks(frozen(lessons()), "supervised"), None)
    problem(who.get(place.replace(job.public_id, other.public_id)), 404)
    reader = program(pages_seed.person("viewer"), "read")
    assert reader.get(place).status_code == 200
    problem(reader.get(url), 403)
    assert AuditEntry.objects.filter(action="checkpoint.download").count() == 1


def test_logs_are_those_of_each_attempt(job: TrainingJob, reader: Program) -> None:
    for number in (1, 2):
        TrainingAttempt.objects.create(job=job, number=number, log=f"printed {number}", exit="fault")
    found = reader.get(f"/fine_tuning/jobs/{job.public_id}/logs").json()["data"]
    assert [(one["attempt"], one["log"]) for one in found] == [(2, "printed 2"), (1, "printed 1")]


def test_presets_say_where_each_value_comes_from(reader: Program) -> None:
    found = {one["name"]: one for one in reader.get("/fine_tuning/presets").json()["data"]}
    assert set(found) == set(presets.list_presets())
    marks = {one["path"]: one["mark"] for one in found["envscaler-sft"]["values"]}
    assert marks["epochs"] == {"kind": "published", "note": "ES B.2"}
    assert marks["too_long"]["kind"] == "ours"


def test_models_are_the_demos_and_those_of_jobs(job: TrainingJob, reader: Program) -> None:
    TrainingJob.objects.filter(pk=job.pk).update(fine_tuned_model=f"ft:{job.public_id}")
    found = reader.get("/models").json()["data"]
    assert {one["id"] for one in found} == {"envarium-demo", f"ft:{job.public_id}"}


def test_who_may_look_may_not_act(job: TrainingJob, reader: Program) -> None:
    for act in ("cancel", "pause", "resume"):
        problem(reader.post(f"/fine_tuning/jobs/{job.public_id}/{act}"), 403)
    problem(reader.post("/fine_tuning/jobs", {}), 403)


@pytest.mark.parametrize("name", ["metadata[a", "metadata[]", "metadata[a][b]", "metadatas[a]"])
def test_a_filter_that_is_spelled_wrongly_is_refused(name: str, reader: Program) -> None:
    problem(reader.get(f"/fine_tuning/jobs?{name}=1"), 422)
