"""The task that an item's product belongs to: a known one with the same request, or a new one with its own key."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Exists, OuterRef

from webapp.batches.models import BatchItem, BatchProduct
from webapp.common.content_store import content_hash
from webapp.environments.models import Environment
from webapp.scenarios.models import Task, TaskRevision

PATH_CHARS = 120
DIGITS = 10


@dataclass(frozen=True)
class TaskPlace:
    """Place of an item's task. `task` is None if it is new; `key` is the key of its record."""

    task: Task | None
    key: str


def find_task_place(
    item: BatchItem, environment: Environment, source: str, instruction: str, initial: str
) -> TaskPlace:
    """Find the task that asks `instruction` on the state `initial`: the one that products of this item belong to, else
    another one that asks it, else none.

    It is looked up by all its revisions, since a person may have changed the instruction. A task that was split from
    another one has a key of its own, while its revisions keep the key that they were made with: the same record under
    another key would be a further revision.
    """
    rows = TaskRevision.objects.select_related("task").filter(
        task__environment=environment,
        task__source=source,
        task__withheld="",
        instruction=instruction,
        scenario__initial=initial,
    )
    # Item paths repeat in every batch that was cloned from another one, and so do the tasks.
    products = BatchProduct.objects.filter(task=OuterRef("task"), item__path=item.path)
    known_revision = rows.annotate(is_own=Exists(products)).order_by("-is_own", "task", "number").first()
    if known_revision is None:
        return TaskPlace(None, make_task_key(item.path, instruction, initial))
    made_with = known_revision.record.get("task_id")
    return TaskPlace(
        known_revision.task, made_with if isinstance(made_with, str) and made_with else known_revision.task.key
    )


def make_task_key(path: str, instruction: str, initial: str) -> str:
    """Return the key of a new task: its item's path below the theme, and a hash of the instruction and the state."""
    below = path.partition("/")[2].replace("/", "-") or path
    return f"{below[:PATH_CHARS]}-{content_hash([instruction, initial])[:DIGITS]}"
