"""Usage of stages under way, and the calls that wait for a reply.

A stage's usage is counted once it has ended (`BatchStageCount`). Until then it is read from the calls of the items in
it: those that were answered since the item last moved on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Q
from django.utils import timezone

from synthesis.stages import Pipeline
from webapp.batches.models import BatchItem, BatchState, CallState, ItemState, LLMCall
from webapp.batches.pages.progress import StageLine

ITEMS_LOOKED_AT = 2_000
WAITING_SHOWN = 50
USED_SINCE = f"""
SELECT item.id, item.stage, count(*),
    sum(CASE WHEN call.created_at >= item.updated_at THEN call.requests ELSE 1 END),
    coalesce(sum(call.prompt_tokens) FILTER (WHERE call.state = 'done'), 0),
    coalesce(sum(call.completion_tokens) FILTER (WHERE call.state = 'done'), 0),
    coalesce(sum(call.cost / CASE WHEN call.created_at >= item.updated_at THEN 1
        ELSE greatest(call.requests - call.lost, 1) END) FILTER (WHERE call.state = 'done'), 0),
    count(*) FILTER (WHERE call.state = 'done' AND call.cost IS NULL),
    count(*) FILTER (WHERE call.state = 'sent' AND call.open > 0),
    min(call.updated_at) FILTER (WHERE call.state = 'sent' AND call.open > 0)
FROM {BatchItem._meta.db_table} AS item
JOIN {LLMCall._meta.db_table} AS call ON call.item_id = item.id AND call.updated_at >= item.updated_at
    AND call.state <> 'aside'
WHERE item.id = ANY(%s)
GROUP BY item.id, item.stage
"""


@dataclass(frozen=True)
class StageUse:
    """Usage of an item so far in its current stage. Of the `waiting` calls, which have no reply yet, the oldest was
    sent at `sent`."""

    item: int
    stage: str
    calls: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    unpriced: int
    waiting: int
    sent: datetime | None

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


def list_items_underway(batch: int, pipeline: Pipeline) -> list[int]:
    """Return items that a worker has, and those at a barrier, at which a model may be asked about them."""
    barriers = [stage.name for stage in pipeline.stages if stage.group is not None]
    rows = BatchItem.objects.filter(batch_id=batch).order_by("-rank", "id").values_list("pk", flat=True)
    running = list(rows.filter(state=ItemState.RUNNING)[:ITEMS_LOOKED_AT])
    standing = rows.filter(Q(state=ItemState.WAITING), stage__in=barriers)
    return running + list(standing[: ITEMS_LOOKED_AT - len(running)])


def read_current_usage(items: Collection[int]) -> list[StageUse]:
    """Return the usage of these items in their current stages."""
    if not items:
        return []
    with connection.cursor() as cursor:
        cursor.execute(USED_SINCE, [list(items)])
        return [StageUse(*row) for row in cursor.fetchall()]


def add_current_usage(lines: Iterable[StageLine], used: Iterable[StageUse]) -> None:
    """Add to each row of the funnel the usage so far of the items in its stage."""
    by_stage = {line.name: line for line in lines}
    for use in used:
        line = by_stage.get(use.stage)
        if line is not None:
            line.underway += use.requests
            for name in ("requests", "prompt_tokens", "completion_tokens", "cost", "unpriced"):
                setattr(line, name, getattr(line, name) + getattr(use, name))


@dataclass(frozen=True)
class CallsInFlight:
    """Calls of a batch that wait for a reply; `age` are the seconds since the oldest was sent."""

    count: int
    age: float


def summarize_calls_in_flight(used: Iterable[StageUse]) -> CallsInFlight | None:
    waiting = [use for use in used if use.waiting and use.sent]
    if not waiting:
        return None
    oldest = min(use.sent for use in waiting if use.sent)
    return CallsInFlight(sum(use.waiting for use in waiting), measure_age(oldest))


def measure_age(sent: datetime) -> float:
    return max(0.0, (timezone.now() - sent).total_seconds())


def set_call_ages(calls: Iterable[LLMCall]) -> list[LLMCall]:
    """Return the calls; each without a reply gets the seconds since it was sent, as `age`. A call whose item no worker
    has is not in flight: its worker has ended."""
    rows = list(calls)
    open_calls = [call for call in rows if call.state == CallState.SENT and call.open]
    held = set(
        BatchItem.objects.filter(pk__in={call.item_id for call in open_calls if call.item_id})
        .filter(Q(state=ItemState.RUNNING) | Q(state=ItemState.WAITING, batch__state=BatchState.RUNNING))
        .values_list("pk", flat=True)
    )
    for call in open_calls:
        call.age = measure_age(call.updated_at) if call.item_id in held else None  # type: ignore[attr-defined]
    return rows


def list_waiting_calls(item: BatchItem) -> list[LLMCall]:
    """Return calls of an item that wait for a reply, the oldest first, with their ages."""
    rows = LLMCall.objects.filter(item=item, state=CallState.SENT, open__gt=0, updated_at__gte=item.updated_at)
    return set_call_ages(rows.order_by("updated_at")[:WAITING_SHOWN])
