"""Writes on golden states: each makes a further revision of the task and queues its audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction

from synthesis.contracts import Equality, GoldenVerifier, Volatile
from synthesis.errors import InputError, ProgramError, StateError
from synthesis.runtime import Sandbox
from synthesis.runtime.encoding import decode_state
from webapp.accounts.services import audit
from webapp.environments.models import Environment
from webapp.environments.services import program_of
from webapp.errors import Conflict
from webapp.jobs.models import Job
from webapp.jobs.queries import open_of
from webapp.jobs.services import create
from webapp.scenarios.answers.answer_form import read_form_and_expected
from webapp.scenarios.audits.further_revisions import lock_current, save_further
from webapp.scenarios.audits.services import SUPERSEDED_REMEDY, case_of, start_tasks_audit, subject_of
from webapp.scenarios.golden.reference_state import (
    UNDECIDED,
    leads_somewhere,
    leave_out_declared,
    remake_golden,
    report_undecided,
)
from webapp.scenarios.human_work import BESIDE, MOST_LISTED, describe_revision_beside
from webapp.scenarios.importer import look_at_start
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import offered_program, reference_of
from webapp.scenarios.revision_record import RevisionChanges, task_record
from webapp.scenarios.services import Start
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import read_verifier
from webapp.templatetags.show import counted

KIND = "golden_task"
Progress = Callable[[int, int, str], None]
NO_REFERENCE = "No reference of this task is known, so nobody knows the golden state. Give the task a reference."
RUBRIC = "A rubric judges this task. Only a task that checks, a script or a golden state judge can be given one."
NO_GOLDEN = "No golden state judges this task, so it has no volatile places."


@dataclass
class GoldensMade:
    """What became of the wish to judge tasks by golden states. `unsuitable`: superseded, without a reference, or judged
    by a rubric; `beside` are revisions that are not current, as what people edited or decided on stays."""

    made: list[int] = field(default_factory=list)
    had_one: int = 0
    unsuitable: int = 0
    beside: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        counts = {"made": len(self.made), "had_one": self.had_one, "unsuitable": self.unsuitable}
        listed = {BESIDE: self.beside[:MOST_LISTED]} if self.beside else {}
        return {**counts, **listed, "failed": self.failed}


def find_obstacle(revision: TaskRevision | None) -> str:
    """Return why a task cannot be judged by a golden state; empty if it can."""
    if revision is None:
        return "This task has no revision any more."
    if revision.verifier_kind == "rubric":
        return RUBRIC
    if revision.superseded:
        return f"This task is superseded. {revision.superseded} {SUPERSEDED_REMEDY}"
    return NO_REFERENCE if reference_of(revision) is None else ""


def start_golden(user: Any, task: Task, equality: Equality) -> Job:
    """Queue the making of a task's golden state from its reference. Raises Conflict: it has none, or a rubric."""
    obstacle = find_obstacle(task.current)
    if obstacle:
        raise Conflict(obstacle)
    return _queue_once(user, "task", task, f"Golden state of task {task.pk}", equality)


def start_environment_golden(user: Any, environment: Environment, equality: Equality) -> Job:
    """Queue the making of golden states for the tasks of an environment that have a reference."""
    title = f"Golden states of the tasks of {environment.name}"
    return _queue_once(user, "environment", environment, title, equality)


def _queue_once(user: Any, kind: str, about: Task | Environment, title: str, equality: Equality) -> Job:
    """Return the open job about the object, or queue one."""
    subject = f"{kind}:{about.pk}"
    known = open_of(KIND, subject)
    if known is not None:
        return known
    with transaction.atomic():
        row = create(KIND, title, {kind: about.pk, "equality": equality}, user, subject=subject)
        audit(user, f"{kind}.golden.start", about, equality=equality)
    return row


@transaction.atomic
def start_filter_golden(user: Any, wanted: dict[str, Any], equality: Equality) -> Job:
    """Queue the making of golden states for every task that a `TaskFilters`' values leave when the job runs."""
    row = create(KIND, "Golden states of tasks", {"filter": wanted, "equality": equality}, user)
    audit(user, "task.goldens.start", row, filter=wanted, equality=equality)
    return row


def make_task_golden(
    sandbox: Sandbox, task: Task, user: Any, equality: Equality, *, audited: bool = True
) -> TaskRevision:
    """Execute the reference and judge the task by the state that it leaves. Of a task that is judged by one already,
    it is made anew, and the volatile places stay that people declared.

    Its audit is queued. Without `audited` it is one of many, which the caller audits: then what a person edited or
    decided on stays current, and the revision stands beside.

    Raises InputError, ProgramError, StateError and InfrastructureError.
    """
    revision = task.current
    obstacle = find_obstacle(revision)
    if revision is None or obstacle:
        raise InputError(obstacle)
    case = case_of(revision, reference_of(revision))
    subject = subject_of(case, program_of(revision.scenario.version))
    declared = [Volatile.model_validate(item) for item in (revision.verifier or {}).get("volatile", ())]
    _, expected = read_form_and_expected(revision)
    made = remake_golden(sandbox, subject, expected, equality, declared)
    changes = RevisionChanges(verifier=made.golden, checks=())
    start = _look_at_start(sandbox, revision, changes, made.unapproved)
    with transaction.atomic():
        locked = lock_current(task)
        if locked is None or locked.pk != revision.pk:
            raise InputError("The task was changed while its golden state was made. Make it again.")
        counts = {"volatile": len(made.golden.volatile), "undecided": len(made.unapproved)}
        record = task_record(locked, None, changes)
        return save_further(
            user, locked, record, start, "task.golden.make", audited=audited, equality=equality, **counts
        )


def make_goldens(
    sandbox: Sandbox,
    tasks: Sequence[int],
    user: Any,
    equality: Equality,
    progress: Progress = lambda done, total, note: None,
) -> GoldensMade:
    """Judge each of these tasks by the golden state of its reference, then queue one audit of all that got one.

    A task that is superseded, without a reference, with a rubric or with a golden state is left as it is. What people
    edited or decided on stays current, and the revision with the golden state stands beside. `progress` may raise to
    stop. Raises InfrastructureError.
    """
    done = GoldensMade()
    rows = Task.objects.select_related("current__scenario__version", "current__scenario__initial")
    try:
        for place, pk in enumerate(tasks):
            progress(place, len(tasks), f"{counted(len(done.made), 'golden state')} made")
            row = rows.get(pk=pk)
            if row.current is not None and row.current.verifier_kind == "golden":
                done.had_one += 1
            elif find_obstacle(row.current):
                done.unsuitable += 1
            else:
                _try_golden(sandbox, row, user, equality, done)
    finally:
        if done.made:
            start_tasks_audit(user, done.made)
    progress(len(tasks), len(tasks), f"{counted(len(done.made), 'golden state')} made")
    return done


def declare_volatile(sandbox: Sandbox, user: Any, task: Task, place: Volatile, seen: int | None = None) -> TaskRevision:
    """Declare a place of the golden state volatile, in the name of the person who is its `by`.

    Raises Conflict: no golden state judges the task, it holds nothing there, or that is declared already;
    ChangedMeanwhile: the task has a further revision than the one `seen`; InfrastructureError.
    """
    revision, golden = _current_golden(task)
    if not place.by:
        raise Conflict("A place is declared in the name of a person.")
    if any((item.path, item.role) == (place.path, place.role) and item.by for item in golden.volatile):
        raise Conflict(f"{place.path} is declared volatile already.")
    if not leads_somewhere(golden, load_state(revision.scenario.initial_id), place.path):
        raise Conflict(f"The golden state holds nothing in {place.path}. Write the place as the tables spell it.")
    others = [item for item in golden.volatile if item.path != place.path]
    detail = place.model_dump(include={"path", "role", "reason"})
    return _with_volatile(sandbox, user, revision, [*others, place], "task.golden.declare", seen, **detail)


def remove_volatile(sandbox: Sandbox, user: Any, task: Task, path: str, seen: int | None = None) -> TaskRevision:
    """Take a volatile place away: what stands there must be as in the golden state.

    Raises Conflict: there is none such; ChangedMeanwhile; InfrastructureError.
    """
    revision, golden = _current_golden(task)
    kept = [item for item in golden.volatile if item.path != path]
    if len(kept) == len(golden.volatile):
        raise Conflict(f"{path} is not declared volatile. Choose a place that the task's page lists.")
    return _with_volatile(sandbox, user, revision, kept, "task.golden.remove", seen, path=path)


def _current_golden(task: Task) -> tuple[TaskRevision, GoldenVerifier]:
    rows = TaskRevision.objects.select_related("task__environment", "scenario__version", "scenario__initial")
    revision = rows.filter(pk=Task.objects.values_list("current", flat=True).get(pk=task.pk) or 0).first()
    verifier = read_verifier(revision) if revision is not None else None
    if revision is None or not isinstance(verifier, GoldenVerifier):
        raise Conflict(NO_GOLDEN)
    return revision, verifier


def _with_volatile(
    sandbox: Sandbox,
    user: Any,
    revision: TaskRevision,
    places: Sequence[Volatile],
    action: str,
    seen: int | None,
    **detail: Any,
) -> TaskRevision:
    """A further revision with these volatile places, current from now on."""
    verifier = read_verifier(revision)
    changes = RevisionChanges(verifier=verifier.model_copy(update={"volatile": tuple(places)}), checks=())
    undecided = leave_out_declared(list_undecided(revision), places)
    start = _look_at_start(sandbox, revision, changes, undecided)
    with transaction.atomic():
        locked = lock_current(revision.task, seen)
        if locked is None or locked.pk != revision.pk:
            raise Conflict("The task was changed meanwhile, so nothing was changed. Look at it and send it again.")
        return save_further(user, locked, task_record(locked, None, changes), start, action, audited=True, **detail)


def list_undecided(revision: TaskRevision) -> list[Volatile]:
    """Return the places of a revision that differ from run to run, and that nobody has declared volatile."""
    found = revision.findings.filter(kind=UNDECIDED).order_by("id").values_list("data", flat=True)
    return [Volatile.model_validate(data) for data in found]


def _look_at_start(
    sandbox: Sandbox, revision: TaskRevision, changes: RevisionChanges, undecided: Iterable[Volatile]
) -> Start:
    """What the verifier says at the start, with the places that a person has to decide on."""
    initial = load_state(revision.scenario.initial_id)
    record = task_record(revision, None, changes).model_copy(update={"initial_state": decode_state(initial)})
    start = look_at_start(sandbox, record, offered_program(revision), initial)
    return replace(start, findings=[*start.findings, *report_undecided(undecided)])


def _try_golden(sandbox: Sandbox, task: Task, user: Any, equality: Equality, done: GoldensMade) -> None:
    try:
        made = make_task_golden(sandbox, task, user, equality, audited=False)
    except (InputError, ProgramError, StateError, Conflict) as error:
        done.failed.append({"place": task.key, "reason": str(error)[:500]})
        return
    if Task.objects.filter(pk=task.pk, current=made.pk).exists():
        done.made.append(task.pk)
    else:
        done.beside.append(describe_revision_beside(made))
