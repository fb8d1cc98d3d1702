"""Stage runs: ends of stages for items, and the counts by stage, state and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from synthesis.contracts import Usage
from synthesis.formats.values import clean_text
from webapp.batches.models import BatchItem, BatchStageCount, Body, ItemState, StageRun, StageState
from webapp.common.content_store import build_content_row, save_rows
from webapp.jobs.claims import JobClaim

SAVE = "save"
"""What comes after an item's last stage: its outputs become rows."""
MESSAGE_CHARS = 10_000


@dataclass(frozen=True)
class EndedStage:
    """The end of a stage for an item. `output` is JSON: the draft, or the evidence of a rejection."""

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
    unpriced: int = 0
    used: dict[str, Any] = field(default_factory=dict)


def add_run(row: BatchItem, ended: EndedStage) -> None:
    """Add the run of one item, whose output is JSON; see `add_runs`."""
    add_runs([(row, ended, None if ended.output is None else build_content_row(Body, ended.output))])


def add_runs(runs: Sequence[tuple[BatchItem, EndedStage, Body | None]]) -> None:
    """Replace the runs that earlier tries of the stages left, and count.

    The runs are of one batch, each item once, within a transaction that holds the items. Counts are written in one
    order, so that two writers never wait for each other.
    """
    earlier = _take_earlier_runs([(row.pk, ended.stage) for row, ended, _ in runs])
    save_rows(Body, [body for _, _, body in runs if body is not None])
    StageRun.objects.bulk_create(
        StageRun(
            item=row,
            stage=ended.stage,
            state=ended.state,
            reason=ended.reason[:60],
            message=clean_text(ended.message)[:MESSAGE_CHARS],
            call_key=ended.call_key,
            output_id=body.hash if body else None,
            calls=ended.calls,
            used=ended.used,
            attempt=earlier[row.pk].attempt + 1 if row.pk in earlier else 1,
            **_list_usage(ended),
        )
        for row, ended, body in runs
    )
    more: dict[tuple[str, str, str], Counter[str]] = {}
    for run in earlier.values():  # taken out of the count; its usage stays
        removed_counts = Counter({"count": -1, **_list_usage(EndedStage(run.stage, StageState(run.state)))})
        more.setdefault((run.stage, run.state, run.reason), Counter()).update(removed_counts)
    for _, ended, _ in runs:
        used = Counter({"count": 1, **_list_usage(ended)})
        more.setdefault((ended.stage, str(ended.state), ended.reason[:60]), Counter()).update(used)
    for place in sorted(more):
        _add_to_count(runs[0][0].batch_id, *place, more[place])


def count_interrupted_usage(claim: JobClaim, item: int, ended: EndedStage) -> None:
    """Count the usage of an interrupted stage: it begins again, and finds those replies stored."""
    with transaction.atomic():
        held_rows = BatchItem.objects.filter(pk=item, job_id=claim.row, claim=claim.number, state=ItemState.RUNNING)
        more = {"cost": F("cost") + ended.cost, "seconds": F("seconds") + ended.seconds}
        if held_rows.update(**more, updated_at=Now()):  # what is under way since then is counted from here on
            used = Counter({"count": 0, **_list_usage(ended)})
            batch = held_rows.values_list("batch_id", flat=True).get()
            _add_to_count(batch, ended.stage, str(ended.state), "", used)


def count_barrier_usage(batch: int, used: Mapping[int, EndedStage]) -> None:
    """Count the usage of a judge at a barrier for items without a run written there. Within a transaction."""
    for item, ended in sorted(used.items()):
        more = {"cost": F("cost") + ended.cost, "seconds": F("seconds") + ended.seconds}
        BatchItem.objects.filter(pk=item).update(**more, updated_at=Now())
        _add_to_count(batch, ended.stage, str(StageState.KEPT), "", Counter({"count": 0, **_list_usage(ended)}))


def _take_earlier_runs(places: list[tuple[int, str]]) -> dict[int, StageRun]:
    """Delete the runs that earlier tries of these stages left, and return them by item."""
    rows = StageRun.objects.filter(item__in=[item for item, _ in places], stage__in={stage for _, stage in places})
    rows = rows.only("item_id", "stage", "state", "reason", "attempt").order_by()
    runs = {row.item_id: row for row in rows if (row.item_id, row.stage) in places}
    if runs:
        StageRun.objects.filter(pk__in=[row.pk for row in runs.values()]).delete()
    return runs


def _list_usage(ended: EndedStage) -> dict[str, Any]:
    return {
        "seconds": ended.seconds,
        "requests": ended.usage.requests,
        "replayed": ended.replayed,
        "prompt_tokens": ended.usage.prompt_tokens,
        "completion_tokens": ended.usage.completion_tokens,
        "cost": ended.cost,
        "unpriced": ended.unpriced,
    }


def _add_to_count(batch: int, stage: str, state: str, reason: str, more: Counter[str]) -> None:
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
