"""Background jobs of a batch, one for each lane that it wants."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from webapp.batches.engine.cast import lanes_of
from webapp.batches.engine.item_state import OPEN, cancel_waiting
from webapp.batches.models import Batch, BatchItem, BatchLane, BatchState
from webapp.batches.spec import BatchSettings
from webapp.jobs.models import OPEN_STATES
from webapp.jobs.services import create

KIND = "run_batch"


def lock(batch: int) -> Batch:
    """The batch's row, held until the transaction ends. Raises Batch.DoesNotExist.

    Here and elsewhere in this app without its key: rows that name it can be added meanwhile, so that who holds items
    and adds to a batch never waits for who holds the batch and wants items.
    """
    return Batch.objects.select_for_update(of=("self",), no_key=True).get(pk=batch)


def launch(batch: Batch, user: Any = None) -> int:
    """Start the lanes that a running batch wants and does not have.

    Within a transaction that holds the batch. Gives how many were started.
    """
    wanted = lanes_of(BatchSettings.model_validate(batch.settings))
    there = open_lanes(batch.pk).count()
    for number in range(there, wanted):
        payload = {"batch": batch.pk, "lane": number}
        job = create(KIND, f"{batch.name} (batch {batch.pk})", payload, user, subject=f"batch:{batch.pk}")
        BatchLane.objects.create(batch=batch, job=job)
    return max(0, wanted - there)


def open_lanes(batch: int) -> QuerySet[BatchLane]:
    """Lanes that work, or will. One that has looked for the last time does not, though its job may yet have to end."""
    return BatchLane.objects.filter(batch=batch, over=False, job__state__in=OPEN_STATES)


def is_unfinished(batch: int) -> bool:
    return BatchItem.objects.filter(batch_id=batch, state__in=OPEN).exists()


@transaction.atomic
def carry_on(batch: int, job: int) -> None:
    """A lane ends by its own will: others take its place where the batch runs and is not done."""
    row = lock(batch)
    BatchLane.objects.filter(job_id=job).update(over=True)
    if row.state == BatchState.CANCELLED:  # what came up, or was given back, while it was cancelled
        cancel_waiting(batch)
    if row.state == BatchState.RUNNING and is_unfinished(batch):
        launch(row)


@transaction.atomic
def finish(batch: int) -> bool:
    """Whether nothing is left to do; a running batch is done then. Nobody can add to it in between."""
    lock(batch)
    if is_unfinished(batch):
        return False
    stand_still(batch, BatchState.DONE, "")
    return True


@transaction.atomic
def stand_still(batch: int, state: BatchState, note: str, away: str = "") -> bool:
    """Stop a running batch; false where it does not run. `away` names the endpoint that it waits for."""
    row = lock(batch)
    if row.state != BatchState.RUNNING:
        return False
    row.state, row.note, row.away = state, note[:2_000], away[:60]
    row.finished_at = timezone.now() if state in (BatchState.DONE, BatchState.FAILED) else None
    row.save(update_fields=["state", "note", "away", "finished_at"])
    return True


@transaction.atomic
def lane_lost(batch: int, job: int, why: str, state: BatchState = BatchState.FAILED) -> None:
    """A lane ended against its will. Without another one the batch stands still and says why."""
    row = lock(batch)
    BatchLane.objects.filter(job_id=job).update(over=True)
    if row.state == BatchState.RUNNING and not open_lanes(batch).exists():
        stand_still(batch, state, why)
