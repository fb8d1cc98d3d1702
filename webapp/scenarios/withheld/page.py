"""What the pages of a task say of what it withholds, and of its variants."""

from __future__ import annotations

from typing import Any

from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import withheld_of

VARIANTS_SHOWN = 20


def withheld_context(task: Task, revision: TaskRevision) -> dict[str, Any]:
    """Of a variant what is withheld and its parent; of another task its variants."""
    withheld = withheld_of(revision)
    if withheld is None:
        rows = task.variants.only("title", "withheld", "audit_state", "parent").order_by("id")
        return {"variants": list(rows[: VARIANTS_SHOWN + 1])}
    parent = Task.objects.filter(pk=task.parent_id or 0).only("title").first()
    return {"withheld": withheld, "parent": parent}
