"""Tasks that mix several: earlier batches made unrelated tasks revisions of one, because their items' paths are equal.

A task is mixed if batches made revisions of it with different instructions or start states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Count, F

from synthesis.formats.values import shorten_text
from webapp.accounts.row_log import set_actor
from webapp.accounts.services import write_audit_entry
from webapp.batches.engine.task_places import make_task_key
from webapp.batches.models import BatchProduct
from webapp.edits.models import Edit, ForecastTask
from webapp.environments.totals import add_counts, lock_environment
from webapp.review.models import ReviewDecision
from webapp.runs.models import RunRollout
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.revision_record import build_unchanged_record
from webapp.scenarios.services import choose_revision
from webapp.trajectories.models import Rollout, Trajectory
from webapp.trajectories.totals import recount_task

TITLE_CHARS = 120


@dataclass
class AskedTask:
    """One of the tasks that a mixed task holds: the revisions with the same instruction on the same state."""

    instruction: str
    initial: str
    path: str
    revisions: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    attempts: int = 0
    is_current: bool = False


@dataclass
class MixedTask:
    """A task with the several that it holds. `split` has a line for each part that was to be split."""

    task: Task
    parts: list[AskedTask]
    split: list[str] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        parts = [
            {
                "instruction": shorten_text(part.instruction, 200),
                "revisions": part.numbers,
                "batches": part.batches,
                "attempts": part.attempts,
                "current": part.is_current,
            }
            for part in self.parts
        ]
        return {
            "task": self.task.pk,
            "environment": self.task.environment.name,
            "title": self.task.title,
            "parts": parts,
            "split": self.split,
        }


def find_mixed_tasks() -> list[MixedTask]:
    """Find the tasks of which batches made unrelated revisions."""
    products = BatchProduct.objects.filter(item__level="task", task__isnull=False, revision__task=F("task"))
    different = products.values("task").annotate(
        instructions=Count("revision__instruction", distinct=True),
        states=Count("revision__scenario__initial", distinct=True),
    )
    suspects = [row["task"] for row in different if row["instructions"] > 1 or row["states"] > 1]
    tasks = Task.objects.select_related("environment").in_bulk(suspects)
    return [MixedTask(tasks[pk], _list_parts(tasks[pk])) for pk in sorted(tasks)]


def _list_parts(task: Task) -> list[AskedTask]:
    rows = BatchProduct.objects.filter(item__level="task", task=task, revision__task=task).order_by("id")
    parts: dict[tuple[str, str], AskedTask] = {}
    for instruction, initial, batch, path in rows.values_list(
        "revision__instruction", "revision__scenario__initial", "item__batch", "item__path"
    ):
        part = parts.setdefault((instruction, initial), AskedTask(instruction, initial, path))
        part.batches = sorted({*part.batches, batch})
    last: AskedTask | None = None
    revisions = task.revisions.annotate(attempts=Count("trajectories")).order_by("number")
    for row in revisions.select_related("scenario").defer("record"):
        # A revision that no batch made, such as an edit, belongs to the one that it followed.
        last = parts.get((row.instruction, row.scenario.initial_id), last)
        if last is None:
            continue
        last.revisions.append(row.pk)
        last.numbers.append(row.number)
        last.attempts += row.attempts
        last.is_current = last.is_current or row.pk == task.current_id
    return [part for part in parts.values() if part.revisions]


def split_mixed_task(mixed: MixedTask, user: Any = None) -> None:
    """Make a task of its own from each part of a mixed task that is not current, with its attempts.

    A part that people decided on or edited, or that a training job used, is not moved.
    """
    for part in mixed.parts:
        if part.is_current:
            continue
        reason = _find_obstacle(part.revisions)
        if reason:
            mixed.split.append(f"revisions {_format_numbers(part.numbers)} stay: {reason}")
            continue
        with set_actor(user, f"split from task {mixed.task.pk}"):
            new_task = _split_part(mixed.task, part, user)
        mixed.split.append(f"revisions {_format_numbers(part.numbers)} are task {new_task.pk} now")


def _format_numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _find_obstacle(revisions: Sequence[int]) -> str:
    if ReviewDecision.objects.filter(revision__in=revisions).exists():
        return "people decided on them"
    edits = Edit.objects.filter(revision__in=revisions) | Edit.objects.filter(saved_revision__in=revisions)
    if edits.exists() or ForecastTask.objects.filter(revision__in=revisions).exists():
        return "they were edited"
    return "a training job used them" if RunRollout.objects.filter(revision__in=revisions).exists() else ""


@transaction.atomic
def _split_part(task: Task, part: AskedTask, user: Any) -> Task:
    lock_environment(task.environment_id)
    first = TaskRevision.objects.select_related("scenario").get(pk=part.revisions[-1])
    title = shorten_text(part.instruction, TITLE_CHARS)
    key = make_task_key(part.path, part.instruction, part.initial)
    if task.environment.tasks.filter(source=task.source, key=key).exists():
        key = f"{key}-{part.revisions[0]}"
    new_task = Task.objects.create(
        environment_id=task.environment_id, scenario=first.scenario, source=task.source, key=key, title=title
    )
    TaskRevision.objects.filter(pk__in=part.revisions).update(task=new_task)
    for model in (BatchProduct, Rollout, Trajectory):
        model._default_manager.filter(revision__in=part.revisions).update(task=new_task)
    rows = TaskRevision.objects.select_related("task__environment", "scenario__version", "scenario__initial")
    revision = rows.get(pk=part.revisions[-1])
    choose_revision(revision, build_unchanged_record(revision))
    for pk in (task.pk, new_task.pk):
        recount_task(pk)
    add_counts(task.environment_id, tasks=1)
    write_audit_entry(user, "task.split", new_task, split_from=task.pk, revisions=part.numbers)
    return new_task
