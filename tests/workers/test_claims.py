"""Who holds a job: claims, leases, ends, and what becomes of a job whose worker dies. No job has two holders."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.workers import worker_support as support
from tests.workers.worker_support import API, a_worker, at_once, claimed, queued, take
from webapp.common.claims import StaleClaim
from webapp.runs import transitions
from webapp.runs.models import (
    AttemptEnd,
    Checkpoint,
    MetricPoint,
    TrainingAttempt,
    TrainingEvent,
    TrainingJob,
    TrainingState,
)
from webapp.runs.transitions import AttemptEnding
from webapp.workers import checkpoint_uploads, claims, registration
from webapp.workers.errors import NoFinalModel, UnknownWorker
from webapp.workers.models import Worker

pytestmark = pytest.mark.django_db
beside_others = pytest.mark.django_db(transaction=True)


def over(job: TrainingJob) -> None:
    """The lease is over, as after a silence."""
    TrainingJob.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def end(job: TrainingJob, exit: str, message: str = "", **more: Any) -> TrainingJob:
    claims.end_attempt(job.public_id, job.attempt, AttemptEnding(exit, message, **more))
    job.refresh_from_db()
    return job


def upload(job: TrainingJob, step: int, files: dict[str, bytes] | None = None, final: bool = False) -> Checkpoint:
    """A whole checkpoint, as a worker sends it."""
    files = files or (support.FINAL if final else support.checkpoint_files(step))
    row = checkpoint_uploads.begin_checkpoint(job.public_id, job.attempt, step, final, support.announced(files))
    for path, content in files.items():
        checkpoint_uploads.take_piece(job.public_id, job.attempt, row.public_id, path, 0, content)
    return checkpoint_uploads.complete_checkpoint(job.public_id, job.attempt, row.public_id)


def test_the_oldest_job_is_claimed_with_all_that_a_trainer_needs() -> None:
    first, second = queued(), queued()
    told = claims.claim_job(a_worker(), API)
    assert told is not None
    assert (told.job, told.attempt, told.seed) == (first.public_id, 1, 7)
    assert told.model.kind == "demo"
    assert {file.path for file in told.dataset.files} == {"train.jsonl", "test.jsonl", "manifest.json"}
    assert all(len(file.sha256) == 64 and file.url.startswith(API) for file in told.dataset.files)
    assert told.resume is None
    assert told.user is None
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == (TrainingState.RUNNING, TrainingState.QUEUED)
    assert first.started_at
    assert first.lease_until
    assert first.lease_until > timezone.now()
    assert TrainingAttempt.objects.get(job=first).worker == first.worker


@beside_others
def test_two_workers_never_hold_one_job() -> None:
    jobs = [queued() for _ in range(3)]
    workers = [a_worker(f"w{number}") for number in range(8)]
    found = at_once(*(lambda worker=worker: claims.claim_job(worker, API) for worker in workers))
    taken = [told.job for told in found if told is not None]
    assert sorted(taken) == sorted(job.public_id for job in jobs)
    assert TrainingAttempt.objects.count() == 3
    assert set(TrainingJob.objects.values_list("attempt", flat=True)) == {1}


@beside_others
def test_a_waiting_claim_gets_the_job_that_comes() -> None:
    worker = a_worker()

    def come() -> None:
        queued()

    told, _ = at_once(lambda: claims.claim_job(worker, API, wait_s=20), come)
    assert told.attempt == 1
    assert claims.claim_job(a_worker("other"), API, wait_s=0.2) is None


def test_a_worker_takes_only_what_it_can_do() -> None:
    queued(engine="vllm")
    assert claims.claim_job(a_worker(), API) is None
    assert claims.claim_job(a_worker("fast", engines=["transformers", "vllm"]), API) is not None
    queued(model="small/model")
    a_worker("has-it", models=["small/model"])
    assert claims.claim_job(a_worker("has-not"), API) is None
    anywhere = a_worker("anywhere", models=["*"])
    assert claims.claim_job(anywhere, API) is None, "who has it comes first"
    told = claims.claim_job(a_worker("has-it", models=["small/model"]), API)
    assert told is not None
    assert told.model.kind == "named"
    # What lies nowhere is for those that may fetch any, and can say why one cannot be had.
    queued(model="nobody/knows")
    assert claims.claim_job(a_worker("has-not"), API) is None
    assert claims.claim_job(anywhere, API) is not None
    # Who has a model and not the engine keeps nobody from fetching it.
    queued(model="small/model", engine="vllm")
    assert claims.claim_job(a_worker("fast", engines=["transformers", "vllm"], models=["*"]), API) is not None


def test_a_job_whose_model_is_gone_fails_in_words_and_the_next_one_is_claimed() -> None:
    source = queued(state=TrainingState.SUCCEEDED)
    gone = queued(model="after", after=source)
    unknown = queued(model="ft:ftjob-nothing")
    good = queued()
    told = claims.claim_job(a_worker(), API)
    assert told is not None
    assert told.job == good.public_id
    for job in (gone, unknown):
        job.refresh_from_db()
        assert (job.state, job.error_param) == (TrainingState.FAILED, "model")
        assert "model" in job.error


def test_a_heartbeat_renews_the_lease_and_brings_the_wish() -> None:
    job, told, worker = claimed()
    over(job)
    TrainingJob.objects.filter(pk=job.pk).update(wish="pause")
    answer = claims.record_heartbeat(worker, {"memory_mib": 5, "gpus": []}, told.job, told.attempt, 3)
    assert (answer.wish, answer.stale) == ("pause", False)
    assert claims.reap_jobs() == 0
    worker.refresh_from_db()
    assert worker.usage == {"memory_mib": 5, "gpus": [], "step": 3}
    assert claims.record_heartbeat(worker, {}, told.job, told.attempt + 1).stale
    assert claims.record_heartbeat(a_worker("other"), {}, told.job, told.attempt).stale
    assert claims.record_heartbeat(worker, {}) == claims.HeartbeatAnswer()


def test_a_silent_worker_loses_its_job_and_a_zombie_writes_nothing() -> None:
    job, _, worker = claimed()
    take(job, support.course(1, 4))
    upload(job, 2)
    over(job)
    assert claims.reap_jobs() == 1
    job.refresh_from_db()
    assert (job.state, job.lost, job.worker) == (TrainingState.QUEUED, 1, "")
    assert job.attempts.get(number=1).state == AttemptEnd.LOST
    job, told, _ = claimed(job)
    assert (told.attempt, told.resume and told.resume.step) == (2, 2)
    before = list(MetricPoint.objects.values_list("pk", "value"))
    files = support.checkpoint_files(5)
    zombie: list[Any] = [
        lambda: take(job, support.course(5, 6), number=1),
        lambda: claims.end_attempt(job.public_id, 1, AttemptEnding("memory", "Out of memory.")),
        lambda: checkpoint_uploads.begin_checkpoint(job.public_id, 1, 5, False, support.announced(files)),
    ]
    for act in zombie:
        with pytest.raises(StaleClaim):
            act()
    assert list(MetricPoint.objects.values_list("pk", "value")) == before
    job.refresh_from_db()
    assert (job.state, job.error) == (TrainingState.RUNNING, "")
    assert claims.record_heartbeat(worker, {}, job.public_id, 1).stale


def test_a_worker_that_comes_back_holds_its_job_again_if_nobody_took_it() -> None:
    """The site was away for longer than the lease, and the trainer went on."""
    for back in (
        lambda job, worker: take(job, support.course(5, 6)),
        lambda job, worker: claims.record_heartbeat(worker, {}, job.public_id, 1),
    ):
        job, _, worker = claimed()
        take(job, support.course(1, 4))
        over(job)
        assert claims.reap_jobs() == 1
        back(job, worker)
        job.refresh_from_db()
        assert (job.state, job.attempt, job.lost, job.worker) == (TrainingState.RUNNING, 1, 0, worker.public_id)
        assert job.attempts.get().state == AttemptEnd.RUNNING
        assert not claims.record_heartbeat(worker, {}, job.public_id, 1).stale
        assert claims.reap_jobs() == 0
        claims.end_worker(worker)
        assert claims.record_heartbeat(worker, {}, job.public_id, 1).stale
        TrainingJob.objects.filter(pk=job.pk).update(state=TrainingState.CANCELLED)


@beside_others
def test_a_late_end_and_the_reaper_do_not_both_move_the_job() -> None:
    """Whoever is first: the worker is there, and what it says of the end counts, once."""
    for _ in range(5):
        job, _, _ = claimed()
        over(job)
        ended, _ = at_once(lambda job=job: end(job, "memory", "Out of memory."), claims.reap_jobs)
        job.refresh_from_db()
        assert not isinstance(ended, Exception)
        assert (job.state, job.lost, job.error_code) == (TrainingState.FAILED, 0, "memory")
        assert job.attempts.count() == 1


def test_a_job_that_is_lost_again_and_again_fails_unless_it_gets_on() -> None:
    job = queued()
    for number in range(1, transitions.TRIES + 1):
        job, _, _ = claimed(job)
        over(job)
        claims.reap_jobs()
        job.refresh_from_db()
        assert (job.state, job.lost) == (TrainingState.QUEUED, number)
    job, _, _ = claimed(job)
    upload(job, 1)  # it got on
    over(job)
    claims.reap_jobs()
    job.refresh_from_db()
    assert (job.state, job.lost) == (TrainingState.QUEUED, 1)
    for _ in range(transitions.TRIES):
        job, _, _ = claimed(job)
        over(job)
        claims.reap_jobs()
    job.refresh_from_db()
    assert (job.state, job.error_code) == (TrainingState.FAILED, "worker_lost")
    assert job.finished_at


def test_done_needs_the_final_model_and_is_said_once() -> None:
    job, _, _ = claimed()
    with pytest.raises(NoFinalModel):
        end(job, "done")
    upload(job, 4, final=True)
    take(job, [support.values(1, 4, loss=1.0)])
    result = {"ended": "done", "step": 4, "evaluations": []}
    end(job, "done", result=result, log="the last line")
    assert (job.state, job.fine_tuned_model) == (TrainingState.SUCCEEDED, f"ft:{job.public_id}")
    assert job.result == result
    finished, events = job.finished_at, TrainingEvent.objects.count()
    end(job, "done")  # its answer was lost on the way
    assert (job.finished_at, TrainingEvent.objects.count()) == (finished, events)
    assert job.attempts.get().log == "the last line"
    follower = queued(model="after", after=job)
    _, told, _ = claimed(follower)
    assert (told.model.kind, told.model.name) == ("files", f"ft:{job.public_id}")
    assert {file.path for file in told.model.files} == set(support.FINAL)


@pytest.mark.parametrize(
    ("exit", "wish", "state"),
    [
        ("stopped", "pause", TrainingState.PAUSED),
        ("stopped", "cancel", TrainingState.CANCELLED),
        ("stopped", "", TrainingState.QUEUED),
        ("out_of_time", "", TrainingState.PAUSED),
        ("too_many_lost", "", TrainingState.PAUSED),
        ("program_errors", "", TrainingState.PAUSED),
        ("infrastructure", "", TrainingState.QUEUED),
        ("crashed", "cancel", TrainingState.CANCELLED),
        ("crashed", "pause", TrainingState.PAUSED),
        ("input", "pause", TrainingState.FAILED),
        ("input", "", TrainingState.FAILED),
        ("diverged", "", TrainingState.FAILED),
        ("memory", "", TrainingState.FAILED),
        ("fault", "", TrainingState.FAILED),
        ("crashed", "", TrainingState.QUEUED),
    ],
)
def test_what_becomes_of_a_job(exit: str, wish: str, state: str) -> None:
    job, _, _ = claimed()
    TrainingJob.objects.filter(pk=job.pk).update(wish=wish)
    end(job, exit, "")
    assert job.state == state
    assert (job.wish, job.worker, job.lease_until) == ("", "", None)
    assert bool(job.finished_at) == (state in (TrainingState.FAILED, TrainingState.CANCELLED))
    if state == TrainingState.FAILED:
        assert (job.error_code, bool(job.error)) == (exit, True)
    if exit in ("out_of_time", "too_many_lost", "program_errors"):
        assert job.reason
    if exit in ("too_many_lost", "program_errors", "infrastructure") or (exit, wish) == ("crashed", ""):
        assert TrainingEvent.objects.filter(job=job, kind="alarm").exists()


def test_words_of_a_failure_name_the_field() -> None:
    job, _, _ = claimed()
    end(job, "input", "optimiser.precision: this device has no bf16\x00; take `auto`", code="input")
    assert job.error_param == "optimiser.precision"
    assert "\x00" not in job.error


def test_infrastructure_is_tried_again_and_then_waits_for_a_person() -> None:
    job = queued()
    for _ in range(transitions.TRIES):
        job, _, _ = claimed(job)
        end(job, "infrastructure", "The disk is full.")
        assert job.state == TrainingState.QUEUED
    job, _, _ = claimed(job)
    end(job, "infrastructure", "The disk is full.")
    assert job.state == TrainingState.PAUSED
    assert "The disk is full." in job.reason


def test_a_trainer_that_crashes_again_and_again_fails_the_job() -> None:
    job = queued()
    for number in range(transitions.TRIES):
        job, _, worker = claimed(job)
        assert end(job, "crashed", "Ended by signal 9.").state == TrainingState.QUEUED
        if number:  # from the second time on it rests before it is tried again
            assert job.lease_until is not None
            assert 0 < (job.lease_until - timezone.now()).total_seconds() <= transitions.LONGEST_REST_SECONDS
            assert claims.claim_job(worker, API) is None
    job, _, _ = claimed(job)
    end(job, "crashed", "Ended by signal 9.", code="crashed")
    assert (job.state, job.error_code, job.error) == (TrainingState.FAILED, "crashed", "Ended by signal 9.")


def test_a_worker_that_comes_back_before_another_took_its_job_goes_on() -> None:
    """The site was away for longer than a lease, and so nobody was heard."""
    job, told, worker = claimed()
    take(job, support.course(1, 3))
    other = a_worker("other")
    over(job)
    claims.reap_jobs()
    assert claims.record_heartbeat(other, {}, told.job, told.attempt).stale
    job.refresh_from_db()
    assert job.state == TrainingState.QUEUED, "another worker's beat does not take it"
    assert not claims.record_heartbeat(worker, {}, told.job, told.attempt).stale
    assert take(job, support.course(4, 5, steps_from=4)) == 6
    job.refresh_from_db()
    assert (job.state, job.attempt, job.lost, job.worker) == (TrainingState.RUNNING, 1, 0, worker.public_id)
    assert claims.claim_job(other, API) is None
    over(job)
    claims.reap_jobs()
    assert take(job, support.course(6, 6, steps_from=6)) == 7, "what it sends says as much as a beat"
    claims.end_worker(worker)
    with pytest.raises(StaleClaim):
        take(job, support.course(7, 7, steps_from=7))


@beside_others
def test_a_worker_that_comes_back_and_one_that_claims_do_not_both_hold_the_job() -> None:
    for _ in range(5):
        job, told, worker = claimed()
        over(job)
        claims.reap_jobs()
        other = a_worker("other")
        beat, got = at_once(
            lambda told=told, worker=worker: claims.record_heartbeat(worker, {}, told.job, told.attempt),
            lambda other=other: claims.claim_job(other, API),
        )
        job.refresh_from_db()
        assert beat.stale == (got is not None)
        assert (job.attempt, job.worker) == ((2, other.public_id) if got else (1, worker.public_id))
        TrainingJob.objects.filter(pk=job.pk).update(state=TrainingState.CANCELLED)


def test_a_lost_job_keeps_the_wish_of_its_person() -> None:
    paused, _, _ = claimed()
    cancelled, _, _ = claimed()
    for job, wish in ((paused, "pause"), (cancelled, "cancel")):
        TrainingJob.objects.filter(pk=job.pk).update(wish=wish)
        over(job)
    assert claims.reap_jobs() == 2
    paused.refresh_from_db()
    cancelled.refresh_from_db()
    assert (paused.state, cancelled.state) == (TrainingState.PAUSED, TrainingState.CANCELLED)


def test_goodbye_gives_back_what_is_held_and_a_claim_whose_answer_was_lost_costs_nothing() -> None:
    job, _, worker = claimed()
    claims.end_worker(worker)
    job.refresh_from_db()
    assert (job.state, job.lost) == (TrainingState.QUEUED, 0)
    told = claims.claim_job(worker, API)
    again = claims.claim_job(worker, API)  # the answer never arrived
    assert told is not None
    assert again is not None
    assert (told.attempt, again.attempt) == (2, 3)
    job.refresh_from_db()
    assert (job.state, job.lost, job.attempt) == (TrainingState.RUNNING, 0, 3)


def test_a_worker_that_begins_again_takes_its_row_over() -> None:
    first = a_worker("box", host="h", pid=1)
    assert a_worker("box", host="h", pid=2).pk != first.pk  # both live
    Worker.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    assert a_worker("box", host="h", pid=3).pk in set(Worker.objects.values_list("pk", flat=True))
    assert Worker.objects.count() == 2
    same = a_worker("box", host="h", pid=9, was=first.public_id)
    again = a_worker("box", host="h", pid=10, was=first.public_id)
    assert same.pk == again.pk == first.pk, "it was killed and began again at once, in the same folder"
    assert a_worker("renamed", host="h", pid=10, was=first.public_id).pk != first.pk
    other = support.operator("somebody-else")
    assert a_worker("box", other, host="h", pid=11, was=first.public_id).pk != first.pk
    assert a_worker("box", other, host="h", pid=4).created_by == other
    with pytest.raises(UnknownWorker):
        registration.get_own_worker(first.public_id, other)
