"""When jobs are queued, and where the next attempt goes on."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.workers import worker_support as support
from tests.workers.test_claims import end, over, upload
from tests.workers.worker_support import claimed, queued, take
from webapp.datasets.models import Dataset, DatasetState
from webapp.runs.models import Checkpoint, CheckpointState, TrainingEvent, TrainingJob, TrainingState
from webapp.workers import checkpoint_uploads, claims

pytestmark = pytest.mark.django_db


def test_jobs_wait_for_their_data_and_for_the_job_before() -> None:
    freezing = Dataset.objects.create(name="d", kind="tasks", state=DatasetState.FREEZING)
    broken = Dataset.objects.create(name="d", kind="tasks", state=DatasetState.FAILED, error="nothing matches")
    before = queued(state=TrainingState.RUNNING, lease_until=timezone.now() + timedelta(hours=1))
    states = {"state": TrainingState.VALIDATING}
    waits, fails = queued(dataset=freezing, **states), queued(dataset=broken, **states)
    follows, ready = queued(after=before, model="after", **states), queued(**states)
    assert claims.reap_jobs() == 2
    still = TrainingState.VALIDATING
    for job, state in ((waits, still), (fails, "failed"), (follows, still), (ready, "queued")):
        job.refresh_from_db()
        assert job.state == state
    assert (fails.error_code, fails.error_param) == ("dataset_failed", "dataset")
    assert "nothing matches" in fails.error
    TrainingJob.objects.filter(pk=before.pk).update(state=TrainingState.CANCELLED)
    Dataset.objects.filter(pk=freezing.pk).update(state=DatasetState.READY)
    assert claims.reap_jobs() == 2
    waits.refresh_from_db()
    follows.refresh_from_db()
    assert (waits.state, follows.state, follows.error_code) == ("queued", "failed", "after_failed")


def test_why_a_job_waits_is_told_as_workers_come_and_go() -> None:
    job = queued(model="org/rare")

    def why() -> str:
        claims.reap_jobs()
        job.refresh_from_db()
        return job.reason

    assert why() == "No worker is here: the job waits until one comes."
    plain = support.a_worker("plain", models=["org/other"])
    assert "can load org/rare: start one that has it in its folder of models (--models)" in why()
    assert "(--hub org/rare)" in job.reason
    assert claims.claim_job(plain, support.API) is None
    told = TrainingEvent.objects.filter(job=job, level="warn")
    assert [event.message for event in told.order_by("pk")][-1] == job.reason
    count = told.count()
    assert why() == job.reason
    assert told.count() == count, "what is known is not said again"
    able = support.a_worker("able", models=["org/rare"])
    assert why() == ""
    claims.end_worker(able)
    assert "can load org/rare. The job waits for able" in why()
    assert told.count() == count + 1, "whom it waits for is another reason"
    told_job = claims.claim_job(support.a_worker("able", models=["org/rare"]), support.API)
    assert told_job is not None
    job.refresh_from_db()
    assert (job.state, job.reason) == (TrainingState.RUNNING, "")


def test_a_follower_is_queued_with_the_end_of_the_job_before() -> None:
    job, _, _ = claimed()
    follower = queued(after=job, model="after", state=TrainingState.VALIDATING)
    upload(job, 4, final=True)
    take(job, [support.values(1, 4, loss=1.0)])
    end(job, "done")
    follower.refresh_from_db()
    assert follower.state == TrainingState.QUEUED


def test_the_next_attempt_goes_on_from_the_last_whole_checkpoint() -> None:
    job, _, _ = claimed()
    take(job, support.course(1, 9))
    upload(job, 4)
    upload(job, 8)
    half = checkpoint_uploads.begin_checkpoint(
        job.public_id, 1, 9, False, support.announced(support.checkpoint_files(9))
    )
    over(job)
    claims.reap_jobs()
    _, told, _ = claimed(job)
    assert told.resume is not None
    assert told.resume.step == 8
    assert {file.path for file in told.resume.files} == set(support.checkpoint_files(8))
    assert job.attempts.get(number=2).from_step == 8
    assert Checkpoint.objects.get(pk=half.pk).state == CheckpointState.UPLOADING
