"""Words of trajectories that ended before the table of words existed: stored newest first, in batches."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from webapp.jobs.context import JobContext
from webapp.trajectories.models import Trajectory
from webapp.trajectories.text_search.text_rows import write_text

BATCH = 50


def missing_texts() -> QuerySet[Trajectory]:
    """Return the trajectories that have ended and whose words are not stored."""
    return Trajectory.objects.filter(Q(text__isnull=True), live=False)


def fill_missing_texts(context: JobContext) -> dict[str, Any]:
    """Store the missing words. Words that were stored before an interruption are not stored again."""
    total, done_count, below = missing_texts().count(), 0, None
    context.progress(done_count, total)
    while True:
        rows = missing_texts() if below is None else missing_texts().filter(pk__lt=below)
        keys = list(rows.order_by("-pk").values_list("pk", flat=True)[:BATCH])
        if not keys:
            break
        _fill_batch(keys)
        done_count, below = done_count + len(keys), keys[-1]
        context.progress(min(done_count, total), total)
    context.progress(total, total)
    return {"trajectories": done_count}


@transaction.atomic
def _fill_batch(keys: list[int]) -> None:
    """Store the words of a batch; words that a trajectory stores itself, as it ends again meanwhile, stay."""
    rows = Trajectory.objects.select_related("revision").only("answer", "words", "live", "revision__instruction")
    for row in rows.filter(pk__in=keys).select_for_update(of=("self",)).order_by("pk"):
        if not row.live:
            write_text(row, replace=False)
