"""Human work: what a person made, chose or decided. An import or a batch never replaces it.

An environment's version is human work if a person made it by an edit or chose it (`Environment.current_by`). A task is
human work if a person made or chose its current revision or its reference, or decided on it. Everything is derived from
these facts each time; nothing has to be kept up to date.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from webapp.environments.models import Environment, Version
from webapp.scenarios.models import ReviewState, Task, TaskReference, TaskRevision

HAND_SOURCES = ("person", "fork")
"""Sources of references that a person wrote, or took from an attempt of their own."""
BESIDE = "beside_human_work"
"""The part of a job's result that lists what was stored beside human work, or found stored there."""
MOST_LISTED = 5_000


@dataclass(frozen=True)
class HumanWork:
    """Amount of human work in some environments."""

    programs: int = 0
    tasks: int = 0
    approvals: int = 0
    decisions: int = 0
    """Tasks with another decision than an approval, or with one that is not settled yet."""

    def __bool__(self) -> bool:
        return bool(self.programs or self.tasks or self.approvals or self.decisions)

    @property
    def words(self) -> str:
        """The amounts in words, for example `1 edited program, 3 edited tasks, 2 approvals`."""
        parts = (
            (self.programs, "edited program"),
            (self.tasks, "edited task"),
            (self.approvals, "approval"),
            (self.decisions, "other decision"),
        )
        return ", ".join(f"{count:,} {name}{'s' if count != 1 else ''}" for count, name in parts if count)


def has_human_work(task: Task) -> bool:
    """Return whether a person made or chose the current revision or reference of a task, or decided on it."""
    if task.current_by_id is not None or task.review_state != ReviewState.DRAFT:
        return True
    return TaskReference.objects.filter(revision=task.current_id or 0, source__in=HAND_SOURCES).exists()


def must_stay_current(task: Task, version: Version) -> bool:
    """Return whether a task's current revision remains current when an import or a batch adds another one on `version`.

    Besides human work, a revision on the environment's current version remains if the other one belongs to a version
    that is not current: otherwise the tasks would leave the program that a person keeps current.
    """
    if task.current is None:
        return False
    if has_human_work(task):
        return True
    current = Environment.objects.values_list("current_id", flat=True).get(pk=task.environment_id)
    return current != version.pk and task.current.scenario.version_id == current


def edited_tasks(rows: QuerySet[Task]) -> QuerySet[Task]:
    """Return those of the tasks whose current revision or reference a person made or chose."""
    by_hand = TaskReference.objects.filter(source__in=HAND_SOURCES).values("revision")
    return rows.filter(Q(current_by__isnull=False) | Q(current__in=by_hand))


def leave_out_human_work(tasks: Sequence[int]) -> list[int]:
    """Return those of the tasks, by primary key and in their order, that hold no human work."""
    rows = Task.objects.filter(pk__in=tasks)
    human = set(edited_tasks(rows).values_list("pk", flat=True))
    human |= set(rows.exclude(review_state=ReviewState.DRAFT).values_list("pk", flat=True))
    return [pk for pk in tasks if pk not in human]


def count_human_work(rows: QuerySet[Environment]) -> HumanWork:
    """Count the human work in these environments."""
    tasks = Task.objects.filter(environment__in=rows.values("pk"))
    decided = Counter(tasks.exclude(review_state=ReviewState.DRAFT).order_by().values_list("review_state", flat=True))
    approvals = decided.pop(ReviewState.APPROVED, 0)
    return HumanWork(
        programs=rows.filter(current__isnull=False, current_by__isnull=False).count(),
        tasks=edited_tasks(tasks).count(),
        approvals=approvals,
        decisions=sum(decided.values()),
    )


def describe_version_beside(version: Version) -> dict[str, Any]:
    """Return a result line of a version that is not current, and of the one that remains current."""
    environment = Environment.objects.select_related("current").defer("current__record").get(pk=version.environment_id)
    stays = environment.current.number if environment.current is not None else 0
    return _build_result_line("version", version.pk, environment.name, stays, version.number)


def describe_revision_beside(revision: TaskRevision) -> dict[str, Any]:
    """Return a result line of a revision that is not current, and of the one that remains current."""
    task = Task.objects.select_related("current").defer("current__record").get(pk=revision.task_id)
    return _build_result_line(
        "revision", revision.pk, task.title, task.current.number if task.current else 0, revision.number
    )


def _build_result_line(kind: str, pk: int, name: str, stays: int, stored: int) -> dict[str, Any]:
    return {"kind": kind, "id": pk, "name": name, "stays_current": stays, "stored_as": stored}
