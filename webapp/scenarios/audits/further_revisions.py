"""Further revisions of a task that differ from the current one only in their verifier, and are audited anew."""

from __future__ import annotations

from typing import Any

from synthesis.formats.records import TaskRecord
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import ChangedMeanwhile
from webapp.environments.totals import lock_environment
from webapp.scenarios.audits.services import start_task_audit
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import find_reference, save_reference, to_reference
from webapp.scenarios.services import Start, save_task


def lock_current_revision(task: Task, seen: int | None = None) -> TaskRevision | None:
    """Lock the environment and return the task's current revision, so that the second of two people sees the first
    one's change.

    `seen` is the number of the revision that the person saw. Raises ChangedMeanwhile if it is no longer current.
    """
    lock_environment(task.environment_id)
    current = TaskRevision.objects.filter(task=task, pk=Task.objects.values("current").get(pk=task.pk)["current"])
    row = current.select_related("task__environment", "scenario__version", "scenario__initial").first()
    if row is not None and seen is not None and seen != row.number:
        words = f"The task got revision {row.number} since you opened revision {seen}, so nothing was changed."
        raise ChangedMeanwhile(f"{words} Look at what it is judged by now, and send it again if it still fits.")
    return row


def save_further_revision(
    user: Any, revision: TaskRevision, record: TaskRecord, start: Start, action: str, *, audited: bool, **detail: Any
) -> TaskRevision:
    """Save the record as a further revision, which becomes current, with the reference of the one before it.

    Its audit is queued. Without `audited` it is one of many that were made at once and not checked one by one: it does
    not count as human work, and does not become current if there is human work; the caller queues the audits.
    """
    task = revision.task
    reference = find_reference(revision)
    saved = save_task(
        record,
        revision.scenario.version,
        revision.scenario.initial,
        start,
        task.source,
        asked=audited,
        chosen_by=user if audited else None,
    )
    new_revision = saved.revision
    if new_revision.pk != revision.pk:
        TaskRevision.objects.filter(pk=new_revision.pk).update(
            origin_hash=revision.origin_hash or revision.content_hash
        )
    if reference is not None:
        save_reference(new_revision, to_reference(reference), reference.source)
    write_audit_entry(user, action, task, revision=new_revision.number, before=revision.number, **detail)
    if audited:
        start_task_audit(user, saved.row)
    return new_revision
