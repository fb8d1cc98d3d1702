"""The state of a batch's items, written only here: taken, moved on, given back, ended, put back.

Writes of a worker name its claim; a stale claim changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Q

from synthesis.formats.values import clean_text
from synthesis.stages import LEVELS, ItemPart, ItemSpec
from webapp.batches.engine.failure_signature import build_failure_signature
from webapp.batches.engine.stage_runs import MESSAGE_CHARS, SAVE, EndedStage
from webapp.batches.models import (
    Batch,
    BatchAttempt,
    BatchItem,
    BatchLane,
    BatchProduct,
    BatchState,
    ItemState,
    StageState,
)
from webapp.jobs.claims import JobClaim

OPEN = (ItemState.WAITING, ItemState.RUNNING)
MOVED = f"""
UPDATE {BatchItem._meta.db_table} AS row SET state = new.state, stage = coalesce(new.stage, row.stage),
    reason = coalesce(new.reason, row.reason), message = coalesce(new.message, row.message),
    signature = coalesce(new.signature, row.signature), call_key = coalesce(new.call_key, row.call_key),
    attempt_id = coalesce(new.attempt, row.attempt_id),
    seconds = row.seconds + new.seconds, cost = row.cost + new.cost, updated_at = now()
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::float8[],
    %s::float8[], %s::bigint[]) AS new (id, state, stage, reason, message, signature, call_key, seconds, cost, attempt)
WHERE row.id = new.id
"""


@dataclass(frozen=True)
class StageEnding:
    """The end of a stage for an item, which continues at `following` (after a `barrier`: later), or ends if it was not
    kept. With a `product` the item is through: `product` is its result, and `parts` are the items made below it.
    `attempt` is the stored attempt of a rejected trajectory, `attempts` are all that the item made at its task."""

    item: int
    ended: EndedStage
    following: str = SAVE
    barrier: bool = False
    product: BatchProduct | None = None
    parts: Sequence[ItemPart] = ()
    attempt: int | None = None
    attempts: Sequence[BatchAttempt] = ()


def build_item(
    batch: int,
    path: str,
    level: str,
    position: int,
    spec: ItemSpec,
    first: dict[str, str],
    parent: BatchItem | None = None,
) -> BatchItem:
    """Return an unsaved item that waits for its first stage."""
    rank = [str(name) for name in LEVELS].index(level)
    content = spec.model_dump(mode="json", exclude_defaults=True)
    return BatchItem(
        batch_id=batch,
        parent=parent,
        level=level,
        rank=rank,
        path=path,
        position=position,
        spec=content,
        stage=first[level],
    )


def claim_items(claim: JobClaim, batch: int, count: int, barriers: tuple[str, ...]) -> list[BatchItem]:
    """Claim up to `count` waiting items, the deepest first, and none that waits at a barrier."""
    with transaction.atomic():
        claim.require_held()
        if not Batch.objects.filter(pk=batch, state=BatchState.RUNNING).exists():
            return []
        rows = BatchItem.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
        rows = rows.filter(batch_id=batch, state=ItemState.WAITING).exclude(stage__in=barriers)
        items = list(rows.order_by("-rank", "id")[:count])
        BatchItem.objects.filter(pk__in=[item.pk for item in items]).update(
            state=ItemState.RUNNING, job_id=claim.row, claim=claim.number, starts=F("starts") + 1
        )
    for item in items:
        item.state, item.job_id, item.claim = ItemState.RUNNING, claim.row, claim.number
    return items


def lock_held_items(claim: JobClaim, items: list[int]) -> dict[int, BatchItem]:
    """Lock and return the items that this claim holds, until the transaction ends. They are locked in one order, so
    that no two writers wait for each other."""
    rows = BatchItem.objects.select_for_update(of=("self",), no_key=True).filter(
        pk__in=items, claim=claim.number, job_id=claim.row, state=ItemState.RUNNING
    )
    rows = rows.filter(job__in=claim.held())
    return {row.pk: row for row in rows.order_by("pk").defer("spec", "message")}


def end_stages(endings: Sequence[StageEnding]) -> None:
    """Move items on according to the ends of their stages. Within a transaction that holds them."""
    columns = zip(*(_build_moved_columns(ending) for ending in endings), strict=True)
    with connection.cursor() as cursor:
        cursor.execute(MOVED, [list(column) for column in columns])


def _build_moved_columns(ending: StageEnding) -> tuple[Any, ...]:
    """Return the values for `MOVED`: None leaves a column as it is."""
    ended = ending.ended
    used = ended.seconds, ended.cost, ending.attempt
    if ending.product is not None:
        return ending.item, str(ItemState.KEPT), None, "", "", "", "", *used
    if ended.state == StageState.KEPT:
        state = ItemState.WAITING if ending.barrier else ItemState.RUNNING
        return ending.item, str(state), ending.following, None, None, None, None, *used
    state = ItemState.REJECTED if ended.state == StageState.REJECTED else ItemState.FAILED
    signature = build_failure_signature(ended.stage, ended.reason, ended.message)
    failure = ended.reason[:60], clean_text(ended.message)[:MESSAGE_CHARS], signature, ended.call_key
    return ending.item, str(state), None, *failure, *used


def release_items(claim: JobClaim) -> int:
    """Give back the items that this claim, or an earlier one of its job, still holds, so that others may take them."""
    BatchLane.objects.filter(job_id=claim.row, job__attempt__lte=claim.number).update(reserved=0.0)
    held_rows = BatchItem.objects.filter(job_id=claim.row, state=ItemState.RUNNING)
    return _return_to_waiting(held_rows.filter(claim__lte=claim.number))


def release_item(claim: JobClaim, item: int) -> None:
    _return_to_waiting(BatchItem.objects.filter(pk=item, job_id=claim.row, claim=claim.number, state=ItemState.RUNNING))


def release_orphans(batch: int) -> int:
    """Give back items of jobs that no worker runs at present, or that another attempt holds by now."""
    running = BatchItem.objects.filter(batch_id=batch, state=ItemState.RUNNING)
    is_orphan = Q(job__isnull=True) | ~Q(job__state="running") | Q(job__attempt__gt=F("claim"))
    return _return_to_waiting(
        BatchItem.objects.filter(pk__in=list(running.filter(is_orphan).values_list("pk", flat=True)))
    )


def _return_to_waiting(rows: Any) -> int:
    """Set items to waiting; in a cancelled batch they end instead."""
    cancelled = rows.filter(batch__state=BatchState.CANCELLED).values_list("pk", flat=True)
    ended = BatchItem.objects.filter(pk__in=list(cancelled), state=ItemState.RUNNING)
    return ended.update(state=ItemState.CANCELLED) + rows.filter(state=ItemState.RUNNING).update(
        state=ItemState.WAITING
    )


def cancel_waiting_items(batch: int) -> int:
    """End the waiting items. Within a transaction that holds the batch, which was cancelled."""
    waiting = BatchItem.objects.filter(batch_id=batch, state=ItemState.WAITING)
    return waiting.update(state=ItemState.CANCELLED)


def reject_at_barrier(row: BatchItem, stage: str, reason: str, message: str, alike: str) -> None:
    """Reject an item at a barrier; `alike` is the message that such rejections share. Within a transaction that holds
    the item."""
    row.state, row.reason, row.message = ItemState.REJECTED, reason, message
    row.signature = build_failure_signature(stage, reason, alike)
    row.save()


def return_to_stage(row: BatchItem, stage: str) -> None:
    """Let an item wait at `stage`, with the fields of its earlier end cleared. Within a transaction that holds the
    item."""
    row.state, row.stage = ItemState.WAITING, stage
    row.reason, row.message, row.signature, row.call_key, row.attempt = "", "", "", "", None
    row.save()
