"""Yields that are kept: read anew once a batch has moved on, at once for small ones, by a job for large ones."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from webapp.batches import queries
from webapp.batches.models import Batch, BatchYield
from webapp.batches.yields import figures
from webapp.jobs.models import Job
from webapp.jobs.queries import open_of
from webapp.jobs.services import create

KIND = "read_yield"
AT_ONCE = 5_000
"""Items of a batch whose yield a page waits for: that takes some hundredths of a second."""


@dataclass(frozen=True)
class YieldRead:
    """What is known of a batch's yield. `figures` is None until they were read once; `stale`: it moved on since."""

    batch: Batch
    figures: dict[str, Any] | None
    read_at: Any = None
    stale: bool = False
    job: Job | None = None


def mark_of(batch: Batch) -> str:
    """Changes whenever something that the figures stand on does: the state, the funnel, what was asked."""
    rows = [(row.stage, row.state, row.reason, row.count, row.seconds) for row in queries.counts(batch.pk)]
    known = [figures.VERSION, batch.state, batch.requests, batch.lost, queries.item_counts(batch.pk), rows]
    return hashlib.sha256(json.dumps(known, default=str).encode()).hexdigest()


def known_yield(batch: Batch) -> YieldRead:
    """What is kept, or read at once where the batch is small. A large one that moved on is said to be stale."""
    mark, row = mark_of(batch), BatchYield.objects.filter(batch=batch).first()
    if row is not None and row.mark == mark:
        return YieldRead(batch, row.figures, row.read_at)
    if batch.items.count() <= AT_ONCE:
        row = keep(batch)
        return YieldRead(batch, row.figures, row.read_at)
    job = open_of(KIND, f"batch:{batch.pk}")
    if row is None or row.figures.get("version") != figures.VERSION:
        return YieldRead(batch, None, stale=True, job=job)
    return YieldRead(batch, row.figures, row.read_at, stale=True, job=job)


def keep(batch: Batch) -> BatchYield:
    """Read a batch's yield and keep it. Read twice it is the same."""
    mark, read = mark_of(batch), figures.read(batch)
    row, _ = BatchYield.objects.update_or_create(
        batch=batch, defaults={"mark": mark, "figures": read, "read_at": timezone.now()}
    )
    return row


@transaction.atomic
def start_reading(user: Any, batch: Batch) -> Job:
    """The job that reads a batch's yield: the one that waits or runs, or a new one."""
    Batch.objects.select_for_update(of=("self",), no_key=True).only("pk").get(pk=batch.pk)
    known = open_of(KIND, f"batch:{batch.pk}")
    if known is not None:
        return known
    title = f"Yield of {batch.name[:120]} (batch {batch.pk})"
    return create(KIND, title, {"batch": batch.pk}, user, subject=f"batch:{batch.pk}")
