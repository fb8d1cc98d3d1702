"""Writes on frames: each makes a further revision of the task and queues its audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from synthesis.contracts import Allowance, Frame
from synthesis.errors import InputError, ProgramError
from synthesis.runtime import Sandbox
from synthesis.verifiers.frame import is_unpinned, widen_frame
from synthesis.verifiers.reference_frame import build_reference_frame
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict
from webapp.common.templatetags.show import counted
from webapp.environments.models import Environment
from webapp.environments.services import build_program
from webapp.jobs.models import Job
from webapp.jobs.queries import find_open_job
from webapp.jobs.services import enqueue_job
from webapp.scenarios.audits.further_revisions import lock_current_revision, save_further_revision
from webapp.scenarios.audits.services import build_audit_case, build_audit_subject, refuse_superseded, start_tasks_audit
from webapp.scenarios.human_work import BESIDE, MOST_LISTED, describe_revision_beside
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import find_reference, read_frame
from webapp.scenarios.revision_record import build_task_record, read_start
from webapp.scenarios.verifiers import FRAMED

KIND = "frame_task"
NO_KIND = "Only a task that checks or a script judge can have a frame."
Progress = Callable[[int, int, str], None]


@dataclass
class FramesMade:
    """Result of making frames. `no_reference`: no reference shows what a right way changes; `beside` are revisions that
    are not current, since people edited or decided on the current ones."""

    made: list[int] = field(default_factory=list)
    had_one: int = 0
    no_reference: int = 0
    superseded: int = 0
    beside: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        counts = {"made": len(self.made), "had_one": self.had_one, "no_reference": self.no_reference}
        listed = {BESIDE: self.beside[:MOST_LISTED]} if self.beside else {}
        return {**counts, "superseded": self.superseded, **listed, "failed": self.failed}


@transaction.atomic
def widen_task(user: Any, task: Task, places: Sequence[Allowance], seen: int | None = None) -> TaskRevision:
    """Allow further changes; each place has a reason. `seen` is the number of the revision that the person saw.

    Raises Conflict if the task has no frame, or one that allows all of it; ChangedMeanwhile if it has a further
    revision.
    """
    revision = _lock_framed_revision(task, seen)
    frame = read_frame(revision)
    if frame is None:
        raise Conflict("This task has no frame, so nothing is refused yet. Switch its frame on first.")
    wider = widen_frame(frame, places)
    if wider == frame:
        raise Conflict("The frame of this task allows all of that already.")
    place_details = [
        {"path": place.path, "most": place.most, "reason": place.reason, **_dump_allowed_values(place)}
        for place in places
    ]
    return _save_with_frame(user, revision, wider, "task.frame.widen", places=place_details)


def _dump_allowed_values(place: Allowance) -> dict[str, Any]:
    """Return the values that a place may have, if it limits them."""
    return place.model_dump(mode="json", include={"values", "minimum", "maximum"}, exclude_defaults=True)


@transaction.atomic
def restore_frame(user: Any, task: Task, number: int, seen: int | None = None) -> TaskRevision:
    """Give the task the frame of an earlier revision, which may be none.

    Raises Conflict if there is no such revision; ChangedMeanwhile if the task has a further revision than `seen`.
    """
    revision = _lock_framed_revision(task, seen)
    earlier = task.revisions.filter(number=number).first()
    if earlier is None or earlier.verifier_kind not in FRAMED:
        raise Conflict(f"This task has no revision {number} that could have a frame. Choose one that its page lists.")
    if earlier.frame == revision.frame:
        raise Conflict(f"Revision {number} has the frame that the task has now.")
    return _save_with_frame(user, revision, read_frame(earlier), "task.frame.restore", frame_of=number)


@transaction.atomic
def drop_frame(user: Any, task: Task, reason: str, seen: int | None = None) -> TaskRevision:
    """Leave the task's frame out from now on; the reason is written to the audit log.

    Raises Conflict if it has none; ChangedMeanwhile if it has a further revision than `seen`.
    """
    revision = _lock_framed_revision(task, seen)
    if revision.frame is None:
        raise Conflict("This task has no frame, so there is none to switch off.")
    return _save_with_frame(user, revision, None, "task.frame.off", reason=reason)


def start_environment_frames(user: Any, environment: Environment) -> Job:
    """Queue the making of frames for all tasks of an environment that have a reference and no frame, or one that pins
    nothing."""
    subject = f"environment:{environment.pk}"
    open_job = find_open_job(KIND, subject)
    if open_job is not None:
        return open_job
    with transaction.atomic():
        payload = {"environment": environment.pk}
        row = enqueue_job(KIND, f"Frames of the tasks of {environment.name}", payload, user, subject=subject)
        write_audit_entry(user, "environment.frames.start", environment)
    return row


@transaction.atomic
def start_filter_frames(user: Any, wanted: dict[str, Any], *, makes: bool) -> Job:
    """Queue the pinning of the frames that pin nothing, of every task that a `TaskFilters`' values select when the job
    runs.

    With `makes` tasks without a frame get one too.
    """
    row = enqueue_job(KIND, "Pin the frames of tasks", {"filter": wanted, "makes": makes}, user)
    write_audit_entry(user, "task.frames.start", row, filter=wanted, makes=makes)
    return row


def start_frame(user: Any, task: Task) -> Job:
    """Queue the making of a task's frame from its reference, also if its present frame pins no values.

    Raises Conflict if the task has a frame that pins values, or has no reference.
    """
    current = task.current
    if current is None or current.verifier_kind not in FRAMED:
        raise Conflict(NO_KIND)
    refuse_superseded(current)
    if current.frame is not None and not has_unpinned_places(current):
        raise Conflict("This task has a frame already.")
    if find_reference(current) is None:
        raise Conflict("No reference of this task is known, so nothing says what a right way changes.")
    subject = f"task:{task.pk}"
    open_job = find_open_job(KIND, subject)
    if open_job is not None:
        return open_job
    with transaction.atomic():
        row = enqueue_job(KIND, f"Frame of task {task.pk}", {"task": task.pk}, user, subject=subject)
        write_audit_entry(user, "task.frame.start", task)
    return row


def frame_task(sandbox: Sandbox, task: Task, user: Any, *, audited: bool = True) -> TaskRevision:
    """Execute the reference and give the task the frame that it spans. A task with a frame keeps it, unless that frame
    allows places without values: then a new frame keeps what was allowed in addition to the reference.

    Its audit is queued. Without `audited` it is one of many, which the caller audits: then a revision that a person
    edited or decided on remains current, and the new revision is stored beside it.

    Raises InputError, ProgramError, Conflict and InfrastructureError.
    """
    revision = task.current
    if revision is None:
        raise InputError("This task has no revision any more.")
    earlier_frame = read_frame(revision)
    if earlier_frame is not None and not has_unpinned_places(revision):
        return revision
    case = build_audit_case(revision, find_reference(revision))
    frame = build_reference_frame(sandbox, build_audit_subject(case, build_program(revision.scenario.version)))
    if earlier_frame is not None:
        frame = widen_frame(frame, [item for item in earlier_frame.allowances if item.source != "reference"])
    with transaction.atomic():
        # The reference ran outside of the transaction, so the task may have changed since.
        if _lock_framed_revision(task).pk != revision.pk:
            raise InputError("The task was changed while its frame was made. Switch it on again.")
        allowed = len(frame.allowances)
        return _save_with_frame(user, revision, frame, "task.frame.on", audited=audited, allowances=allowed)


def frame_tasks(
    sandbox: Sandbox,
    tasks: Sequence[int],
    user: Any = None,
    progress: Progress = lambda done, total, note: None,
    *,
    pins: bool = False,
) -> FramesMade:
    """Give each of these tasks the frame that its reference spans, then queue one audit of all new frames.

    A task that is superseded, without a reference, with a frame or with a verifier that takes none remains as it is;
    with `pins` a frame that pins nothing becomes one that pins values. A revision that people edited or decided on
    remains current, and the revision with the frame is stored beside it. `progress` may raise to stop. Raises
    InfrastructureError.
    """
    done = FramesMade()
    rows = Task.objects.select_related("current").defer("current__record")
    try:
        for place, pk in enumerate(tasks):
            progress(place, len(tasks), f"{counted(len(done.made), 'frame')} made")
            row = rows.get(pk=pk)
            current = row.current
            if current is not None and current.superseded:
                done.superseded += 1
            elif current is not None and current.frame is not None and not (pins and has_unpinned_places(current)):
                done.had_one += 1
            elif current is None or current.verifier_kind not in FRAMED or find_reference(current) is None:
                done.no_reference += 1
            else:
                _try_frame(sandbox, row, user, done)
    finally:
        if done.made:
            start_tasks_audit(user, done.made)
    progress(len(tasks), len(tasks), f"{counted(len(done.made), 'frame')} made")
    return done


def has_unpinned_places(revision: TaskRevision) -> bool:
    """Return whether the frame allows changes at some place without limiting the values."""
    frame = read_frame(revision)
    return frame is not None and any(map(is_unpinned, frame.allowances))


def _try_frame(sandbox: Sandbox, task: Task, user: Any, done: FramesMade) -> None:
    try:
        revision = frame_task(sandbox, task, user, audited=False)
    except (InputError, ProgramError, Conflict) as error:
        done.failed.append({"place": task.key, "reason": str(error)[:500]})
        return
    if Task.objects.filter(pk=task.pk, current=revision.pk).exists():
        done.made.append(task.pk)
    else:
        done.beside.append(describe_revision_beside(revision))


def _lock_framed_revision(task: Task, seen: int | None = None) -> TaskRevision:
    row = lock_current_revision(task, seen)
    if row is None or row.verifier_kind not in FRAMED:
        raise Conflict(NO_KIND)
    refuse_superseded(row)
    return row


def _save_with_frame(
    user: Any, revision: TaskRevision, frame: Frame | None, action: str, *, audited: bool = True, **detail: Any
) -> TaskRevision:
    """Save a further revision that differs only in its frame."""
    record, start = build_task_record(revision, frame), read_start(revision)
    return save_further_revision(user, revision, record, start, action, audited=audited, **detail)
