"""Where a task's audit stands: copies on the task for lists, and the counts above it, always written together."""

from __future__ import annotations

from django.db import transaction

from webapp.environments.totals import count, lock_environment
from webapp.scenarios.models import Audit, AuditState, Task, TaskRevision


@transaction.atomic
def stand(task_id: int, audit: Audit | None, state: str) -> None:
    """Say on the task what its audit came to."""
    environment = Task.objects.values_list("environment_id", flat=True).get(pk=task_id)
    lock_environment(environment)
    before = Task.objects.values_list("audit_state", flat=True).get(pk=task_id)
    Task.objects.filter(pk=task_id).update(audit=audit, audit_state=state)
    changes = {name: int(state == name) - int(before == name) for name in (AuditState.GREEN, AuditState.RED)}
    count(environment, **{str(name): change for name, change in changes.items()})


def restore_audit(task: Task, revision: TaskRevision, reference_hash: str) -> None:
    """A revision that came back has its audit again; one that was never audited makes the last audit stale."""
    known = revision.audits.filter(reference_hash=reference_hash).defer("probes").order_by("-id").first()
    if known is not None:
        stand(task.pk, known, known.state)
    elif task.audit_id is not None:
        stand(task.pk, task.audit, AuditState.STALE)


def outdate(revision: TaskRevision, reference_hash: str) -> None:
    """Another reference counts from now on: an audit with an older one is stale."""
    audited = Task.objects.filter(current=revision, audit__isnull=False).exclude(audit__reference_hash=reference_hash)
    for task in audited.select_related("audit").defer("audit__probes"):
        stand(task.pk, task.audit, AuditState.STALE)
