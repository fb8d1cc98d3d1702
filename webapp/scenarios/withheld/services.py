"""Writes of withheld variants: the first variant that can be made of a task with a trusted verifier, or why there is
none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from synthesis.contracts import ChecksVerifier
from synthesis.errors import EnvariumError, InfrastructureError, InputError, SandboxUnavailable
from synthesis.formats.answer_form import serialize_form
from synthesis.formats.values import clean_text
from synthesis.runtime import Sandbox, decode_state, restrict_program
from synthesis.tasks.withheld import Unsuitable, WithheldVariant
from synthesis.tasks.withheld_teacher import find_first_variant
from webapp.accounts.services import write_audit_entry
from webapp.common.templatetags.show import counted
from webapp.environments.services import build_program
from webapp.scenarios.audits.services import (
    build_audit_case,
    build_audit_subject,
    compute_audit,
    find_stored_audit,
    store_audit,
)
from webapp.scenarios.importer import evaluate_start
from webapp.scenarios.models import AuditState, Task, TaskRevision
from webapp.scenarios.references import find_reference
from webapp.scenarios.revision_record import build_task_record
from webapp.scenarios.services import SavedTask, save_task
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import VERIFIER_NAMES

SOURCE = "withheld"
NOT_TRUSTED = "its audit is not green, so nothing is known of which tools it needs"
A_VARIANT = "it is a withheld variant itself"
NO_CONTENT = "it has no revision"
Progress = Callable[[int, int, str], None]


@dataclass
class VariantsMade:
    """Result of making variants: `made` and `unchanged` are their numbers, `unsuitable` lists by task what cannot be
    withheld and why."""

    made: list[int] = field(default_factory=list)
    unchanged: list[int] = field(default_factory=list)
    unsuitable: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)

    @property
    def all(self) -> list[int]:
        return [*self.made, *self.unchanged]


def make_variants(
    sandbox: Sandbox,
    tasks: Sequence[int],
    user: Any = None,
    progress: Progress = lambda done, total, note: None,
    *,
    most: int | None = None,
) -> VariantsMade:
    """Make one variant of each of these tasks that can have one, of at most `most` of them, without audits.

    An existing variant remains. `progress` may raise to stop; variants stored by then remain. Raises
    InfrastructureError if not one task could be examined.
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
            _make_variant(sandbox, task, user, done)
        except SandboxUnavailable:
            raise
        except EnvariumError as error:
            done.failed.append({"place": clean_text(task.key), "reason": clean_text(str(error))[:1_000]})
    if done.failed and len(done.failed) == len(tasks):
        raise InfrastructureError(f"No task could be looked at. {done.failed[0]['reason']}")
    progress(len(tasks), len(tasks), counted(len(done.all), "variant"))
    return done


def _make_variant(sandbox: Sandbox, task: Task, user: Any, done: VariantsMade) -> None:
    variant = _find_first_variant(sandbox, task)
    if isinstance(variant, WithheldVariant):
        saved = save_variant(sandbox, task, variant, user)
        is_new = saved.task in ("created", "updated")
        (done.made if is_new else done.unchanged).append(saved.row.pk)
        return
    reasons = [f"{one.name}: {one.reason}" if one.name else one.reason for one in variant]
    done.unsuitable.append(
        {"task": task.pk, "key": clean_text(task.key), "reasons": [clean_text(one)[:500] for one in reasons]}
    )


def _find_first_variant(sandbox: Sandbox, task: Task) -> WithheldVariant | list[Unsuitable]:
    """Return the first variant that can be made of a task; the reasons if there is none."""
    revision = _get_current_revision(task)
    problem = A_VARIANT if task.withheld else NO_CONTENT if revision is None else ""
    problem = problem or (revision.superseded if revision is not None else "")
    problem = problem or (NOT_TRUSTED if task.audit_state != AuditState.GREEN else "")
    if problem or revision is None:
        return [Unsuitable("", problem)]
    if revision.verifier_kind != "checks":
        kind = VERIFIER_NAMES[revision.verifier_kind]
        return [Unsuitable("", f"its verifier is {kind}: no check shows what is missing")]
    case = build_audit_case(revision, find_reference(revision))
    subject = build_audit_subject(case, build_program(revision.scenario.version))
    return find_first_variant(sandbox, subject)


def ensure_audited_variant(sandbox: Sandbox, parent: Task) -> TaskRevision:
    """Return the revision of a task's variant; make and audit it if needed.

    Raises InputError (nothing can be withheld) and InfrastructureError.
    """
    variant = _find_first_variant(sandbox, parent)
    if not isinstance(variant, WithheldVariant):
        raise InputError(
            f"Nothing can be withheld from the task {parent.key!r}: {variant[0].reason if variant else ''}."
        )
    revision = save_variant(sandbox, parent, variant).revision
    case = build_audit_case(revision, find_reference(revision))
    if find_stored_audit(case) is None:
        store_audit(
            case, compute_audit(sandbox, case, build_audit_subject(case, build_program(revision.scenario.version)))
        )
    return revision


def _get_current_revision(task: Task) -> TaskRevision | None:
    rows = TaskRevision.objects.select_related("task__environment", "scenario__version", "scenario__initial")
    return rows.filter(pk=task.current_id or 0).first()


def save_variant(sandbox: Sandbox, parent: Task, found: WithheldVariant, user: Any = None) -> SavedTask:
    """Store a variant as a task of its own, with its reference. One that people edited or decided on remains current.

    Raises InputError and InfrastructureError.
    """
    revision = _get_current_revision(parent)
    if revision is None:
        raise InputError(f"The task {parent.key!r} has no revision any more.")
    record = build_task_record(revision, found.frame)
    verifier = ChecksVerifier(checks=found.checks, frame=found.frame)
    listed = [{"check_item": check.label, "check_func": check.source} for check in found.checks]
    key = _build_variant_key(parent, found)
    raw = {name: part for name, part in record.raw.items() if name != "criteria"}
    raw |= {"task_id": key, "task": revision.instruction, "checklist_with_func": listed}
    raw |= {"checklist": [check.label for check in found.checks]} if "checklist" in raw else {}
    raw |= serialize_form(found.answer_form, found.expected_answer)
    raw["withheld"] = found.withheld.model_dump(mode="json")
    changes: dict[str, Any] = {
        "key": key,
        "title": f"{parent.title[:240]} (without {found.withheld.name})"[:300],
        "instruction": revision.instruction,
        "answer_form": found.answer_form,
        "expected_answer": found.expected_answer,
        "verifier": verifier,
        "withheld": found.withheld,
        "consistency": None,
        "reference": found.reference,
        "raw": raw,
    }
    initial = load_state(revision.scenario.initial_id)
    record = record.model_copy(update=changes | {"initial_state": decode_state(initial)})
    version = revision.scenario.version
    start = evaluate_start(sandbox, record, restrict_program(build_program(version), found.withheld), initial)
    with transaction.atomic():
        saved = save_task(record, version, revision.scenario.initial, start, SOURCE)
        Task.objects.filter(pk=saved.row.pk).update(parent=parent)
        if saved.task in ("created", "updated") and user is not None:
            write_audit_entry(user, "task.withhold", saved.row, parent=parent.pk, withheld=found.withheld.name)
    return saved


def _build_variant_key(parent: Task, found: WithheldVariant) -> str:
    """Return the variant's key: the parent's and what is withheld; with the parent's number if another variant has this
    key."""
    name = found.withheld.name.replace("(", "-").replace(")", "")
    key = f"{parent.key[:100]}~without-{name}"[:190]
    others = Task.objects.filter(environment=parent.environment_id, source=SOURCE, key=key).exclude(parent=parent)
    return f"{key}-{parent.pk}" if others.exists() else key
