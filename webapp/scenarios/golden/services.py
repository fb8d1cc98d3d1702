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
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict
from webapp.common.templatetags.show import counted
from webapp.environments.models import Environment
from webapp.environments.services import build_program
from webapp.jobs.models import Job
from webapp.jobs.queries import find_open_job
from webapp.jobs.services import enqueue_job
from webapp.scenarios.answers.answer_form import read_form_and_expected
from webapp.scenarios.audits.further_revisions import lock_current_revision, save_further_revision
from webapp.scenarios.audits.services import SUPERSEDED_REMEDY, build_audit_case, build_audit_subject, start_tasks_audit
from webapp.scenarios.golden.reference_state import (
    UNDECIDED,
    has_golden_place,
    leave_out_declared,
    remake_golden,
    report_undecided,
)
from webapp.scenarios.human_work import BESIDE, MOST_LISTED, describe_revision_beside
from webapp.scenarios.importer import evaluate_start
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import build_offered_program, find_reference
from webapp.scenarios.revision_record import RevisionChanges, build_task_record
from webapp.scenarios.services import Start
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import read_verifier

KIND = "golden_task"
Progress = Callable[[int, int, str], None]
NO_REFERENCE = "No reference of this task is known, so its golden state is not known either. Give the task a reference."
RUBRIC = "A rubric judges this task. Only a task that checks, a script or a golden state judge can be given one."
NO_GOLDEN = "No golden state judges this task, so it has no volatile places."


@dataclass
class GoldensMade:
    """Result of making golden states. `unsuitable`: superseded, without a reference, or judged by a rubric; `beside`
    are revisions that are not current, since people edited or decided on the current ones."""

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
    return NO_REFERENCE if find_reference(revision) is None else ""


def start_golden(user: Any, task: Task, equality: Equality) -> Job:
    """Queue the making of a task's golden state from its reference. Raises Conflict if it has no reference, or a
    rubric."""
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
    open_job = find_open_job(KIND, subject)
    if open_job is not None:
        return open_job
    with transaction.atomic():
        row = enqueue_job(KIND, title, {kind: about.pk, "equality": equality}, user, subject=subject)
        write_audit_entry(user, f"{kind}.golden.start", about, equality=equality)
    return row


@transaction.atomic
def start_filter_golden(user: Any, wanted: dict[str, Any], equality: Equality) -> Job:
    """Queue the making of golden states for every task that a `TaskFilters`' values select when the job runs."""
    row = enqueue_job(KIND, "Golden states of tasks", {"filter": wanted, "equality": equality}, user)
    write_audit_entry(user, "task.goldens.start", row, filter=wanted, equality=equality)
    return row


def make_task_golden(
    sandbox: Sandbox, task: Task, user: Any, equality: Equality, *, audited: bool = True
) -> TaskRevision:
    """Execute the reference and judge the task by the state that it leaves. If a golden state judges the task already,
    it is made anew, and the places that people declared volatile remain.

    Its audit is queued. Without `audited` it is one of many, which the caller audits: then a revision that a person
    edited or decided on remains current, and the new revision is stored beside it.

    Raises InputError, ProgramError, StateError and InfrastructureError.
    """
    revision = task.current
    obstacle = find_obstacle(revision)
    if revision is None or obstacle:
        raise InputError(obstacle)
    case = build_audit_case(revision, find_reference(revision))
    subject = build_audit_subject(case, build_program(revision.scenario.version))
    declared = [Volatile.model_validate(item) for item in (revision.verifier or {}).get("volatile", ())]
    _, expected = read_form_and_expected(revision)
    made_golden = remake_golden(sandbox, subject, expected, equality, declared)
    changes = RevisionChanges(verifier=made_golden.golden, checks=())
    start = _evaluate_start(sandbox, revision, changes, made_golden.unapproved)
    with transaction.atomic():
        locked = lock_current_revision(task)
        if locked is None or locked.pk != revision.pk:
            raise InputError("The task was changed while its golden state was made. Make it again.")
        counts = {"volatile": len(made_golden.golden.volatile), "undecided": len(made_golden.unapproved)}
        record = build_task_record(locked, None, changes)
        return save_further_revision(
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

    A task that is superseded, without a reference, with a rubric or with a golden state remains as it is. A revision
    that people edited or decided on remains current, and the revision with the golden state is stored beside it.
    `progress` may raise to stop. Raises InfrastructureError.
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
    """Declare a place of the golden state volatile, in the name of the person in its `by`.

    Raises Conflict if no golden state judges the task, the place does not exist in it, or it is declared already;
    ChangedMeanwhile if the task has a further revision than `seen`; InfrastructureError.
    """
    revision, golden = _get_current_golden(task)
    if not place.by:
        raise Conflict("A place is declared in the name of a person.")
    if any((item.path, item.role) == (place.path, place.role) and item.by for item in golden.volatile):
        raise Conflict(f"{place.path} is declared volatile already.")
    if not has_golden_place(golden, load_state(revision.scenario.initial_id), place.path):
        raise Conflict(f"The golden state holds nothing in {place.path}. Write the place as the tables spell it.")
    others = [item for item in golden.volatile if item.path != place.path]
    detail = place.model_dump(include={"path", "role", "reason"})
    return _save_with_volatile(sandbox, user, revision, [*others, place], "task.golden.declare", seen, **detail)


def remove_volatile(sandbox: Sandbox, user: Any, task: Task, path: str, seen: int | None = None) -> TaskRevision:
    """Remove a volatile place: its value must be that of the golden state.

    Raises Conflict if there is no such place; ChangedMeanwhile; InfrastructureError.
    """
    revision, golden = _get_current_golden(task)
    remaining_places = [item for item in golden.volatile if item.path != path]
    if len(remaining_places) == len(golden.volatile):
        raise Conflict(f"{path} is not declared volatile. Choose a place that the task's page lists.")
    return _save_with_volatile(sandbox, user, revision, remaining_places, "task.golden.remove", seen, path=path)


def _get_current_golden(task: Task) -> tuple[TaskRevision, GoldenVerifier]:
    rows = TaskRevision.objects.select_related("task__environment", "scenario__version", "scenario__initial")
    revision = rows.filter(pk=Task.objects.values_list("current", flat=True).get(pk=task.pk) or 0).first()
    verifier = read_verifier(revision) if revision is not None else None
    if revision is None or not isinstance(verifier, GoldenVerifier):
        raise Conflict(NO_GOLDEN)
    return revision, verifier


def _save_with_volatile(
    sandbox: Sandbox,
    user: Any,
    revision: TaskRevision,
    places: Sequence[Volatile],
    action: str,
    seen: int | None,
    **detail: Any,
) -> TaskRevision:
    """Save a further revision with these volatile places, which becomes current."""
    verifier = read_verifier(revision)
    changes = RevisionChanges(verifier=verifier.model_copy(update={"volatile": tuple(places)}), checks=())
    undecided = leave_out_declared(list_undecided_places(revision), places)
    start = _evaluate_start(sandbox, revision, changes, undecided)
    with transaction.atomic():
        locked = lock_current_revision(revision.task, seen)
        if locked is None or locked.pk != revision.pk:
            raise Conflict("The task was changed meanwhile, so nothing was changed. Look at it and send it again.")
        return save_further_revision(
            user, locked, build_task_record(locked, None, changes), start, action, audited=True, **detail
        )


def list_undecided_places(revision: TaskRevision) -> list[Volatile]:
    """Return the places of a revision that differ between runs and have not been declared volatile."""
    stored_places = revision.findings.filter(kind=UNDECIDED).order_by("id").values_list("data", flat=True)
    return [Volatile.model_validate(data) for data in stored_places]


def _evaluate_start(
    sandbox: Sandbox, revision: TaskRevision, changes: RevisionChanges, undecided: Iterable[Volatile]
) -> Start:
    """Return the verifier's results at the start, with the places that a person has to decide on."""
    initial = load_state(revision.scenario.initial_id)
    record = build_task_record(revision, None, changes).model_copy(update={"initial_state": decode_state(initial)})
    start = evaluate_start(sandbox, record, build_offered_program(revision), initial)
    return replace(start, findings=[*start.findings, *report_undecided(undecided)])


def _try_golden(sandbox: Sandbox, task: Task, user: Any, equality: Equality, done: GoldensMade) -> None:
    try:
        revision = make_task_golden(sandbox, task, user, equality, audited=False)
    except (InputError, ProgramError, StateError, Conflict) as error:
        done.failed.append({"place": task.key, "reason": str(error)[:500]})
        return
    if Task.objects.filter(pk=task.pk, current=revision.pk).exists():
        done.made.append(task.pk)
    else:
        done.beside.append(describe_revision_beside(revision))
