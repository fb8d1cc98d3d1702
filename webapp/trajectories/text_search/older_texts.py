"""Words of trajectories that ended before there was a table of words: stored newest first, in batches."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from webapp.jobs.context import JobContext
from webapp.trajectories.models import Trajectory
from webapp.trajectories.text_search.text_rows import write_text

BATCH = 50


def missing() -> QuerySet[Trajectory]:
    """The trajectories that have ended and whose words are not stored."""
    return Trajectory.objects.filter(Q(text__isnull=True), live=False)


def fill_missing(context: JobContext) -> dict[str, Any]:
    """Store what is missing. What was stored before an interruption is not done again."""
    total, done, below = missing().count(), 0, None
    context.progress(done, total)
    while True:
        rows = missing() if below is None else missing().filter(pk__lt=below)
        keys = list(rows.order_by("-pk").values_list("pk", flat=True)[:BATCH])
        if not keys:
            break
        _fill(keys)
        done, below = done + len(keys), keys[-1]
        context.progress(min(done, total), total)
    context.progress(total, total)
    return {"trajectories": done}


@transaction.atomic
def _fill(keys: list[int]) -> None:
    """A trajectory that ends anew meanwhile writes its words itself, and they stay."""
    rows = Trajectory.objects.select_related("revision").only("answer", "words", "live", "revision__instruction")
    for row in rows.filter(pk__in=keys).select_for_update(of=("self",)).order_by("pk"):
        if not row.live:
            write_text(row, replace=False)
