"""Preview of pinning the frames of many tasks: how many there are, and how many of them it would change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webapp.paging import RowCount, count_rows
from webapp.scenarios import queries
from webapp.scenarios.frames.services import pins_nothing
from webapp.scenarios.human_work import leave_out_human_work
from webapp.scenarios.models import Task
from webapp.scenarios.verifiers import FRAMED

SHOWN = 20
LOOKED_AT = 2_000
"""Of so many tasks the frames are read; of more only their number is told."""


@dataclass(frozen=True)
class FramesPreview:
    """`unpinned` tasks have a frame that pins nothing, `bare` ones none; of both `human` were edited or decided on by
    people. None where there are too many to look at."""

    count: RowCount
    rows: tuple[Task, ...]
    unpinned: int | None = None
    bare: int | None = None
    human: int | None = None


def frames_preview(wanted: dict[str, Any]) -> FramesPreview:
    """Look at the tasks that a `TaskFilters`' values leave."""
    rows = queries.tasks(wanted)
    count, shown = count_rows(rows), tuple(rows.order_by("-id")[:SHOWN])
    if not count.exact or count.number > LOOKED_AT:
        return FramesPreview(count, shown)
    plain = Task.objects.filter(pk__in=rows.order_by().values("pk"), superseded=False, current__isnull=False)
    plain = plain.filter(current__verifier_kind__in=FRAMED)
    framed = plain.filter(current__frame__isnull=False).select_related("current").only("current__frame")
    unpinned = [row.pk for row in framed if row.current is not None and pins_nothing(row.current)]
    bare = list(
        plain.filter(current__frame__isnull=True, current__references__isnull=False)
        .distinct()
        .values_list("pk", flat=True)
    )
    human = len(unpinned) + len(bare) - len(leave_out_human_work([*unpinned, *bare]))
    return FramesPreview(count, shown, len(unpinned), len(bare), human)
