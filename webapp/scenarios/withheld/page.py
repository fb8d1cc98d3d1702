"""Contents of a task's page about what it withholds, and about its variants."""

from __future__ import annotations

from typing import Any

from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import read_withheld

VARIANTS_SHOWN = 20


def build_withheld_context(task: Task, revision: TaskRevision) -> dict[str, Any]:
    """Build the context: for a variant what is withheld and its parent, for another task its variants."""
    withheld = read_withheld(revision)
    if withheld is None:
        rows = task.variants.only("title", "withheld", "audit_state", "parent").order_by("id")
        return {"variants": list(rows[: VARIANTS_SHOWN + 1])}
    parent = Task.objects.filter(pk=task.parent_id or 0).only("title").first()
    return {"withheld": withheld, "parent": parent}
