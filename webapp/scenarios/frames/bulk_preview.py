"""Preview of pinning the frames of many tasks: their number, and how many of them it would change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webapp.common.paging import RowCount, count_rows
from webapp.scenarios import queries
from webapp.scenarios.frames.services import has_unpinned_places
from webapp.scenarios.human_work import leave_out_human_work
from webapp.scenarios.models import Task
from webapp.scenarios.verifiers import FRAMED

SHOWN = 20
LOOKED_AT = 2_000
"""Number of tasks whose frames are read; of more only the number is shown."""


@dataclass(frozen=True)
class FramesPreview:
    """Counts and first rows of a selection. `unpinned` tasks have a frame that pins nothing, `bare` ones have none;
    `human` counts those of both that people edited or decided on. None if there are too many tasks to count."""

    count: RowCount
    rows: tuple[Task, ...]
    unpinned: int | None = None
    bare: int | None = None
    human: int | None = None


def build_frames_preview(wanted: dict[str, Any]) -> FramesPreview:
    """Return a preview of the tasks that a `TaskFilters`' values select."""
    rows = queries.filter_tasks(wanted)
    count, shown_tasks = count_rows(rows), tuple(rows.order_by("-id")[:SHOWN])
    if not count.exact or count.number > LOOKED_AT:
        return FramesPreview(count, shown_tasks)
    plain = Task.objects.filter(pk__in=rows.order_by().values("pk"), superseded=False, current__isnull=False)
    plain = plain.filter(current__verifier_kind__in=FRAMED)
    framed = plain.filter(current__frame__isnull=False).select_related("current").only("current__frame")
    unpinned = [row.pk for row in framed if row.current is not None and has_unpinned_places(row.current)]
    bare = list(
        plain.filter(current__frame__isnull=True, current__references__isnull=False)
        .distinct()
        .values_list("pk", flat=True)
    )
    human = len(unpinned) + len(bare) - len(leave_out_human_work([*unpinned, *bare]))
    return FramesPreview(count, shown_tasks, len(unpinned), len(bare), human)
