"""The state of a batch's items, written here alone: taken, moved on, given back, ended, put back.

What a worker writes names its claim; a stale one changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Q

from synthesis.formats.values import clean
from synthesis.stages import LEVELS, ItemPart, ItemSpec
from webapp.batches.engine.failure_signature import signature_of
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
    """How a stage ended for an item, which goes on to `following` (after a `barrier`: later) or ends where it was not
    kept. With a `product` the item is through: that is what it became, and `parts` are made below it. `attempt` is the
    stored one of a rejected trajectory, `attempts` are all that the item made at its task."""

    item: int
    ended: EndedStage
    following: str = SAVE
    barrier: bool = False
    product: BatchProduct | None = None
    parts: Sequence[ItemPart] = ()
    attempt: int | None = None
    attempts: Sequence[BatchAttempt] = ()


def new_item(
    batch: int,
    path: str,
    level: str,
    position: int,
    spec: ItemSpec,
    first: dict[str, str],
    parent: BatchItem | None = None,
) -> BatchItem:
    """An item that waits for its first stage, not saved."""
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


def take(claim: JobClaim, batch: int, count: int, barriers: tuple[str, ...]) -> list[BatchItem]:
    """Claim up to `count` waiting items, the deepest first; none that waits at a barrier."""
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


def held_items(claim: JobClaim, items: list[int]) -> dict[int, BatchItem]:
    """The items that this claim holds, until the transaction ends. In one order, so that no two writers wait for each
    other."""
    rows = BatchItem.objects.select_for_update(of=("self",), no_key=True).filter(
        pk__in=items, claim=claim.number, job_id=claim.row, state=ItemState.RUNNING
    )
    rows = rows.filter(job__in=claim.held())
    return {row.pk: row for row in rows.order_by("pk").defer("spec", "message")}


def end_stages(endings: Sequence[StageEnding]) -> None:
    """Bring items to where their stages' ends lead. Within a transaction that holds them."""
    columns = zip(*(_columns(ending) for ending in endings), strict=True)
    with connection.cursor() as cursor:
        cursor.execute(MOVED, [list(column) for column in columns])


def _columns(ending: StageEnding) -> tuple[Any, ...]:
    """As `MOVED` takes them: None leaves what there is."""
    ended = ending.ended
    used = ended.seconds, ended.cost, ending.attempt
    if ending.product is not None:
        return ending.item, str(ItemState.KEPT), None, "", "", "", "", *used
    if ended.state == StageState.KEPT:
        state = ItemState.WAITING if ending.barrier else ItemState.RUNNING
        return ending.item, str(state), ending.following, None, None, None, None, *used
    state = ItemState.REJECTED if ended.state == StageState.REJECTED else ItemState.FAILED
    signature = signature_of(ended.stage, ended.reason, ended.message)
    failure = ended.reason[:60], clean(ended.message)[:MESSAGE_CHARS], signature, ended.call_key
    return ending.item, str(state), None, *failure, *used


def release(claim: JobClaim) -> int:
    """Give back what this claim, or an earlier one of its job, still holds: others may take it."""
    BatchLane.objects.filter(job_id=claim.row, job__attempt__lte=claim.number).update(reserved=0.0)
    mine = BatchItem.objects.filter(job_id=claim.row, state=ItemState.RUNNING)
    return _give_back(mine.filter(claim__lte=claim.number))


def release_one(claim: JobClaim, item: int) -> None:
    _give_back(BatchItem.objects.filter(pk=item, job_id=claim.row, claim=claim.number, state=ItemState.RUNNING))


def release_orphans(batch: int) -> int:
    """Items of jobs that nobody does at present, or that another attempt holds by now."""
    running = BatchItem.objects.filter(batch_id=batch, state=ItemState.RUNNING)
    gone = Q(job__isnull=True) | ~Q(job__state="running") | Q(job__attempt__gt=F("claim"))
    return _give_back(BatchItem.objects.filter(pk__in=list(running.filter(gone).values_list("pk", flat=True))))


def _give_back(rows: Any) -> int:
    """Back to waiting; in a batch that was cancelled they end with it."""
    cancelled = rows.filter(batch__state=BatchState.CANCELLED).values_list("pk", flat=True)
    ended = BatchItem.objects.filter(pk__in=list(cancelled), state=ItemState.RUNNING)
    return ended.update(state=ItemState.CANCELLED) + rows.filter(state=ItemState.RUNNING).update(
        state=ItemState.WAITING
    )


def cancel_waiting(batch: int) -> int:
    """End the items that wait. Within a transaction that holds the batch, which was cancelled."""
    waiting = BatchItem.objects.filter(batch_id=batch, state=ItemState.WAITING)
    return waiting.update(state=ItemState.CANCELLED)


def leave_out(row: BatchItem, stage: str, reason: str, message: str, alike: str) -> None:
    """Reject an item at a barrier; `alike` is what such rejections share. Within a transaction that holds the item."""
    row.state, row.reason, row.message = ItemState.REJECTED, reason, message
    row.signature = signature_of(stage, reason, alike)
    row.save()


def put_back(row: BatchItem, stage: str) -> None:
    """Let an item wait at `stage`, without what it had ended of. Within a transaction that holds the item."""
    row.state, row.stage = ItemState.WAITING, stage
    row.reason, row.message, row.signature, row.call_key, row.attempt = "", "", "", "", None
    row.save()
