"""Cancel, pause and resume of training jobs.

They act at once if no worker holds the job; else by a wish that its worker obeys within a step.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from synthesis.errors import InputError
from training.config import read_config
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict
from webapp.runs import transitions
from webapp.runs.models import TrainingJob, TrainingState
from webapp.runs.preflight.estimates import get_spent_seconds
from webapp.runs.services import get_first_state
from webapp.runs.wakeups import wake_workers

WAITING = (TrainingState.VALIDATING, TrainingState.QUEUED)
MOST_CALLS = 100_000_000


class NotNow(Conflict):
    """Refusal of an act that the job's state does not allow; the message says why, and what is possible."""


@transaction.atomic
def cancel_job(job: TrainingJob, user: Any) -> TrainingJob:
    """End a job: its checkpoints stay. Raises NotNow: it has ended."""
    row = _lock_job(job)
    if row.state == TrainingState.RUNNING:
        if row.wish == "cancel":
            return row
        row.wish = "cancel"
        _save_and_log(row, user, "cancel", "Cancellation was asked for; the job ends within a step, with a checkpoint.")
    elif row.is_open:
        row.state, row.wish, row.finished_at = TrainingState.CANCELLED, "", timezone.now()
        row.reason = ""
        _save_and_log(row, user, "cancel", "The job was cancelled.")
    else:
        raise NotNow(f"The job {row.public_id} {_describe_end(row)}: there is nothing left to cancel.")
    return row


@transaction.atomic
def pause_job(job: TrainingJob, user: Any) -> TrainingJob:
    """Pause a job until it is resumed. Raises NotNow: it has ended, or is being cancelled."""
    row = _lock_job(job)
    if row.state == TrainingState.PAUSED:
        return row
    if row.state == TrainingState.RUNNING:
        if row.wish == "cancel":
            raise NotNow(f"The job {row.public_id} is being cancelled: it cannot be paused any more.")
        if row.wish == "pause":
            return row
        row.wish = "pause"
        _save_and_log(row, user, "pause", "A pause was requested; the job pauses within a step, with a checkpoint.")
    elif row.state in WAITING:
        row.state, row.wish, row.reason = TrainingState.PAUSED, "", "It was paused before a worker took it."
        _save_and_log(row, user, "pause", "The job was paused.")
    else:
        raise NotNow(f"The job {row.public_id} {_describe_end(row)}: there is nothing left to pause.")
    return row


@transaction.atomic
def resume_job(
    job: TrainingJob, user: Any, *, hours: float | None = None, calls_allowed: int | None = None
) -> TrainingJob:
    """Let a paused or failed job go on from its last complete checkpoint, perhaps with more hours or calls.

    Hours count over all attempts. A running job whose pause was asked for goes on without it. Doubts about its worker's
    reports are cleared; the audit log says that this person saw them. A job that has succeeded and is in doubt counts
    again. Raises NotNow, and InputError: a limit does not fit, or its hours are over.
    """
    row = _lock_job(job)
    limits = _set_limits(row, hours, calls_allowed)
    if row.state == TrainingState.RUNNING:
        if row.wish == "cancel":
            raise NotNow(f"The job {row.public_id} is being cancelled: it cannot go on any more.")
        if limits:
            raise NotNow(f"The job {row.public_id} is running: pause it before its limits are changed.")
        if row.wish == "pause":
            row.wish = ""
            _save_and_log(row, user, "resume", "The pause that was asked for was taken back.", **_clear_doubt(row))
        return row
    if row.state in WAITING:
        raise NotNow(f"The job {row.public_id} waits for a worker already: it needs no resuming.")
    if row.state == TrainingState.SUCCEEDED and row.doubt and not limits:
        _save_and_log(
            row, user, "resume", "What its worker reported counts all the same: a person saw it.", **_clear_doubt(row)
        )
        return row
    if row.state not in (TrainingState.PAUSED, TrainingState.FAILED):
        raise NotNow(
            f"The job {row.public_id} {_describe_end(row)}: it cannot go on. Create a job that begins with its model."
        )
    _require_hours(row)
    limits |= _clear_doubt(row)
    row.wish = row.reason = row.error = row.error_code = row.error_param = ""
    row.lost, row.finished_at, row.lease_until, row.woken_at = 0, None, None, None
    row.state = get_first_state(row)
    _save_and_log(row, user, "resume", "The job was resumed.", **limits)
    return row


@transaction.atomic
def ignore_job_memory(job: TrainingJob, user: Any) -> TrainingJob:
    """Let any worker that can load the job's model take it, whatever its estimate of memory says. Raises NotNow."""
    row = _lock_job(job)
    if row.despite_memory:
        return row
    if not row.is_open and row.state != TrainingState.FAILED:
        raise NotNow(f"The job {row.public_id} {_describe_end(row)}: no worker will be given it any more.")
    row.despite_memory = True
    if row.state == TrainingState.QUEUED:
        row.reason = ""
    message = (
        "The estimate of its memory keeps it from no worker any more. If it was right, the job ends out of memory."
    )
    _save_and_log(row, user, "ignore_memory", message)
    return row


def _require_hours(row: TrainingJob) -> None:
    """Raise InputError if the job's hours are over, so that it would end again behind its first step."""
    hours, taken = (row.config.get("limits") or {}).get("hours"), get_spent_seconds(row)
    if hours is not None and taken is not None and taken >= hours * 3600:
        raise InputError(
            f"hours: the attempts of this job have taken {taken / 3600:.1f} of its {hours:g} hours (limits.hours); "
            "resume it with more than that"
        )


def _clear_doubt(row: TrainingJob) -> dict[str, Any]:
    """Clear the doubt about a worker's reports; return it for the logs."""
    despite, row.doubt = row.doubt, ""
    return {"despite": despite} if despite else {}


def _lock_job(job: TrainingJob) -> TrainingJob:
    rows = TrainingJob.objects.select_for_update(of=("self",), no_key=True)
    return rows.select_related("dataset", "evaluation", "after", "created_by").get(pk=job.pk)


def _set_limits(row: TrainingJob, hours: float | None, calls_allowed: int | None) -> dict[str, Any]:
    """Put new limits into the row; return what has changed. Raises InputError."""
    changed: dict[str, Any] = {}
    if hours is not None:
        limits = {**row.config.get("limits", {}), "hours": hours}
        row.config = read_config({**row.config, "limits": limits}).model_dump(mode="json")
        row.changes = {**row.changes, "limits": {**row.changes.get("limits", {}), "hours": hours}}
        changed["hours"] = hours
    if calls_allowed is not None:
        if not row.calls_made <= calls_allowed <= MOST_CALLS:
            raise InputError(
                f"calls_allowed: the job has made {row.calls_made} calls; allow more than that, {MOST_CALLS} at most"
            )
        row.calls_allowed = calls_allowed
        changed["calls_allowed"] = calls_allowed
    return changed


def _describe_end(row: TrainingJob) -> str:
    return {
        TrainingState.SUCCEEDED: "has succeeded",
        TrainingState.FAILED: "has failed",
        TrainingState.CANCELLED: "was cancelled",
    }[TrainingState(row.state)]


def _save_and_log(row: TrainingJob, user: Any, act: str, message: str, **data: Any) -> None:
    # Not the whole row: what a worker counts up is written without this lock.
    row.save(update_fields=["config", "changes", "calls_allowed", "despite_memory"])
    transitions.save_transition(row)
    write_audit_entry(user, f"training.{act}", row, public_id=row.public_id, **data)
    transitions.log_event(row, "info", message, **data)
    wake_workers()
