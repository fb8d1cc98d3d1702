"""Keys of the tasks that batches make: by what a task is, so that no batch takes the place of another one's task."""

from __future__ import annotations

from webapp.content_store import content_hash
from webapp.environments.models import Environment
from webapp.scenarios.models import TaskRevision

PATH_CHARS = 120
DIGITS = 10


def find_task_key(environment: Environment, source: str, path: str, instruction: str, initial: str) -> str:
    """Return the key of the task that asks `instruction` on the state `initial`: a known one, else a new one.

    Item paths repeat in every batch, so the key of a new task also carries a hash of what it is. The known task is
    looked up by all its revisions: a person may have changed the instruction since.
    """
    rows = TaskRevision.objects.filter(
        task__environment=environment,
        task__source=source,
        task__withheld="",
        instruction=instruction,
        scenario__initial=initial,
    )
    known = rows.order_by("task", "number").values_list("task__key", flat=True).first()
    return known or make_task_key(path, instruction, initial)


def make_task_key(path: str, instruction: str, initial: str) -> str:
    """Return the key of a new task: its item's path below the theme, and a hash of the instruction and the state."""
    below = path.partition("/")[2].replace("/", "-") or path
    return f"{below[:PATH_CHARS]}-{content_hash([instruction, initial])[:DIGITS]}"
