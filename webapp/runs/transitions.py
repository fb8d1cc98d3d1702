"""State transitions of training jobs after an attempt ends or its worker is lost.

Every function is called within the transaction that locks the job's row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from synthesis.formats.values import clean_text
from webapp.runs.models import AttemptEnd, TrainingAttempt, TrainingEvent, TrainingJob, TrainingState
from webapp.runs.topics import publish_job, publish_topics

TRIES = 6
"""A job is queued again so often after its worker was lost, or something of the worker's failed, without a new
checkpoint in between."""
REST_SECONDS, LONGEST_REST_SECONDS = 10, 60
"""Before the second of these tries, doubled each time: what kills workers may be over by then."""
PAUSING = {
    "too_many_lost": "More attempts of a step were lost than limits.infra_error_share allows.",
    "program_errors": "Programs ended more attempts of a step than limits.program_error_share allows.",
}
"""Exits by which a trainer asks for a person: the job pauses."""
NOT_TRUE = "What its worker reported is not true:"
"""How page and API begin what is held against a worker's report."""
DOUBTED = "doubted"
"""The exit of an attempt that this site ended, since what it reported is not true."""
REFUSED, MOST_REFUSALS = "refused", 20
"""The kind of the event that says what was not taken, and how many of them an attempt has at most."""
MESSAGE_CHARS = 4_000
LOG_CHARS = 64_000
WORDS = {
    "input": "The configuration, model or dataset cannot be used.",
    "diverged": "The loss or its gradient is no number any more.",
    "memory": "Out of memory.",
    "fault": "A fault of Envarium's own.",
    "crashed": "The trainer's process died.",
}
"""Reason of an exit that fails a job, if the worker sent none."""
_PARAM = re.compile(r"([a-z_]+(?:\.[a-z_0-9]+)*): ")


@dataclass(frozen=True)
class AttemptEnding:
    """End of an attempt as its worker reports it. `exit` is a name of `training.job.Exit`, or `crashed`."""

    exit: str
    message: str = ""
    code: str = ""
    result: dict[str, Any] | None = None
    log: str = ""


def log_event(job: TrainingJob, level: str, message: str, kind: str = "message", **data: Any) -> None:
    """Write an event of this site's own into the job's log."""
    TrainingEvent.objects.create(
        job=job,
        attempt=job.attempt,
        step=job.step,
        kind=kind,
        level=level,
        message=clean_text(message)[:MESSAGE_CHARS],
        data=data,
        at=timezone.now(),
    )


def log_refusal(job: TrainingJob, message: str, step: int) -> None:
    """Write into the job's log that something of an attempt was not taken, so that its absence is explained; at most
    `MOST_REFUSALS` times an attempt."""
    refusals = TrainingEvent.objects.filter(job=job, attempt=job.attempt, kind=REFUSED)
    if refusals.count() < MOST_REFUSALS:
        log_event(job, "error", message, kind=REFUSED, of_step=step)
        publish_job(job.pk)


def settle_attempt(job: TrainingJob, attempt: TrainingAttempt, ending: AttemptEnding) -> None:
    """Close an attempt, and move the job on by the exit and the wish of a person."""
    message = clean_text(ending.message)[:MESSAGE_CHARS]
    state = {"done": AttemptEnd.DONE, "stopped": AttemptEnd.STOPPED, "out_of_time": AttemptEnd.STOPPED}
    _close_attempt(attempt, state.get(ending.exit, AttemptEnd.FAILED), ending.exit, message, ending.log)
    if ending.result is not None:
        job.result = ending.result
    if ending.exit == "done" and job.is_evaluation:
        _end_job(job, TrainingState.SUCCEEDED)
        log_event(job, "info", "The evaluation is done: every attempt was made and reported.")
    elif ending.exit == "done":
        if message:
            log_event(job, "warn", f"It ended at step {job.step} of {job.total_steps}. The worker's reason: {message}")
        job.fine_tuned_model = f"ft:{job.public_id}"
        _end_job(job, TrainingState.SUCCEEDED)
        log_event(job, "info", f"The job is done. Its model is {job.fine_tuned_model}.")
    elif job.wish == "cancel":
        _end_job(job, TrainingState.CANCELLED)
        log_event(job, "info", f"Cancelled at step {job.step}.")
    elif ending.exit == "stopped" or (job.wish == "pause" and ending.exit in ("fault", "crashed", "infrastructure")):
        _pause_or_requeue(job, "" if ending.exit == "stopped" else message)
    elif ending.exit == "out_of_time":
        pause_job(
            job,
            "Its hours (limits.hours, over all attempts) are over. Resume it with more of them, from its checkpoint.",
        )
    elif ending.exit in PAUSING:
        reason = message or PAUSING[ending.exit]
        log_event(job, "error", reason, kind="alarm", exit=ending.exit)
        pause_job(job, reason)
    elif ending.exit == "infrastructure":
        _retry_or_pause(job, message or "Something that training needs failed at the worker.")
    elif ending.exit == "crashed" and job.lost < TRIES:
        # Killed from outside, perhaps: the job is not to blame before it happened again and again.
        _retry_or_pause(job, message or WORDS["crashed"], ending.exit)
    else:
        code = re.sub(r"[^a-z0-9_]", "_", ending.code.lower())[:40] or ending.exit
        fail_job(job, code, message or WORDS.get(ending.exit, "The trainer's process died."))
    save_transition(job)


def lose_attempt(job: TrainingJob, attempt: TrainingAttempt | None, why: str, *, counted: bool = True) -> None:
    """Close the attempt of a lost worker, and queue the job again, `TRIES` times at most."""
    if attempt is not None:
        _close_attempt(attempt, AttemptEnd.LOST, "", why, "")
    if job.wish == "cancel":
        _end_job(job, TrainingState.CANCELLED)
        log_event(job, "info", "Cancelled. The worker was lost before it said so.")
    elif job.wish == "pause":
        _pause_or_requeue(job, "")
    elif counted and job.lost >= TRIES:
        job.lost += 1
        fail_job(
            job, "worker_lost", f"{why} That was the {job.lost}th time without a new checkpoint. Look at the workers."
        )
    else:
        job.lost += counted
        _requeue_after_rest(job, why)
    save_transition(job)


def fail_job(job: TrainingJob, code: str, message: str, param: str = "") -> None:
    """Fail a job with a message, and the field that the message begins with, if it does."""
    param_match = _PARAM.match(message)
    job.error_code, job.error = code, message
    job.error_param = (param or (param_match[1] if param_match else ""))[:200]
    _end_job(job, TrainingState.FAILED)
    log_event(job, "error", message, code=code)


def pause_job(job: TrainingJob, reason: str) -> None:
    job.state, job.reason = TrainingState.PAUSED, reason
    _release_worker(job)
    log_event(job, "warn", f"Paused: {reason}" if reason else f"Paused at step {job.step}.")


def doubt_job(job: TrainingJob, message: str, **data: Any) -> None:
    """Note that a worker's report is not true, and pause the job at once, until a person resumes it.

    The attempt of a worker that holds it ends: nothing that it sends is taken any more, and its heartbeats are answered
    `stale`. A job that has ended keeps the note. The first one remains; later ones are events.
    """
    log_event(job, "error", message, kind="alarm", **data)
    job.doubt = job.doubt or clean_text(message)[:MESSAGE_CHARS]
    if job.state == TrainingState.RUNNING:
        attempt = TrainingAttempt.objects.filter(job=job, number=job.attempt, state=AttemptEnd.RUNNING).first()
        if attempt is not None:
            _close_attempt(attempt, AttemptEnd.STOPPED, DOUBTED, job.doubt, "")
    if job.state in (TrainingState.VALIDATING, TrainingState.QUEUED, TrainingState.RUNNING):
        if job.wish == "cancel":
            _end_job(job, TrainingState.CANCELLED)
        else:
            pause_job(job, job.doubt)
    save_transition(job)


def queue_job(job: TrainingJob) -> None:
    """Let a job wait for a worker (again)."""
    job.state, job.reason = TrainingState.QUEUED, ""
    job.woken_at = None
    _release_worker(job)


def save_transition(job: TrainingJob) -> None:
    """Write the columns that transitions change, and no others: workers increment those without this lock."""
    job.save(
        update_fields=[
            "state", "wish", "reason", "doubt", "attempt", "lost", "worker", "worker_name", "lease_until", "woken_at",
            "error_code", "error", "error_param", "result", "fine_tuned_model", "started_at", "finished_at",
        ]
    )  # fmt: skip
    publish_job(job.pk, listed=True)
    publish_topics("training-workers")


def _pause_or_requeue(job: TrainingJob, why: str) -> None:
    if job.wish == "pause":
        pause_job(job, why)
        return
    # No person asked for it: the worker itself is going down.
    queue_job(job)
    log_event(job, "info", "Its worker stopped; the job is queued again and goes on from its last checkpoint.")


def _retry_or_pause(job: TrainingJob, why: str, exit: str = "infrastructure") -> None:
    if job.lost >= TRIES:
        log_event(job, "error", why, kind="alarm", exit=exit)
        pause_job(job, f"{why} It was tried {TRIES + 1} times. Resume the job once that is repaired.")
        return
    job.lost += 1
    _requeue_after_rest(job, why, exit=exit)


def _requeue_after_rest(job: TrainingJob, why: str, **data: Any) -> None:
    """Queue a job whose attempt was lost: the first time for the next worker, then after a rest."""
    queue_job(job)
    rest = min(REST_SECONDS * 2 ** (job.lost - 2), LONGEST_REST_SECONDS) if job.lost > 1 else 0
    job.lease_until = timezone.now() + timedelta(seconds=rest) if rest else None
    words = f" and rests {rest} s first" if rest else ""
    log_event(job, "warn", f"{why} The job is queued again{words}.", kind="alarm", lost=job.lost, **data)


def _end_job(job: TrainingJob, state: TrainingState) -> None:
    job.state, job.finished_at, job.reason = state, timezone.now(), ""
    _release_worker(job)


def _release_worker(job: TrainingJob) -> None:
    job.wish, job.worker, job.worker_name, job.lease_until = "", "", "", None


def _close_attempt(attempt: TrainingAttempt, state: AttemptEnd, exit: str, message: str, log: str) -> None:
    attempt.state, attempt.exit, attempt.message = state, exit[:20], clean_text(message)[:MESSAGE_CHARS]
    attempt.log, attempt.ended_at = clean_text(log)[-LOG_CHARS:], timezone.now()
    attempt.save(update_fields=["state", "exit", "message", "log", "ended_at"])
