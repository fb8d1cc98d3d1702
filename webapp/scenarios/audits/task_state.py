"""Audit state of a task: copies on the task for lists, and the counts above it, always written together."""

from __future__ import annotations

from django.db import transaction

from webapp.environments.totals import add_counts, lock_environment
from webapp.scenarios.models import Audit, AuditState, Task, TaskRevision


@transaction.atomic
def set_task_audit(task_id: int, audit: Audit | None, state: str) -> None:
    """Store the result of its audit on the task."""
    environment = Task.objects.values_list("environment_id", flat=True).get(pk=task_id)
    lock_environment(environment)
    before = Task.objects.values_list("audit_state", flat=True).get(pk=task_id)
    Task.objects.filter(pk=task_id).update(audit=audit, audit_state=state)
    changes = {name: int(state == name) - int(before == name) for name in (AuditState.GREEN, AuditState.RED)}
    add_counts(environment, **{str(name): change for name, change in changes.items()})


def restore_audit(task: Task, revision: TaskRevision, reference_hash: str) -> None:
    """Restore the audit of a revision that is current again; if it was never audited, mark the last audit stale."""
    stored_audit = revision.audits.filter(reference_hash=reference_hash).defer("probes").order_by("-id").first()
    if stored_audit is not None:
        set_task_audit(task.pk, stored_audit, stored_audit.state)
    elif task.audit_id is not None:
        set_task_audit(task.pk, task.audit, AuditState.STALE)


def mark_outdated_audits(revision: TaskRevision, reference_hash: str) -> None:
    """Mark the audit stale if it used another reference than this one, which counts from now on."""
    audited = Task.objects.filter(current=revision, audit__isnull=False).exclude(audit__reference_hash=reference_hash)
    for task in audited.select_related("audit").defer("audit__probes"):
        set_task_audit(task.pk, task.audit, AuditState.STALE)
