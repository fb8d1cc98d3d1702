"""Preview of auditing many tasks: their number, the states of their audits, and the first of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count

from webapp.common.paging import RowCount, count_rows
from webapp.scenarios import queries
from webapp.scenarios.models import AuditState, Task

SHOWN = 20
ORDER = (AuditState.RED, AuditState.INCOMPLETE, AuditState.UNPROVEN, AuditState.STALE, "", AuditState.GREEN)


@dataclass(frozen=True)
class AuditPreview:
    """Counts and first rows of a selection. `by_state`: (state, tasks), if they were counted; `empty` tasks have no
    revision, `superseded` ones have checks that can no longer run: both are left out."""

    count: RowCount
    by_state: tuple[tuple[str, int], ...]
    empty: int
    superseded: int
    rows: tuple[Task, ...]


def build_audit_preview(wanted: dict[str, Any]) -> AuditPreview:
    """Return a preview of the tasks that a `TaskFilters`' values select."""
    rows = queries.filter_tasks(wanted)
    count = count_rows(rows)
    by_state: dict[str, int] = {}
    empty = superseded = 0
    if count.exact:
        bare = rows.order_by().select_related(None)
        by_state = dict(bare.values_list("audit_state").annotate(tasks=Count("pk")))
        empty = bare.filter(current__isnull=True).count()
        superseded = bare.filter(superseded=True).count()
    ordered = tuple((str(state), by_state[state]) for state in ORDER if by_state.get(state))
    return AuditPreview(count, ordered, empty, superseded, tuple(rows.order_by("-id")[:SHOWN]))
