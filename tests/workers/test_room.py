"""Jobs wait for a worker with room: GPUs that hold them, and the store that their shards lie in."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.urls import reverse

from tests.workers import worker_support as support
from tests.workers.test_claims import end, upload
from tests.workers.worker_support import API, a_worker, queued
from training.config import Supervised
from training.job import MANIFEST
from webapp.accounts.models import AuditEntry
from webapp.runs import matching
from webapp.runs.models import TrainingEvent, TrainingState
from webapp.workers import claims, registration
from webapp.workers.registration import Introduction, live_candidates

pytestmark = pytest.mark.django_db
NAME = "Qwen/Qwen3-4B"
CONFIG = Supervised(seed=7).model_dump(mode="json")


@pytest.fixture(autouse=True)
def only_workers_that_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.runs.candidates.SOURCES", {"workers": live_candidates})


def with_gpu(name: str, gib: int, count: int = 1, **more: str):
    devices = [{"name": "a GPU", "memory_mib": gib * 1024}] * count
    return registration.register(Introduction(name=name, devices=devices, models=[NAME], **more), support.operator())


def test_a_job_too_large_for_a_worker_waits_for_one_that_holds_it() -> None:
    large, small = queued(model=NAME, config=CONFIG, method="supervised"), queued()
    narrow = with_gpu("narrow", 24)
    told = claims.claim(narrow, API)
    assert told is not None
    assert told.job == small.public_id, "a later job that fits is taken meanwhile"
    assert matching.refresh() >= 1
    large.refresh_from_db()
    assert "GiB on one GPU, and no worker here has so much (narrow: 24 GiB)" in large.reason
    assert "adapters (LoRA)" in large.reason
    assert TrainingEvent.objects.filter(job=large, message=large.reason).count() == 1
    wide = with_gpu("wide", 80, 8)
    matching.refresh()
    large.refresh_from_db()
    assert large.reason == ""
    told = claims.claim(wide, API)
    assert told is not None
    assert told.job == large.public_id


def test_a_person_may_let_a_worker_try_what_the_estimate_forbids(client: Client) -> None:
    job = queued(model=NAME, config=CONFIG, method="supervised")
    narrow, fetches = with_gpu("narrow", 24), a_worker("fetches", models=["*"])
    assert claims.claim(narrow, API) is None
    assert claims.claim(fetches, API) is None, "the model lies at another's place"
    matching.refresh()
    client.force_login(support.operator())
    assert b"act-ignore-memory" in client.get(reverse("runs:job", args=[job.public_id])).content
    answer = client.post(reverse("runs:ignore_memory", args=[job.public_id]), follow=True)
    assert b"act-ignore-memory" not in answer.content
    matching.refresh()
    job.refresh_from_db()
    assert job.reason == ""
    told = claims.claim(narrow, API)
    assert told is not None
    assert told.job == job.public_id
    assert AuditEntry.objects.filter(action="training.ignore_memory").count() == 1


def test_a_worker_whose_memory_is_not_known_takes_what_it_can_load() -> None:
    queued(model=NAME, config=CONFIG, method="supervised")
    assert claims.claim(a_worker(models=[NAME]), API) is not None


def test_a_job_goes_on_where_its_shards_lie() -> None:
    """Its own worker's store, or another's that is given the same one; without a manifest anywhere."""
    job = queued()
    first = a_worker("first", store="/data/checkpoints")
    assert claims.claim(first, API) is not None
    job.refresh_from_db()
    manifest = {"store": "/data/checkpoints", "place": "x", "shards": [{"path": "a", "bytes": 1, "sha256": "0" * 64}]}
    files = support.checkpoint_files(2)
    upload(job, 2, files | {MANIFEST: json.dumps(manifest).encode()})
    claims.goodbye(first)
    job.refresh_from_db()
    assert job.state == TrainingState.QUEUED
    elsewhere, there = a_worker("elsewhere", store="/home/checkpoints"), a_worker("there", store="/data/checkpoints")
    assert claims.claim(elsewhere, API) is None
    claims.goodbye(there)
    matching.refresh()
    job.refresh_from_db()
    assert "start one with --checkpoints /data/checkpoints" in job.reason
    there = a_worker("there", store="/data/checkpoints")
    told = claims.claim(there, API)
    assert told is not None
    assert told.resume is not None
    job.refresh_from_db()
    upload(job, 4)
    claims.goodbye(there)
    assert claims.claim(elsewhere, API) is not None, "a checkpoint that lies here has no place of its own"
    job.refresh_from_db()
    assert end(job, "stopped").attempt == 3
