"""Items while they are worked on: taken, moved on, ended. Every write names the claim; a stale one changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Q

from synthesis.contracts import Usage
from synthesis.formats.values import clean
from synthesis.stages import LEVELS, ItemSpec, Part
from webapp.batches.bodies import body_of, store_bodies
from webapp.batches.models import (
    Batch,
    BatchItem,
    BatchProduct,
    BatchStageCount,
    BatchState,
    ItemState,
    StageRun,
    StageState,
)
from webapp.batches.signatures import signature_of
from webapp.jobs.services import StaleAttempt, held

SAVE = "save"
"""What comes after an item's last stage: its outputs become rows."""
MESSAGE_CHARS = 10_000
OPEN = (ItemState.WAITING, ItemState.RUNNING)


@dataclass(frozen=True)
class Claim:
    """Who works: a job under its attempt number, on one batch."""

    batch: int
    job: int
    attempt: int


@dataclass(frozen=True)
class Ended:
    """How a stage ended for an item. `output` is JSON: the draft, or the evidence of a rejection."""

    stage: str
    state: StageState
    output: Any = None
    reason: str = ""
    message: str = ""
    call_key: str = ""
    calls: list[str] = field(default_factory=list)
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    replayed: int = 0
    cost: float = 0.0


def take(claim: Claim, count: int, barriers: tuple[str, ...]) -> list[BatchItem]:
    """Claim up to `count` waiting items, the deepest first; none that waits at a barrier."""
    with transaction.atomic():
        _require_held(claim)
        if not Batch.objects.filter(pk=claim.batch, state=BatchState.RUNNING).exists():
            return []
        rows = BatchItem.objects.select_for_update(skip_locked=True, of=("self",))
        rows = rows.filter(batch_id=claim.batch, state=ItemState.WAITING).exclude(stage__in=barriers)
        found = list(rows.order_by("-rank", "id")[:count])
        BatchItem.objects.filter(pk__in=[item.pk for item in found]).update(
            state=ItemState.RUNNING, job_id=claim.job, claim=claim.attempt, starts=F("starts") + 1
        )
    for item in found:
        item.state, item.job_id, item.claim = ItemState.RUNNING, claim.job, claim.attempt
    return found


def end_stage(claim: Claim, item: int, ended: Ended, following: str, *, barrier: bool = False) -> None:
    """Store what a stage came to. The item goes on to `following`, or ends where it was not kept."""
    with transaction.atomic(), _mine(claim, item) as row:
        add_run(row, ended)
        row.seconds, row.cost = row.seconds + ended.seconds, row.cost + ended.cost
        if ended.state == StageState.KEPT:
            row.stage = following
            row.state = ItemState.WAITING if barrier else ItemState.RUNNING
        else:
            row.state = ItemState.REJECTED if ended.state == StageState.REJECTED else ItemState.FAILED
            row.reason, row.message = ended.reason[:60], clean(ended.message)[:MESSAGE_CHARS]
            row.signature = signature_of(ended.stage, ended.reason, ended.message)
            row.call_key = ended.call_key
        row.save()


def keep(
    claim: Claim, item: int, ended: Ended, product: BatchProduct, parts: list[Part], first: dict[str, str]
) -> None:
    """End an item well: its product, and the items below it, in one transaction. `first` is the first stage a level."""
    with transaction.atomic(), _mine(claim, item) as row:
        add_run(row, ended)
        row.seconds += ended.seconds
        row.state, row.reason, row.message, row.signature, row.call_key = ItemState.KEPT, "", "", "", ""
        row.save()
        BatchProduct.objects.filter(item=row).delete()
        product.item = row
        product.save()
        BatchItem.objects.bulk_create(
            [
                new_item(row.batch_id, f"{row.path}/{part.name}", part.level, number, part.spec, first, row)
                for number, part in enumerate(parts)
            ],
            ignore_conflicts=True,
        )


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
    rank = [str(one) for one in LEVELS].index(level)
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


def add_run(row: BatchItem, ended: Ended) -> None:
    """Replace what an earlier try of the stage left, and count. Within a transaction that holds the item."""
    earlier = StageRun.objects.filter(item=row, stage=ended.stage).first()
    if earlier is not None:
        uncount(row.batch_id, earlier)
        earlier.delete()
    output = None
    if ended.output is not None:
        output = body_of(ended.output)
        store_bodies([output])
    StageRun.objects.create(
        item=row,
        stage=ended.stage,
        state=ended.state,
        reason=ended.reason[:60],
        message=clean(ended.message)[:MESSAGE_CHARS],
        call_key=ended.call_key,
        output_id=output.hash if output else None,
        calls=ended.calls,
        attempt=earlier.attempt + 1 if earlier else 1,
        **_used(ended),
    )
    _count(row.batch_id, ended.stage, str(ended.state), ended.reason[:60], {"count": 1, **_used(ended)})


def uncount(batch: int, run: StageRun) -> None:
    """Take an item out of a stage's count; what was used stays."""
    rows = BatchStageCount.objects.filter(batch_id=batch, stage=run.stage, state=run.state, reason=run.reason)
    rows.update(count=F("count") - 1)


def _used(ended: Ended) -> dict[str, Any]:
    return {
        "seconds": ended.seconds,
        "requests": ended.usage.requests,
        "replayed": ended.replayed,
        "prompt_tokens": ended.usage.prompt_tokens,
        "completion_tokens": ended.usage.completion_tokens,
        "cost": ended.cost,
    }


def _count(batch: int, stage: str, state: str, reason: str, more: dict[str, Any]) -> None:
    table = BatchStageCount._meta.db_table
    names = list(more)
    sets = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in names)
    sql = (
        f"INSERT INTO {table} (batch_id, stage, state, reason, {', '.join(names)}) "
        f"VALUES (%s, %s, %s, %s, {', '.join(['%s'] * len(names))}) "
        f"ON CONFLICT (batch_id, stage, state, reason) DO UPDATE SET {sets}"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [batch, stage, state, reason, *more.values()])


def release(claim: Claim) -> int:
    """Give back what this claim, or an earlier one of its job, still holds: others may take it."""
    mine = BatchItem.objects.filter(batch_id=claim.batch, job_id=claim.job, state=ItemState.RUNNING)
    return _give_back(mine.filter(claim__lte=claim.attempt))


def release_one(claim: Claim, item: int) -> None:
    _give_back(BatchItem.objects.filter(pk=item, job_id=claim.job, claim=claim.attempt, state=ItemState.RUNNING))


def release_orphans(batch: int) -> int:
    """Items of jobs that have ended, or that another attempt holds by now."""
    running = BatchItem.objects.filter(batch_id=batch, state=ItemState.RUNNING)
    gone = Q(job__isnull=True) | ~Q(job__state__in=["queued", "running"]) | Q(job__attempt__gt=F("claim"))
    return _give_back(BatchItem.objects.filter(pk__in=list(running.filter(gone).values_list("pk", flat=True))))


def _give_back(rows: Any) -> int:
    """Back to waiting; in a batch that was cancelled they end with it."""
    cancelled = rows.filter(batch__state=BatchState.CANCELLED).values_list("pk", flat=True)
    ended = BatchItem.objects.filter(pk__in=list(cancelled), state=ItemState.RUNNING)
    return ended.update(state=ItemState.CANCELLED) + rows.filter(state=ItemState.RUNNING).update(
        state=ItemState.WAITING
    )


@contextmanager
def _mine(claim: Claim, item: int) -> Iterator[BatchItem]:
    """Holds the item's row. Raises StaleAttempt where it is not this claim's."""
    _require_held(claim)
    rows = BatchItem.objects.select_for_update(of=("self",))
    row = rows.filter(pk=item, job_id=claim.job, claim=claim.attempt, state=ItemState.RUNNING).first()
    if row is None:
        raise StaleAttempt(f"Item {item} belongs to another worker by now.")
    yield row


def _require_held(claim: Claim) -> None:
    if not held(claim.job, claim.attempt).exists():
        raise StaleAttempt(f"Job {claim.job}: attempt {claim.attempt} no longer holds it.")
