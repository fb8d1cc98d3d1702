"""Writes of withheld variants: of a task whose verifier is trusted the first that can be made, or why none can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from synthesis.contracts import ChecksVerifier
from synthesis.errors import EnvariumError, InfrastructureError, InputError, SandboxUnavailable
from synthesis.formats.answer_form import form_record
from synthesis.formats.values import clean
from synthesis.runtime import Sandbox, decode_state, offered
from synthesis.tasks.withheld import Unsuitable, WithheldVariant
from synthesis.tasks.withheld_teacher import first_variant
from webapp.accounts.services import audit
from webapp.environments.services import program_of
from webapp.scenarios.audits.services import case_of, compute, known, store, subject_of
from webapp.scenarios.importer import look_at_start
from webapp.scenarios.models import AuditState, Task, TaskRevision
from webapp.scenarios.references import reference_of
from webapp.scenarios.revision_record import task_record
from webapp.scenarios.services import SavedTask, save_task
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import VERIFIER_NAMES
from webapp.templatetags.show import counted

SOURCE = "withheld"
NOT_TRUSTED = "its audit is not green, so nothing is known of which tools it needs"
A_VARIANT = "it is a withheld variant itself"
NO_CONTENT = "it has no revision"
Progress = Callable[[int, int, str], None]


@dataclass
class VariantsMade:
    """What became of the wish for variants: `made` and `unchanged` are their numbers, `unsuitable` says by task what
    cannot be withheld and why."""

    made: list[int] = field(default_factory=list)
    unchanged: list[int] = field(default_factory=list)
    unsuitable: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)

    @property
    def all(self) -> list[int]:
        return [*self.made, *self.unchanged]


def withhold_from(
    sandbox: Sandbox,
    tasks: Sequence[int],
    user: Any = None,
    progress: Progress = lambda done, total, note: None,
    *,
    most: int | None = None,
) -> VariantsMade:
    """Make one variant of each of these tasks that can have one, of at most `most` of them. Audits are not made here.

    A variant that is there stays. `progress` may raise to stop; what is stored by then stays. Raises
    InfrastructureError where not one task could be looked at.
    """
    done = VariantsMade()
    for number, pk in enumerate(tasks):
        progress(number, len(tasks), counted(len(done.all), "variant"))
        if most is not None and len(done.all) >= most:
            break
        task = Task.objects.select_related("environment").filter(pk=pk).first()
        if task is None:
            continue
        try:
            _one(sandbox, task, user, done)
        except SandboxUnavailable:
            raise
        except EnvariumError as error:
            done.failed.append({"place": clean(task.key), "reason": clean(str(error))[:1_000]})
    if done.failed and len(done.failed) == len(tasks):
        raise InfrastructureError(f"No task could be looked at. {done.failed[0]['reason']}")
    progress(len(tasks), len(tasks), counted(len(done.all), "variant"))
    return done


def _one(sandbox: Sandbox, task: Task, user: Any, done: VariantsMade) -> None:
    found = _first(sandbox, task)
    if isinstance(found, WithheldVariant):
        saved = save_variant(sandbox, task, found, user)
        is_new = saved.task in ("created", "updated")
        (done.made if is_new else done.unchanged).append(saved.row.pk)
        return
    reasons = [f"{one.name}: {one.reason}" if one.name else one.reason for one in found]
    done.unsuitable.append({"task": task.pk, "key": clean(task.key), "reasons": [clean(one)[:500] for one in reasons]})


def _first(sandbox: Sandbox, task: Task) -> WithheldVariant | list[Unsuitable]:
    """The first variant that can be made of a task; where there is none, why."""
    revision = _revision(task)
    problem = A_VARIANT if task.withheld else NO_CONTENT if revision is None else ""
    problem = problem or (revision.superseded if revision is not None else "")
    problem = problem or (NOT_TRUSTED if task.audit_state != AuditState.GREEN else "")
    if problem or revision is None:
        return [Unsuitable("", problem)]
    if revision.verifier_kind != "checks":
        kind = VERIFIER_NAMES[revision.verifier_kind]
        return [Unsuitable("", f"its verifier is {kind}: no check tells what is missing")]
    case = case_of(revision, reference_of(revision))
    subject = subject_of(case, program_of(revision.scenario.version))
    return first_variant(sandbox, subject)


def audited_variant(sandbox: Sandbox, parent: Task) -> TaskRevision:
    """The revision of the variant that a task has, made and audited where it is not yet. Raises InputError (nothing
    can be withheld) and InfrastructureError."""
    found = _first(sandbox, parent)
    if not isinstance(found, WithheldVariant):
        raise InputError(f"Nothing can be withheld from the task {parent.key!r}: {found[0].reason if found else ''}.")
    revision = save_variant(sandbox, parent, found).revision
    case = case_of(revision, reference_of(revision))
    if known(case) is None:
        store(case, compute(sandbox, case, subject_of(case, program_of(revision.scenario.version))))
    return revision


def _revision(task: Task) -> TaskRevision | None:
    rows = TaskRevision.objects.select_related("task__environment", "scenario__version", "scenario__initial")
    return rows.filter(pk=task.current_id or 0).first()


def save_variant(sandbox: Sandbox, parent: Task, found: WithheldVariant, user: Any = None) -> SavedTask:
    """Store a variant as a task of its own, with its reference. One that people edited or decided on stays current.

    Raises InputError and InfrastructureError."""
    revision = _revision(parent)
    if revision is None:
        raise InputError(f"The task {parent.key!r} has no revision any more.")
    record = task_record(revision, found.frame)
    verifier = ChecksVerifier(checks=found.checks, frame=found.frame)
    listed = [{"check_item": check.label, "check_func": check.source} for check in found.checks]
    key = _key(parent, found)
    raw = {name: part for name, part in record.raw.items() if name != "criteria"}
    raw |= {"task_id": key, "task": revision.instruction, "checklist_with_func": listed}
    raw |= {"checklist": [check.label for check in found.checks]} if "checklist" in raw else {}
    raw |= form_record(found.answer_form, found.expected_answer)
    raw["withheld"] = found.withheld.model_dump(mode="json")
    changes: dict[str, Any] = {
        "key": key,
        "title": f"{parent.title[:240]} (without {found.withheld.name})"[:300],
        "instruction": revision.instruction,
        "answer_form": found.answer_form,
        "expected_answer": found.expected_answer,
        "verifier": verifier,
        "withheld": found.withheld,
        "reference": found.reference,
        "raw": raw,
    }
    initial = load_state(revision.scenario.initial_id)
    record = record.model_copy(update=changes | {"initial_state": decode_state(initial)})
    version = revision.scenario.version
    start = look_at_start(sandbox, record, offered(program_of(version), found.withheld), initial)
    with transaction.atomic():
        saved = save_task(record, version, revision.scenario.initial, start, SOURCE)
        Task.objects.filter(pk=saved.row.pk).update(parent=parent)
        if saved.task in ("created", "updated") and user is not None:
            audit(user, "task.withhold", saved.row, parent=parent.pk, withheld=found.withheld.name)
    return saved


def _key(parent: Task, found: WithheldVariant) -> str:
    """The variant's key: the parent's and what is withheld; the parent's number too where another one's has it."""
    name = found.withheld.name.replace("(", "-").replace(")", "")
    key = f"{parent.key[:100]}~without-{name}"[:190]
    others = Task.objects.filter(environment=parent.environment_id, source=SOURCE, key=key).exclude(parent=parent)
    return f"{key}-{parent.pk}" if others.exists() else key
