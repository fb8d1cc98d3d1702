"""Jobs wait for a worker with room: memory that holds them, the package of their tracker, the store of their shards."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.runs.job_support import asks, frozen, lessons
from tests.workers import worker_support as support
from tests.workers.test_claims import end, upload
from tests.workers.worker_support import API, a_worker, queued
from training.config import Reinforcement, Supervised
from training.job import MANIFEST
from webapp.accounts.models import AuditEntry
from webapp.runs import control
from webapp.runs.local import worker_process
from webapp.runs.models import TrainingEvent, TrainingJob, TrainingState
from webapp.runs.preflight import matching
from webapp.runs.preflight.job_checks import run_preflight
from webapp.workers import claims, registration
from webapp.workers.registration import Introduction, list_live_candidates

pytestmark = pytest.mark.django_db
NAME = "Qwen/Qwen3-4B"
CONFIG = Supervised(seed=7).model_dump(mode="json")


@pytest.fixture(autouse=True)
def only_workers_that_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.runs.preflight.candidates.SOURCES", {"workers": list_live_candidates})


def with_gpu(name: str, gib: int, count: int = 1, **more: Any):
    devices = [{"name": "a GPU", "memory_mib": gib * 1024}] * count
    about = Introduction(**{"name": name, "devices": devices, "models": [NAME], **more})
    return registration.register_worker(about, support.operator())


def test_a_job_too_large_for_a_worker_waits_for_one_that_holds_it() -> None:
    large, small = queued(model=NAME, config=CONFIG, method="supervised"), queued()
    narrow = with_gpu("narrow", 24)
    told = claims.claim_job(narrow, API)
    assert told is not None
    assert told.job == small.public_id, "a later job that fits is taken meanwhile"
    assert matching.refresh_waiting_reasons() >= 1
    large.refresh_from_db()
    assert "GiB on one GPU, and no worker here has so much (narrow: 24 GiB, of which 92% count)" in large.reason
    assert "adapters (LoRA)" in large.reason
    assert TrainingEvent.objects.filter(job=large, message=large.reason).count() == 1
    wide = with_gpu("wide", 80, 8)
    matching.refresh_waiting_reasons()
    large.refresh_from_db()
    assert large.reason == ""
    told = claims.claim_job(wide, API)
    assert told is not None
    assert told.job == large.public_id


def test_a_person_may_let_a_worker_try_what_the_estimate_forbids(client: Client) -> None:
    job = queued(model=NAME, config=CONFIG, method="supervised")
    narrow, fetches = with_gpu("narrow", 24), a_worker("fetches", models=["*"], main_memory_mib=8 * 1024)
    assert claims.claim_job(narrow, API) is None
    assert claims.claim_job(fetches, API) is None
    matching.refresh_waiting_reasons()
    client.force_login(support.operator())
    assert b"act-ignore-memory" in client.get(reverse("runs:job", args=[job.public_id])).content
    answer = client.post(reverse("runs:ignore_memory", args=[job.public_id]), follow=True)
    assert b"act-ignore-memory" not in answer.content
    matching.refresh_waiting_reasons()
    job.refresh_from_db()
    assert job.reason == ""
    assert claims.claim_job(fetches, API) is None, "the model lies at another's place, who lacks nothing now"
    told = claims.claim_job(narrow, API)
    assert told is not None
    assert told.job == job.public_id
    assert AuditEntry.objects.filter(action="training.ignore_memory").count() == 1


def test_a_worker_without_a_gpu_is_given_what_its_main_memory_holds(client: Client) -> None:
    """By the estimate in float32, weights, gradients and AdamW of 4 billion parameters are 64 GB; the demo is small."""
    short = Supervised(seed=7, max_length=512).model_dump(mode="json")
    large, small = queued(model=NAME, config=short, method="supervised"), queued()
    box = a_worker("box", models=[NAME], main_memory_mib=24 * 1024)
    told = claims.claim_job(box, API)
    assert told is not None
    assert told.job == small.public_id
    matching.refresh_waiting_reasons()
    large.refresh_from_db()
    assert "GiB of main memory, and no worker here has so much (box: 24 GiB, of which 92% count)" in large.reason
    assert "GPU" not in large.reason, "nothing that a worker without one could do"
    wide = a_worker("wide", models=[NAME], main_memory_mib=256 * 1024)
    matching.refresh_waiting_reasons()
    large.refresh_from_db()
    assert large.reason == ""
    claims.end_worker(wide)
    matching.refresh_waiting_reasons()
    client.force_login(support.operator())
    client.post(reverse("runs:ignore_memory", args=[large.public_id]))
    told = claims.claim_job(box, API)
    assert told is not None
    assert told.job == large.public_id


def test_what_is_offloaded_has_to_be_in_main_memory() -> None:
    hardware = {"sharding": "fsdp2", "offload": True}
    job = queued(model=NAME, config={**CONFIG, "hardware": hardware}, method="supervised")
    assert claims.claim_job(with_gpu("short", 48, 2, main_memory_mib=32 * 1024), API) is None
    matching.refresh_waiting_reasons()
    job.refresh_from_db()
    assert (
        "60 GiB of main memory for what is offloaded, and no worker here has so much (short: 32 GiB, of" in job.reason
    )
    assert claims.claim_job(with_gpu("long", 48, 2, main_memory_mib=96 * 1024), API) is not None


def test_a_job_waits_for_a_worker_that_has_its_tracker(client: Client) -> None:
    job = queued(config=Reinforcement(seed=7, report_to="trackio").model_dump(mode="json"))
    bare = a_worker("bare", software={"torch": "2"})
    assert claims.claim_job(bare, API) is None
    matching.refresh_waiting_reasons()
    job.refresh_from_db()
    client.force_login(support.operator())
    page = client.get(reverse("runs:job", args=[job.public_id])).content.decode()
    assert "The package trackio, which its numbers are reported to, is not installed at bare" in page
    assert "pip install trackio" in page
    assert "act-ignore-memory" not in page, "no estimate that could be wrong"
    claims.end_worker(bare)
    able = a_worker("able", software={"torch": "2", "trackio": "0.3"})
    matching.refresh_waiting_reasons()
    job.refresh_from_db()
    assert job.reason == ""
    assert [one.name for one in matching.list_able_candidates(job, list_live_candidates())] == ["able"]
    told = claims.claim_job(able, API)
    assert told is not None
    assert told.job == job.public_id


def test_a_worker_that_tells_nothing_of_its_software_is_given_any_tracker() -> None:
    queued(config=Reinforcement(seed=7, report_to="wandb").model_dump(mode="json"))
    assert claims.claim_job(a_worker("untold"), API) is not None


def test_each_reason_of_several_workers_is_told(client: Client) -> None:
    """One lacks the tracker and one the memory: either can be mended, and the latter's estimate overruled."""
    job = queued(model=NAME, config={**CONFIG, "report_to": "wandb"}, method="supervised")
    with_gpu("wide", 80, 8, software={"torch": "2"})
    narrow = with_gpu("narrow", 24, software={"wandb": "0.2"})
    matching.refresh_waiting_reasons()
    job.refresh_from_db()
    assert "not installed at wide" in job.reason
    assert "(narrow: 24 GiB, of which 92% count)" in job.reason
    client.force_login(support.operator())
    client.post(reverse("runs:ignore_memory", args=[job.public_id]))
    assert claims.claim_job(narrow, API) is not None


@pytest.mark.parametrize(
    ("listing", "report_to"), [({"gib": 24}, "none"), ({"gib": 80, "count": 8, "software": {"torch": "2"}}, "wandb")]
)
def test_a_worker_that_lists_a_model_comes_first_only_where_it_lacks_nothing(
    listing: dict[str, Any], report_to: str
) -> None:
    """Else who may fetch the model takes the job: claims, the reason for waiting and the preflight say the same."""
    asked = asks(frozen(lessons()), "supervised", model=NAME, changes={"report_to": report_to})
    job = queued(model=NAME, config={**CONFIG, "report_to": report_to}, method="supervised")
    lists = with_gpu("lists", **listing)
    matching.refresh_waiting_reasons()
    job.refresh_from_db()
    assert job.reason
    assert run_preflight(asked).queue.able == ()
    software = {"torch": "2", "wandb": "0.2"}
    fetches = with_gpu("fetches", 80, 8, models=["*"], software=software)
    assert run_preflight(asked).queue.able == ("fetches",)
    assert {one.code for one in run_preflight(asked).warnings}.isdisjoint({"too_large", "package_missing"})
    matching.refresh_waiting_reasons()
    job.refresh_from_db()
    assert job.reason == ""
    assert [one.name for one in matching.list_able_candidates(job, list_live_candidates())] == ["fetches"]
    assert claims.claim_job(lists, API) is None
    able = with_gpu("able", 80, 8, software=software)
    assert claims.claim_job(fetches, API) is None, "one that lists it lacks nothing by now"
    assert run_preflight(asked).queue.able == ("able",)
    claims.end_worker(able)
    told = claims.claim_job(fetches, API)
    assert told is not None
    assert told.job == job.public_id


def test_the_worker_of_this_site_is_not_started_for_a_job_that_it_would_not_be_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_process.installation, "can_import_training", lambda: True)
    monkeypatch.setattr(worker_process, "has_nvidia", lambda: False)
    monkeypatch.setattr(worker_process, "read_main_memory", lambda: 8 << 30)
    monkeypatch.setattr(worker_process, "can_fetch_models", lambda: True)
    job = queued(model=NAME, config=CONFIG, method="supervised")
    assert not worker_process.is_worker_wanted(), "it would find nothing to do, again and again"
    control.ignore_job_memory(job, support.operator())
    assert worker_process.is_worker_wanted()
    lists = a_worker("lists", models=[NAME])
    assert not worker_process.is_worker_wanted(), "the model lies at another's place"
    claims.end_worker(lists)
    job.delete()
    demo = queued()
    assert worker_process.is_worker_wanted()
    monkeypatch.setattr(worker_process.importlib.util, "find_spec", lambda name: None)
    TrainingJob.objects.filter(pk=demo.pk).update(config={**demo.config, "report_to": "trackio"})
    assert not worker_process.is_worker_wanted()


def test_a_worker_whose_memory_is_not_known_takes_what_it_can_load() -> None:
    queued(model=NAME, config=CONFIG, method="supervised")
    assert claims.claim_job(a_worker(models=[NAME]), API) is not None


def test_a_job_goes_on_where_its_shards_lie() -> None:
    """Its own worker's store, or another's that is given the same one; without a manifest anywhere."""
    job = queued()
    first = a_worker("first", store="/data/checkpoints")
    assert claims.claim_job(first, API) is not None
    job.refresh_from_db()
    manifest = {"store": "/data/checkpoints", "place": "x", "shards": [{"path": "a", "bytes": 1, "sha256": "0" * 64}]}
    files = support.checkpoint_files(2)
    upload(job, 2, files | {MANIFEST: json.dumps(manifest).encode()})
    claims.end_worker(first)
    job.refresh_from_db()
    assert job.state == TrainingState.QUEUED
    elsewhere, there = a_worker("elsewhere", store="/home/checkpoints"), a_worker("there", store="/data/checkpoints")
    assert claims.claim_job(elsewhere, API) is None
    claims.end_worker(there)
    matching.refresh_waiting_reasons()
    job.refresh_from_db()
    assert "start one with --checkpoints /data/checkpoints" in job.reason
    there = a_worker("there", store="/data/checkpoints")
    told = claims.claim_job(there, API)
    assert told is not None
    assert told.resume is not None
    job.refresh_from_db()
    upload(job, 4)
    claims.end_worker(there)
    assert claims.claim_job(elsewhere, API) is not None, "a checkpoint that lies here has no place of its own"
    job.refresh_from_db()
    assert end(job, "stopped").attempt == 3
