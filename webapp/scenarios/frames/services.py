"""Writes on frames: each makes a further revision of the task and queues its audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from synthesis.contracts import Allowance, Frame
from synthesis.errors import InputError, ProgramError
from synthesis.runtime import Sandbox
from synthesis.verifiers.frame import is_unpinned, widen
from synthesis.verifiers.reference_frame import reference_frame
from webapp.accounts.services import audit
from webapp.environments.models import Environment
from webapp.environments.services import program_of
from webapp.errors import Conflict
from webapp.jobs.models import Job
from webapp.jobs.queries import open_of
from webapp.jobs.services import create
from webapp.scenarios.audits.further_revisions import lock_current, save_further
from webapp.scenarios.audits.services import case_of, refuse_superseded, start_tasks_audit, subject_of
from webapp.scenarios.human_work import BESIDE, MOST_LISTED, describe_revision_beside
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import frame_of_revision, reference_of
from webapp.scenarios.revision_record import start_of, task_record
from webapp.scenarios.verifiers import FRAMED
from webapp.templatetags.show import counted

KIND = "frame_task"
NO_KIND = "Only a task that checks or a script judge can have a frame."
Progress = Callable[[int, int, str], None]


@dataclass
class FramesMade:
    """What became of the wish to give tasks frames. `no_reference`: nothing says what a right way changes there;
    `beside` are revisions that are not current, as what people edited or decided on stays."""

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
    """Allow further changes; each place says why. `seen` is the number of the revision that the person looked at.

    Raises Conflict: the task has no frame, or allows all of it; ChangedMeanwhile: it has a further revision.
    """
    revision = _locked(task, seen)
    frame = frame_of_revision(revision)
    if frame is None:
        raise Conflict("This task has no frame, so nothing is refused yet. Switch its frame on first.")
    wider = widen(frame, places)
    if wider == frame:
        raise Conflict("The frame of this task allows all of that already.")
    told = [{"path": place.path, "most": place.most, "reason": place.reason, **_choice(place)} for place in places]
    return _revised(user, revision, wider, "task.frame.widen", places=told)


def _choice(place: Allowance) -> dict[str, Any]:
    """The values that a place may have, where it says so."""
    return place.model_dump(mode="json", include={"values", "minimum", "maximum"}, exclude_defaults=True)


@transaction.atomic
def restore_frame(user: Any, task: Task, number: int, seen: int | None = None) -> TaskRevision:
    """Give the task the frame that an earlier revision had, none included.

    Raises Conflict: there is none such; ChangedMeanwhile: it has a further revision than the one `seen`.
    """
    revision = _locked(task, seen)
    earlier = task.revisions.filter(number=number).first()
    if earlier is None or earlier.verifier_kind not in FRAMED:
        raise Conflict(f"This task has no revision {number} that could have a frame. Choose one that its page lists.")
    if earlier.frame == revision.frame:
        raise Conflict(f"Revision {number} has the frame that the task has now.")
    return _revised(user, revision, frame_of_revision(earlier), "task.frame.restore", frame_of=number)


@transaction.atomic
def drop_frame(user: Any, task: Task, reason: str, seen: int | None = None) -> TaskRevision:
    """Leave the task's frame out from now on; the reason stands in the audit log.

    Raises Conflict: it has none; ChangedMeanwhile: it has a further revision than the one `seen`.
    """
    revision = _locked(task, seen)
    if revision.frame is None:
        raise Conflict("This task has no frame, so there is none to switch off.")
    return _revised(user, revision, None, "task.frame.off", reason=reason)


def start_environment_frames(user: Any, environment: Environment) -> Job:
    """Queue the making of frames for all tasks of an environment that have a reference and no frame, or one that pins
    nothing."""
    subject = f"environment:{environment.pk}"
    known = open_of(KIND, subject)
    if known is not None:
        return known
    with transaction.atomic():
        payload = {"environment": environment.pk}
        row = create(KIND, f"Frames of the tasks of {environment.name}", payload, user, subject=subject)
        audit(user, "environment.frames.start", environment)
    return row


@transaction.atomic
def start_filter_frames(user: Any, wanted: dict[str, Any], *, makes: bool) -> Job:
    """Queue the pinning of the frames that pin nothing, of every task that a `TaskFilters`' values leave when the job
    runs; `makes`: those without a frame get one too."""
    row = create(KIND, "Pin the frames of tasks", {"filter": wanted, "makes": makes}, user)
    audit(user, "task.frames.start", row, filter=wanted, makes=makes)
    return row


def start_frame(user: Any, task: Task) -> Job:
    """Queue the making of a task's frame from its reference, or of one that pins values where its own does not.

    Raises Conflict: it has one, or no reference.
    """
    current = task.current
    if current is None or current.verifier_kind not in FRAMED:
        raise Conflict(NO_KIND)
    refuse_superseded(current)
    if current.frame is not None and not pins_nothing(current):
        raise Conflict("This task has a frame already.")
    if reference_of(current) is None:
        raise Conflict("No reference of this task is known, so nothing says what a right way changes.")
    subject = f"task:{task.pk}"
    known = open_of(KIND, subject)
    if known is not None:
        return known
    with transaction.atomic():
        row = create(KIND, f"Frame of task {task.pk}", {"task": task.pk}, user, subject=subject)
        audit(user, "task.frame.start", task)
    return row


def frame_task(sandbox: Sandbox, task: Task, user: Any, *, audited: bool = True) -> TaskRevision:
    """Execute the reference and give the task the frame that it spans. A task that has one keeps it, unless that does
    not say to what places may change: then it keeps what was allowed besides.

    Its audit is queued. Without `audited` it is one of many, which the caller audits: then what a person edited or
    decided on stays current, and the revision stands beside.

    Raises InputError, ProgramError, Conflict and InfrastructureError.
    """
    revision = task.current
    if revision is None:
        raise InputError("This task has no revision any more.")
    known = frame_of_revision(revision)
    if known is not None and not pins_nothing(revision):
        return revision
    case = case_of(revision, reference_of(revision))
    frame = reference_frame(sandbox, subject_of(case, program_of(revision.scenario.version)))
    if known is not None:
        frame = widen(frame, [item for item in known.allowances if item.source != "reference"])
    with transaction.atomic():
        if _locked(task).pk != revision.pk:
            raise InputError("The task was changed while its frame was made. Switch it on again.")
        allowed = len(frame.allowances)
        return _revised(user, revision, frame, "task.frame.on", audited=audited, allowances=allowed)


def frame_tasks(
    sandbox: Sandbox,
    tasks: Sequence[int],
    user: Any = None,
    progress: Progress = lambda done, total, note: None,
    *,
    pins: bool = False,
) -> FramesMade:
    """Give each of these tasks the frame that its reference spans, then queue one audit of all that got one.

    A task that is superseded, without a reference, with a frame or with a verifier that takes none is left as it is;
    with `pins` a frame that pins nothing becomes one that pins values. What people edited or decided on stays current,
    and the revision with the frame stands beside. `progress` may raise to stop. Raises InfrastructureError.
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
            elif current is not None and current.frame is not None and not (pins and pins_nothing(current)):
                done.had_one += 1
            elif current is None or current.verifier_kind not in FRAMED or reference_of(current) is None:
                done.no_reference += 1
            else:
                _try_frame(sandbox, row, user, done)
    finally:
        if done.made:
            start_tasks_audit(user, done.made)
    progress(len(tasks), len(tasks), f"{counted(len(done.made), 'frame')} made")
    return done


def pins_nothing(revision: TaskRevision) -> bool:
    """Whether its frame says where a right way may change something, and somewhere not to what."""
    frame = frame_of_revision(revision)
    return frame is not None and any(map(is_unpinned, frame.allowances))


def _try_frame(sandbox: Sandbox, task: Task, user: Any, done: FramesMade) -> None:
    try:
        made = frame_task(sandbox, task, user, audited=False)
    except (InputError, ProgramError, Conflict) as error:
        done.failed.append({"place": task.key, "reason": str(error)[:500]})
        return
    if Task.objects.filter(pk=task.pk, current=made.pk).exists():
        done.made.append(task.pk)
    else:
        done.beside.append(describe_revision_beside(made))


def _locked(task: Task, seen: int | None = None) -> TaskRevision:
    row = lock_current(task, seen)
    if row is None or row.verifier_kind not in FRAMED:
        raise Conflict(NO_KIND)
    refuse_superseded(row)
    return row


def _revised(
    user: Any, revision: TaskRevision, frame: Frame | None, action: str, *, audited: bool = True, **detail: Any
) -> TaskRevision:
    """A further revision that differs in its frame alone."""
    record, start = task_record(revision, frame), start_of(revision)
    return save_further(user, revision, record, start, action, audited=audited, **detail)
