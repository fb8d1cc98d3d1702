"""Adoption: a person makes current what an import or a batch stored beside human work."""

from __future__ import annotations

from typing import Any

from django.db.models import F, QuerySet

from webapp.accounts.row_log import set_actor
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict, NotFound
from webapp.environments.models import Version
from webapp.environments.services import choose_version
from webapp.environments.totals import lock_environment
from webapp.review.carry_over import reopen_task_items
from webapp.review.verdicts import SETTLED
from webapp.scenarios.human_work import has_human_work
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.revision_record import build_unchanged_record
from webapp.scenarios.services import choose_revision


def adopt_version(user: Any, pk: int) -> Version:
    """Make a version current as the person's choice, and with it the revisions on it of tasks without human work.

    Raises NotFound; Conflict if it is current already.
    """
    version = Version.objects.select_related("environment__current").filter(pk=pk).first()
    if version is None:
        raise NotFound("There is no such version.")
    with set_actor(user, f"adopts version {version.number}"):
        lock_environment(version.environment_id)
        version.environment.refresh_from_db()
        before = version.environment.current
        if before is not None and before.pk == version.pk:
            raise Conflict("This version is current already.")
        choose_version(version, user)
        followed = 0
        for revision in _following_revisions(version):
            choose_revision(revision, build_unchanged_record(revision))
            followed += 1
        write_audit_entry(
            user, "version.adopt", version, environment=version.environment_id, number=version.number,
            before=before.number if before is not None else None, tasks=followed,
        )  # fmt: skip
    return version


def _following_revisions(version: Version) -> list[TaskRevision]:
    """Return the newest revision on a version of each task that is on another version and holds no human work."""
    tasks = Task.objects.filter(environment=version.environment_id, current__isnull=False)
    tasks = tasks.exclude(scenario__version=version).select_related("current")
    free = [task.pk for task in tasks if not has_human_work(task)]
    rows = TaskRevision.objects.filter(task__in=free, scenario__version=version).select_related(
        "task__environment", "scenario__version", "scenario__initial"
    )
    return list(rows.order_by("task", "-number").distinct("task"))


def adopt_revision(user: Any, pk: int) -> TaskRevision:
    """Make a revision of a task current as the person's choice. An approval of another revision is reopened.

    Raises NotFound; Conflict if it is current already.
    """
    rows = TaskRevision.objects.select_related("task__environment", "scenario__version", "scenario__initial")
    revision = rows.filter(pk=pk).first()
    if revision is None:
        raise NotFound("There is no such revision.")
    with set_actor(user, f"adopts revision {revision.number}"):
        lock_environment(revision.task.environment_id)
        revision.task.refresh_from_db()
        before = revision.task.current
        if before is not None and before.pk == revision.pk:
            raise Conflict("This revision is current already.")
        task = choose_revision(revision, build_unchanged_record(revision), user)
        if task.review_state not in SETTLED:
            reopen_task_items(task.pk)
        write_audit_entry(
            user, "revision.adopt", task, revision=revision.number,
            before=before.number if before is not None else None,
        )  # fmt: skip
    return revision


def version_rows() -> QuerySet[Version]:
    """Return versions with their environments and the current versions of these."""
    rows = Version.objects.select_related("environment__current", "environment__current_by")
    return rows.defer("record", "source", "environment__current__record", "environment__current__source")


def revision_rows() -> QuerySet[TaskRevision]:
    """Return revisions with their tasks and versions, and the current revisions of these tasks."""
    rows = TaskRevision.objects.select_related(
        "task__current", "task__current_by", "task__environment", "scenario__version"
    )
    return rows.defer("record", "task__current__record", "scenario__version__record", "scenario__version__source")


def noncurrent_versions(pks: list[int]) -> QuerySet[Version]:
    """Return those of the versions that are not current, with their environments."""
    return version_rows().filter(pk__in=pks).exclude(environment__current=F("pk")).order_by("pk")


def noncurrent_revisions(pks: list[int]) -> QuerySet[TaskRevision]:
    """Return those of the revisions that are not current, with their tasks."""
    return revision_rows().filter(pk__in=pks).exclude(task__current=F("pk")).order_by("pk")
