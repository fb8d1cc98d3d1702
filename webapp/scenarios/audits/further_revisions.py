"""Further revisions of a task that differ from the current one in their verifier alone, and are audited anew."""

from __future__ import annotations

from typing import Any

from synthesis.formats.records import TaskRecord
from webapp.accounts.services import audit
from webapp.environments.totals import lock_environment
from webapp.errors import ChangedMeanwhile
from webapp.scenarios.audits.services import start_task_audit
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import as_reference, reference_of, save_reference
from webapp.scenarios.services import Start, save_task


def lock_current(task: Task, seen: int | None = None) -> TaskRevision | None:
    """Return the current revision, with the environment locked: of two people the second sees what the first did.

    `seen` is the number of the revision that a person looked at. Raises ChangedMeanwhile: it is another one now.
    """
    lock_environment(task.environment_id)
    current = TaskRevision.objects.filter(task=task, pk=Task.objects.values("current").get(pk=task.pk)["current"])
    row = current.select_related("task__environment", "scenario__version", "scenario__initial").first()
    if row is not None and seen is not None and seen != row.number:
        words = f"The task got revision {row.number} since you opened revision {seen}, so nothing was changed."
        raise ChangedMeanwhile(f"{words} Look at what it is judged by now, and send it again if it still fits.")
    return row


def save_further(
    user: Any, revision: TaskRevision, record: TaskRecord, start: Start, action: str, *, audited: bool, **detail: Any
) -> TaskRevision:
    """Save the record as a further revision, current from now on, with the reference of the one before it.

    Its audit is queued. Without `audited` it is one of many that were made at once, which nobody looked at one by one:
    it is no human work, and not current if there is some; the caller queues the audits.
    """
    task = revision.task
    reference = reference_of(revision)
    saved = save_task(
        record,
        revision.scenario.version,
        revision.scenario.initial,
        start,
        task.source,
        asked=audited,
        chosen_by=user if audited else None,
    )
    made = saved.revision
    if made.pk != revision.pk:
        TaskRevision.objects.filter(pk=made.pk).update(origin_hash=revision.origin_hash or revision.content_hash)
    if reference is not None:
        save_reference(made, as_reference(reference), reference.source)
    audit(user, action, task, revision=made.number, before=revision.number, **detail)
    if audited:
        start_task_audit(user, saved.row)
    return made
