"""State transitions of training jobs when an attempt ends or its worker is lost.

Every function is called within the transaction that locks the job's row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from synthesis.formats.values import clean
from webapp.runs.models import AttemptEnd, TrainingAttempt, TrainingEvent, TrainingJob, TrainingState
from webapp.runs.topics import tell, tell_job

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
"""What an exit that fails a job says where the worker brought no words."""
_PARAM = re.compile(r"([a-z_]+(?:\.[a-z_0-9]+)*): ")


@dataclass(frozen=True)
class AttemptEnding:
    """End of an attempt as its worker reports it. `exit` is a name of `training.job.Exit`, or `crashed`."""

    exit: str
    message: str = ""
    code: str = ""
    result: dict[str, Any] | None = None
    log: str = ""


def say(job: TrainingJob, level: str, message: str, kind: str = "message", **data: Any) -> None:
    """Write an event of this site's own into the job's log."""
    TrainingEvent.objects.create(
        job=job,
        attempt=job.attempt,
        step=job.step,
        kind=kind,
        level=level,
        message=clean(message)[:MESSAGE_CHARS],
        data=data,
        at=timezone.now(),
    )


def tell_refusal(job: TrainingJob, message: str, step: int) -> None:
    """Write into the job's log that something of an attempt was not taken, so that whoever misses it knows why; at most
    `MOST_REFUSALS` times an attempt."""
    told = TrainingEvent.objects.filter(job=job, attempt=job.attempt, kind=REFUSED)
    if told.count() < MOST_REFUSALS:
        say(job, "error", message, kind=REFUSED, of_step=step)
        tell_job(job.pk)


def settle(job: TrainingJob, attempt: TrainingAttempt, ending: AttemptEnding) -> None:
    """Close an attempt, and move the job on by the exit and what a person wished."""
    message = clean(ending.message)[:MESSAGE_CHARS]
    state = {"done": AttemptEnd.DONE, "stopped": AttemptEnd.STOPPED, "out_of_time": AttemptEnd.STOPPED}
    _close(attempt, state.get(ending.exit, AttemptEnd.FAILED), ending.exit, message, ending.log)
    if ending.result is not None:
        job.result = ending.result
    if ending.exit == "done" and job.is_evaluation:
        _end(job, TrainingState.SUCCEEDED)
        say(job, "info", "The evaluation is done: every attempt was made and reported.")
    elif ending.exit == "done":
        if message:
            say(job, "warn", f"It ended at step {job.step} of {job.total_steps}. The worker's reason: {message}")
        job.fine_tuned_model = f"ft:{job.public_id}"
        _end(job, TrainingState.SUCCEEDED)
        say(job, "info", f"The job is done. Its model is {job.fine_tuned_model}.")
    elif job.wish == "cancel":
        _end(job, TrainingState.CANCELLED)
        say(job, "info", f"Cancelled at step {job.step}.")
    elif ending.exit == "stopped" or (job.wish == "pause" and ending.exit in ("fault", "crashed", "infrastructure")):
        _stopped(job, "" if ending.exit == "stopped" else message)
    elif ending.exit == "out_of_time":
        pause(
            job,
            "Its hours (limits.hours, over all attempts) are over. Resume it with more of them, from its checkpoint.",
        )
    elif ending.exit in PAUSING:
        reason = message or PAUSING[ending.exit]
        say(job, "error", reason, kind="alarm", exit=ending.exit)
        pause(job, reason)
    elif ending.exit == "infrastructure":
        _again(job, message or "Something that training needs failed at the worker.")
    elif ending.exit == "crashed" and job.lost < TRIES:
        # Killed from outside, perhaps: the job is not to blame before it happened again and again.
        _again(job, message or WORDS["crashed"], ending.exit)
    else:
        code = re.sub(r"[^a-z0-9_]", "_", ending.code.lower())[:40] or ending.exit
        fail(job, code, message or WORDS.get(ending.exit, "The trainer's process died."))
    save(job)


def lose(job: TrainingJob, attempt: TrainingAttempt | None, why: str, *, counted: bool = True) -> None:
    """Close the attempt of a lost worker, and queue the job again, `TRIES` times at most."""
    if attempt is not None:
        _close(attempt, AttemptEnd.LOST, "", why, "")
    if job.wish == "cancel":
        _end(job, TrainingState.CANCELLED)
        say(job, "info", "Cancelled. The worker was lost before it said so.")
    elif job.wish == "pause":
        _stopped(job, "")
    elif counted and job.lost >= TRIES:
        job.lost += 1
        fail(job, "worker_lost", f"{why} That was the {job.lost}th time without a new checkpoint. Look at the workers.")
    else:
        job.lost += counted
        _try_again(job, why)
    save(job)


def fail(job: TrainingJob, code: str, message: str, param: str = "") -> None:
    """Fail a job with a message, and the field that the message begins with, if it does."""
    param_match = _PARAM.match(message)
    job.error_code, job.error = code, message
    job.error_param = (param or (param_match[1] if param_match else ""))[:200]
    _end(job, TrainingState.FAILED)
    say(job, "error", message, code=code)


def pause(job: TrainingJob, reason: str) -> None:
    job.state, job.reason = TrainingState.PAUSED, reason
    _let_go(job)
    say(job, "warn", f"Paused: {reason}" if reason else f"Paused at step {job.step}.")


def doubt(job: TrainingJob, message: str, **data: Any) -> None:
    """Note that what a worker reported is not true, and let the job stand still at once, until a person resumes it.

    The attempt of a worker that holds it ends: nothing that it sends is taken any more, and its heartbeats are answered
    `stale`. A job that has ended keeps the note. The first one stays; later ones are events.
    """
    say(job, "error", message, kind="alarm", **data)
    job.doubt = job.doubt or clean(message)[:MESSAGE_CHARS]
    if job.state == TrainingState.RUNNING:
        attempt = TrainingAttempt.objects.filter(job=job, number=job.attempt, state=AttemptEnd.RUNNING).first()
        if attempt is not None:
            _close(attempt, AttemptEnd.STOPPED, DOUBTED, job.doubt, "")
    if job.state in (TrainingState.VALIDATING, TrainingState.QUEUED, TrainingState.RUNNING):
        if job.wish == "cancel":
            _end(job, TrainingState.CANCELLED)
        else:
            pause(job, job.doubt)
    save(job)


def queue(job: TrainingJob) -> None:
    """Let a job wait for a worker (again)."""
    job.state, job.reason = TrainingState.QUEUED, ""
    job.woken_at = None
    _let_go(job)


def save(job: TrainingJob) -> None:
    """Write the columns that transitions change; what others count up stays as it is."""
    job.save(
        update_fields=[
            "state", "wish", "reason", "doubt", "attempt", "lost", "worker", "worker_name", "lease_until", "woken_at",
            "error_code", "error", "error_param", "result", "fine_tuned_model", "started_at", "finished_at",
        ]
    )  # fmt: skip
    tell_job(job.pk, listed=True)
    tell("training-workers")


def _stopped(job: TrainingJob, why: str) -> None:
    if job.wish == "pause":
        pause(job, why)
        return
    # Nobody asked for it: the worker itself is going down.
    queue(job)
    say(job, "info", "Its worker stopped; the job is queued again and goes on from its last checkpoint.")


def _again(job: TrainingJob, why: str, exit: str = "infrastructure") -> None:
    if job.lost >= TRIES:
        say(job, "error", why, kind="alarm", exit=exit)
        pause(job, f"{why} It was tried {TRIES + 1} times. Resume the job once that is mended.")
        return
    job.lost += 1
    _try_again(job, why, exit=exit)


def _try_again(job: TrainingJob, why: str, **data: Any) -> None:
    """Queue a job whose attempt was lost: the first time for the next worker, then after a rest."""
    queue(job)
    rest = min(REST_SECONDS * 2 ** (job.lost - 2), LONGEST_REST_SECONDS) if job.lost > 1 else 0
    job.lease_until = timezone.now() + timedelta(seconds=rest) if rest else None
    words = f" and rests {rest} s first" if rest else ""
    say(job, "warn", f"{why} The job is queued again{words}.", kind="alarm", lost=job.lost, **data)


def _end(job: TrainingJob, state: TrainingState) -> None:
    job.state, job.finished_at, job.reason = state, timezone.now(), ""
    _let_go(job)


def _let_go(job: TrainingJob) -> None:
    job.wish, job.worker, job.worker_name, job.lease_until = "", "", "", None


def _close(attempt: TrainingAttempt, state: AttemptEnd, exit: str, message: str, log: str) -> None:
    attempt.state, attempt.exit, attempt.message = state, exit[:20], clean(message)[:MESSAGE_CHARS]
    attempt.log, attempt.ended_at = clean(log)[-LOG_CHARS:], timezone.now()
    attempt.save(update_fields=["state", "exit", "message", "log", "ended_at"])
