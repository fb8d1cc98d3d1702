"""Background jobs of a batch, one for each of its lanes."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from webapp.batches.engine.cast import count_lanes
from webapp.batches.engine.item_state import OPEN, cancel_waiting_items
from webapp.batches.models import Batch, BatchItem, BatchLane, BatchState
from webapp.batches.spec import BatchSettings
from webapp.jobs.models import OPEN_STATES
from webapp.jobs.services import enqueue_job

KIND = "run_batch"


def lock_batch(batch: int) -> Batch:
    """Return the batch's row, locked until the transaction ends. Raises Batch.DoesNotExist.

    As elsewhere in this app the lock leaves the key free (`no_key`): rows that reference the batch can be added
    meanwhile, so that a transaction that holds items and adds to the batch never waits for one that holds the batch and
    wants items.
    """
    return Batch.objects.select_for_update(of=("self",), no_key=True).get(pk=batch)


def start_missing_lanes(batch: Batch, user: Any = None) -> int:
    """Start the lanes that a running batch lacks; return how many were started.

    Within a transaction that holds the batch.
    """
    lane_count = count_lanes(BatchSettings.model_validate(batch.settings))
    open_count = open_lanes(batch.pk).count()
    for number in range(open_count, lane_count):
        payload = {"batch": batch.pk, "lane": number}
        job = enqueue_job(KIND, f"{batch.name} (batch {batch.pk})", payload, user, subject=f"batch:{batch.pk}")
        BatchLane.objects.create(batch=batch, job=job)
    return max(0, lane_count - open_count)


def open_lanes(batch: int) -> QuerySet[BatchLane]:
    """Return lanes that work, or will. A lane that has looked for the last time does not, though its job may not have
    ended yet."""
    return BatchLane.objects.filter(batch=batch, over=False, job__state__in=OPEN_STATES)


def has_open_items(batch: int) -> bool:
    return BatchItem.objects.filter(batch_id=batch, state__in=OPEN).exists()


@transaction.atomic
def close_finished_lane(batch: int, job: int) -> None:
    """Mark a lane as over that ends by itself; start others in its place if the batch runs and is not done."""
    row = lock_batch(batch)
    BatchLane.objects.filter(job_id=job).update(over=True)
    if row.state == BatchState.CANCELLED:  # what came up, or was given back, while it was cancelled
        cancel_waiting_items(batch)
    if row.state == BatchState.RUNNING and has_open_items(batch):
        start_missing_lanes(row)


@transaction.atomic
def finish_batch(batch: int) -> bool:
    """Mark a batch without open items as done; return whether there are none. Nothing can be added in between."""
    lock_batch(batch)
    if has_open_items(batch):
        return False
    stop_batch(batch, BatchState.DONE, "")
    return True


@transaction.atomic
def stop_batch(batch: int, state: BatchState, note: str, away: str = "") -> bool:
    """Stop a running batch; return False if it does not run. `away` names the endpoint that it waits for."""
    row = lock_batch(batch)
    if row.state != BatchState.RUNNING:
        return False
    row.state, row.note, row.away = state, note[:2_000], away[:60]
    row.finished_at = timezone.now() if state in (BatchState.DONE, BatchState.FAILED) else None
    row.save(update_fields=["state", "note", "away", "finished_at"])
    return True


@transaction.atomic
def close_lost_lane(batch: int, job: int, why: str, state: BatchState = BatchState.FAILED) -> None:
    """Mark a lane as over that ended involuntarily. If it was the last one, the batch stops and its note gives the
    reason."""
    row = lock_batch(batch)
    BatchLane.objects.filter(job_id=job).update(over=True)
    if row.state == BatchState.RUNNING and not open_lanes(batch).exists():
        stop_batch(batch, state, why)
