"""Claims of training jobs by workers, with leases and heartbeats.

A claim issues the next attempt number; a write under another one is refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from synthesis.errors import InputError
from training.job import ANY_MODEL
from webapp.common.claims import Claim, StaleClaim
from webapp.common.database.connections import release_connection
from webapp.common.errors import NotFound
from webapp.runs import transitions
from webapp.runs.checkpoint_files import find_last_checkpoint, get_first_model
from webapp.runs.evaluations.progress import count_reports
from webapp.runs.models import AttemptEnd, Checkpoint, CheckpointState, TrainingAttempt, TrainingJob, TrainingState
from webapp.runs.preflight import matching
from webapp.runs.preflight.candidates import can_load_model
from webapp.runs.readiness import lock_job, queue_ready_jobs
from webapp.runs.rollouts.verification import verify_sample
from webapp.runs.spec import AFTER, DEMO_MODEL, ENDPOINT
from webapp.runs.topics import publish_job, publish_topics
from webapp.runs.transitions import AttemptEnding
from webapp.runs.wakeups import ready_jobs, wake_workers
from webapp.workers.assignment import Assignment, build_assignment
from webapp.workers.completeness import describe_missing
from webapp.workers.errors import NoFinalModel
from webapp.workers.models import Worker
from webapp.workers.registration import COLUMNS, live_trainers, to_candidate

LOOK_EVERY_SECONDS = 0.5
"""Interval at which a waiting claim looks for a job."""
LONGEST_WAIT_SECONDS = 30
AT_ONCE = 500


def get_lease_duration() -> timedelta:
    return timedelta(seconds=settings.TRAINING_LEASE_SECONDS)


@dataclass(frozen=True)
class TrainingClaim(Claim[TrainingJob]):
    """A worker's hold of a training job: one of its attempts."""

    model = TrainingJob
    public_id: str

    @classmethod
    def of(cls, job: TrainingJob, number: int) -> TrainingClaim:
        return cls(job.pk, number, job.public_id)

    def stale(self) -> StaleClaim:
        return StaleClaim(
            f"Attempt {self.number} does not hold {self.public_id} (any more). Nothing was written. Stop it and claim "
            "again."
        )


@dataclass(frozen=True)
class HeartbeatAnswer:
    """Answer to a heartbeat. `stale`: another attempt holds the job by now; stop its trainer."""

    wish: str = ""
    stale: bool = False


def record_heartbeat(
    worker: Worker, usage: dict[str, Any], job: str = "", attempt: int = 0, step: int | None = None
) -> HeartbeatAnswer:
    """Record that the worker is alive, and renew the lease on what it holds."""
    now = timezone.now()
    Worker.objects.filter(pk=worker.pk).update(seen_at=now, usage=usage | ({"step": step} if step is not None else {}))
    publish_topics("training-workers")
    if not job:
        return HeartbeatAnswer()
    mine = TrainingJob.objects.filter(
        public_id=job, attempt=attempt, worker=worker.public_id, state=TrainingState.RUNNING
    )
    if not mine.update(lease_until=now + get_lease_duration()) and not _retake_lost_job(worker, job, attempt):
        return HeartbeatAnswer(stale=True)
    row = mine.values_list("wish", "pk").first()
    if row is None:
        return HeartbeatAnswer(stale=True)
    publish_job(row[1])
    return HeartbeatAnswer(wish=row[0])


def _retake_lost_job(worker: Worker, job: str, attempt: int) -> bool:
    """Return whether a worker that was lost holds its job again, after taking it back if it is free."""
    if not TrainingAttempt.objects.filter(job__public_id=job, number=attempt, worker=worker.public_id).exists():
        return False
    with transaction.atomic():
        row = _find_job(job, lock=True)
        return row is not None and _find_holding_attempt(row, attempt, worker.created_by, lock=True) is not None


def end_worker(worker: Worker) -> None:
    """End a worker. Jobs that it still holds are queued again at once."""
    Worker.objects.filter(pk=worker.pk).update(stopped_at=timezone.now(), seen_at=timezone.now())
    _release_jobs(worker, f"The worker {worker.name} ended.")
    publish_topics("training-workers")


def claim_job(worker: Worker, base_url: str, wait_s: float = 0.0) -> Assignment | None:
    """Claim the next job that this worker can do, waiting up to `wait_s` seconds; None if there is none.

    A job that it held before is queued again: it would not ask for more if it still worked on that.
    """
    _release_jobs(worker, f"The worker {worker.name} began anew.")
    until = time.monotonic() + min(wait_s, LONGEST_WAIT_SECONDS)
    here = Worker.objects.filter(pk=worker.pk)
    here.update(stopped_at=None)
    while True:
        # A worker that ended meanwhile left its request open: a job that it took now would have no worker.
        if not here.filter(stopped_at=None).update(seen_at=timezone.now()):
            return None
        taken = _claim_next_job(worker, base_url)
        if taken is not None or time.monotonic() + LOOK_EVERY_SECONDS > until:
            return taken
        release_connection()
        time.sleep(LOOK_EVERY_SECONDS)


def require_attempt(
    public_id: str, number: int, user: Any = None, *, lock: bool = False
) -> tuple[TrainingJob, TrainingAttempt]:
    """Return the job and its attempt, if that holds it. With `lock` no other transaction changes the job until this one
    ends.

    A worker that was lost (this site was away, say) holds its job again if no other worker has taken it meanwhile.

    Raises NotFound, StaleClaim.
    """
    job = _find_job(public_id, lock=lock)
    if job is None:
        raise NotFound("There is no training job with this id.")
    attempt = _find_holding_attempt(job, number, user, lock=lock)
    if attempt is None:
        raise TrainingClaim.of(job, number).stale()
    return job, attempt


def _find_job(public_id: str, *, lock: bool) -> TrainingJob | None:
    rows = TrainingJob.objects.select_for_update(of=("self",), no_key=True) if lock else TrainingJob.objects.all()
    return rows.filter(public_id=public_id).first()


def _find_holding_attempt(job: TrainingJob, number: int, user: Any, *, lock: bool) -> TrainingAttempt | None:
    """Return the job's attempt with this number if it holds the job, or (with `lock`) takes it back; else None."""
    attempt = TrainingAttempt.objects.filter(job=job, number=number).first()
    mine = user is None or (attempt is not None and attempt.claimed_by_id == user.pk)
    if attempt is None or not mine or not (_is_held_by(job, attempt) or _is_free(job, attempt)):
        return None
    if lock and not _is_held_by(job, attempt):
        _take_back(job, attempt)
    return attempt


def _is_free(job: TrainingJob, attempt: TrainingAttempt) -> bool:
    lost = job.attempt == attempt.number and attempt.state == AttemptEnd.LOST
    if job.state != TrainingState.QUEUED or not lost:
        return False
    return Worker.objects.filter(public_id=attempt.worker, stopped_at=None).exists()


def _take_back(job: TrainingJob, attempt: TrainingAttempt) -> None:
    attempt.state, attempt.message, attempt.ended_at = AttemptEnd.RUNNING, "", None
    attempt.save(update_fields=["state", "message", "ended_at"])
    job.state, job.lease_until = TrainingState.RUNNING, timezone.now() + get_lease_duration()
    job.worker, job.worker_name = attempt.worker, attempt.worker_name
    job.lost = max(0, job.lost - 1)
    transitions.log_event(job, "info", f"The worker {attempt.worker_name} is back, and attempt {job.attempt} goes on.")
    transitions.save_transition(job)


def _is_held_by(job: TrainingJob, attempt: TrainingAttempt) -> bool:
    return job.state == TrainingState.RUNNING and job.attempt == attempt.number and attempt.state == AttemptEnd.RUNNING


def end_attempt(public_id: str, number: int, ending: AttemptEnding, user: Any = None) -> TrainingJob:
    """Close an attempt and move its job on. Idempotent. An attempt that is reported as done, but is incomplete, is a
    contradiction (`completeness.py`). Raises as `require_attempt`; NoFinalModel."""
    with transaction.atomic():
        job = _find_job(public_id, lock=True)
        if job is None:
            raise NotFound("There is no training job with this id.")
        attempt = _find_holding_attempt(job, number, user, lock=True)
        if attempt is None:
            if _has_ended_alike(job, number, ending, user):
                return job
            raise TrainingClaim.of(job, number).stale()
        final = Checkpoint.objects.filter(job=job, attempt=number, final=True, state=CheckpointState.READY)
        if ending.exit == "done" and not job.is_evaluation and not final.exists():
            raise NoFinalModel("The final model is not here yet: upload it, then end the attempt.")
        missing = describe_missing(job, number, ending) if ending.exit == "done" else ""
        if missing:
            transitions.doubt_job(job, f"The worker ended the job as done, but {missing}", step=job.step)
        else:
            transitions.settle_attempt(job, attempt, ending)
    queue_ready_jobs(TrainingJob.objects.filter(after=job))
    verify_sample(job, ended=True)
    wake_workers()
    return job


def _has_ended_alike(job: TrainingJob, number: int, ending: AttemptEnding, user: Any) -> bool:
    """Return whether the attempt was closed with this exit before: its worker did not get the answer."""
    attempts = TrainingAttempt.objects.filter(job=job, number=number, exit=ending.exit).exclude(
        state=AttemptEnd.RUNNING
    )
    return (attempts if user is None else attempts.filter(claimed_by=user)).exists()


def _release_jobs(worker: Worker, why: str) -> None:
    for pk in list(
        TrainingJob.objects.filter(worker=worker.public_id, state=TrainingState.RUNNING).values_list("pk", flat=True)
    ):
        with transaction.atomic():
            job = lock_job(pk)
            if job is not None and job.worker == worker.public_id and job.state == TrainingState.RUNNING:
                attempt = TrainingAttempt.objects.filter(job=job, number=job.attempt).first()
                # A claim whose answer was lost on its way has cost nothing.
                begun = attempt is not None and attempt.next_seq > 1
                transitions.lose_attempt(job, attempt, why, counted=begun)


def _claim_next_job(worker: Worker, base_url: str) -> Assignment | None:
    while (job := _take_job(worker)) is not None:
        try:
            return build_assignment(job, base_url)
        except InputError as error:
            with transaction.atomic():
                job, attempt = require_attempt(job.public_id, job.attempt, lock=True)
                transitions.settle_attempt(job, attempt, AttemptEnding("input", str(error), "input"))
    return None


@transaction.atomic
def _take_job(worker: Worker) -> TrainingJob | None:
    job = _find_first_with_room(worker)
    if job is None:
        return None
    from_step = get_start_step(job)
    now = timezone.now()
    job.state, job.wish, job.reason = TrainingState.RUNNING, "", ""
    job.attempt += 1
    job.worker, job.worker_name = worker.public_id, worker.name
    job.lease_until, job.started_at = now + get_lease_duration(), job.started_at or now
    TrainingAttempt.objects.create(
        job=job,
        number=job.attempt,
        worker=worker.public_id,
        worker_name=worker.name,
        worker_host=worker.host,
        claimed_by_id=worker.created_by_id,
        from_step=from_step,
    )
    where = f" on {worker.host}" if worker.host else ""
    what = "behind report" if job.is_evaluation else "from the checkpoint of step"
    onward = f", {what} {from_step}" if from_step else ""
    transitions.log_event(job, "info", f"Attempt {job.attempt} begins at worker {worker.name}{where}{onward}.")
    transitions.save_transition(job)
    return job


def _find_first_with_room(worker: Worker) -> TrainingJob | None:
    """Return the oldest job that a worker can do and has room for, locked."""
    waiting = list(
        ready_jobs()
        .filter(_build_takeable_filter(worker))
        .exclude(pk__in=_list_unloadable_jobs(worker))
        .order_by("pk")[:AT_ONCE]
    )
    mine, others = to_candidate(worker), live_trainers().exclude(pk=worker.pk).only(*COLUMNS)
    here = [mine, *map(to_candidate, others)] if waiting else []
    for job in waiting:
        if mine in matching.list_able_candidates(job, here):
            rows = ready_jobs().select_for_update(of=("self",), no_key=True, skip_locked=True)
            taken = rows.filter(pk=job.pk).first()
            if taken is not None:
                return taken
    return None


def get_start_step(job: TrainingJob) -> int:
    """Return the step that the job's next attempt starts from: later steps are computed again."""
    if job.is_evaluation:
        return count_reports(job)
    resumed = find_last_checkpoint(job)
    return resumed.step if resumed else 0


def _build_takeable_filter(worker: Worker) -> Q:
    """Return the filter of jobs that a worker can take (as `Candidate.can_take`): with models of this site's own, those
    that it lists, and, if it may fetch any, all that can be fetched."""
    models = Q(model__in=[DEMO_MODEL, AFTER, *worker.model_names])
    models |= Q(model__startswith="ft:") | Q(model__startswith=ENDPOINT)
    if ANY_MODEL in worker.model_names:
        models |= Q(model__contains="/")
    return models & Q(engine__in=worker.engines)


def _list_unloadable_jobs(worker: Worker) -> list[int]:
    """Return jobs that begin with adapters upon a model which this worker cannot load."""
    jobs = ready_jobs().filter(model__startswith="ft:", model__contains=":step-")[:AT_ONCE]
    return [job.pk for job in jobs if not can_load_model(worker.model_names, get_first_model(job))]


def reap_jobs() -> int:
    """Reap expired leases, queue jobs whose data is ready and wake workers: called every few seconds by the scheduler.

    Return how many jobs changed their state.
    """
    over = TrainingJob.objects.filter(state=TrainingState.RUNNING, lease_until__lt=timezone.now()).order_by("pk")
    changed = sum(_reap_job(pk) for pk in list(over.values_list("pk", flat=True)[:AT_ONCE]))
    changed += queue_ready_jobs(TrainingJob.objects.all())
    wake_workers()
    matching.refresh_waiting_reasons()
    return changed


@transaction.atomic
def _reap_job(pk: int) -> bool:
    job = lock_job(pk)
    now = timezone.now()
    if job is None or job.state != TrainingState.RUNNING or job.lease_until is None or job.lease_until >= now:
        return False
    attempt = TrainingAttempt.objects.filter(job=job, number=job.attempt).first()
    name = f"The worker {job.worker_name}" if job.worker_name else "The worker"
    transitions.lose_attempt(job, attempt, f"{name} was not heard of for {settings.TRAINING_LEASE_SECONDS} seconds.")
    return True
