"""The jobs of a batch: as many as it wants, each a lane; none where nothing is to be done."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from webapp.batches.claims import OPEN
from webapp.batches.models import Batch, BatchItem, BatchLane, BatchState
from webapp.jobs.models import OPEN_STATES
from webapp.jobs.services import create

KIND = "run_batch"


def lock(batch: int) -> Batch:
    """The batch's row, held until the transaction ends. Raises Batch.DoesNotExist."""
    return Batch.objects.select_for_update(of=("self",)).get(pk=batch)


def launch(batch: Batch, user: Any = None, ending: int = 0) -> int:
    """Start the lanes that a running batch wants and does not have; `ending` is a job that is about to end.

    Within a transaction that holds the batch. Gives how many were started.
    """
    wanted = int(batch.settings.get("lanes", 1))
    there = BatchLane.objects.filter(batch=batch, job__state__in=OPEN_STATES).exclude(job_id=ending).count()
    for number in range(there, wanted):
        job = create(KIND, f"{batch.name} (batch {batch.pk})", {"batch": batch.pk, "lane": number}, user)
        BatchLane.objects.create(batch=batch, job=job)
    return max(0, wanted - there)


def is_unfinished(batch: int) -> bool:
    return BatchItem.objects.filter(batch_id=batch, state__in=OPEN).exists()


@transaction.atomic
def carry_on(batch: int, job: int) -> None:
    """A lane ends by its own will: others take its place where the batch runs and is not done."""
    row = lock(batch)
    if row.state == BatchState.RUNNING and is_unfinished(batch):
        launch(row, ending=job)


@transaction.atomic
def stand_still(batch: int, state: BatchState, note: str) -> bool:
    """Stop a running batch; false where it does not run."""
    row = lock(batch)
    if row.state != BatchState.RUNNING:
        return False
    row.state, row.note = state, note[:2_000]
    row.finished_at = timezone.now() if state in (BatchState.DONE, BatchState.FAILED) else None
    row.save(update_fields=["state", "note", "finished_at"])
    return True


@transaction.atomic
def lane_lost(batch: int, job: int, why: str, state: BatchState = BatchState.FAILED) -> None:
    """A lane ended against its will. Without another one the batch stands still and says why."""
    row = lock(batch)
    others = BatchLane.objects.filter(batch=batch, job__state__in=OPEN_STATES).exclude(job_id=job)
    if row.state == BatchState.RUNNING and not others.exists():
        stand_still(batch, state, why)
