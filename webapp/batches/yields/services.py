"""Stored yields: read anew once a batch has changed, at once for small ones, by a job for large ones."""

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
from webapp.jobs.queries import find_open_job
from webapp.jobs.services import enqueue_job

KIND = "read_yield"
AT_ONCE = 5_000
"""Items of a batch whose yield a page waits for: that takes some hundredths of a second."""


@dataclass(frozen=True)
class YieldRead:
    """The known yield of a batch. `figures` is None until they were read once; `stale`: the batch changed since."""

    batch: Batch
    figures: dict[str, Any] | None
    read_at: Any = None
    stale: bool = False
    job: Job | None = None


def compute_mark(batch: Batch) -> str:
    """Return a hash that changes with everything that the figures depend on: the state, the funnel, the requests."""
    rows = [(row.stage, row.state, row.reason, row.count, row.seconds) for row in queries.list_stage_counts(batch.pk)]
    basis = [figures.VERSION, batch.state, batch.requests, batch.lost, queries.count_items(batch.pk), rows]
    return hashlib.sha256(json.dumps(basis, default=str).encode()).hexdigest()


def get_yield(batch: Batch) -> YieldRead:
    """Return the stored yield, or read it at once if the batch is small. The stored yield of a large batch that changed
    is marked stale."""
    mark, row = compute_mark(batch), BatchYield.objects.filter(batch=batch).first()
    if row is not None and row.mark == mark:
        return YieldRead(batch, row.figures, row.read_at)
    if batch.items.count() <= AT_ONCE:
        row = store_yield(batch)
        return YieldRead(batch, row.figures, row.read_at)
    job = find_open_job(KIND, f"batch:{batch.pk}")
    if row is None or row.figures.get("version") != figures.VERSION:
        return YieldRead(batch, None, stale=True, job=job)
    return YieldRead(batch, row.figures, row.read_at, stale=True, job=job)


def store_yield(batch: Batch) -> BatchYield:
    """Read a batch's yield and store it. Idempotent."""
    mark, read = compute_mark(batch), figures.read_yield_figures(batch)
    row, _ = BatchYield.objects.update_or_create(
        batch=batch, defaults={"mark": mark, "figures": read, "read_at": timezone.now()}
    )
    return row


@transaction.atomic
def start_reading(user: Any, batch: Batch) -> Job:
    """Return the job that reads a batch's yield: the one that waits or runs, or a new one."""
    Batch.objects.select_for_update(of=("self",), no_key=True).only("pk").get(pk=batch.pk)
    open_job = find_open_job(KIND, f"batch:{batch.pk}")
    if open_job is not None:
        return open_job
    title = f"Yield of {batch.name[:120]} (batch {batch.pk})"
    return enqueue_job(KIND, title, {"batch": batch.pk}, user, subject=f"batch:{batch.pk}")
