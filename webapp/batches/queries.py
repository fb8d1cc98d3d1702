"""Reads on batches: lists, the funnel, failures by kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import CharField, Count, F, Func, Min, QuerySet

from synthesis.pipeline import PIPELINES
from synthesis.stages import LEVELS, Pipeline
from webapp.batches.models import Batch, BatchItem, BatchProduct, BatchStageCount, Body, ItemState, LLMCall, StageRun
from webapp.common.content_store import load_value

GROUPS = 200
ENDED = (ItemState.KEPT, ItemState.REJECTED, ItemState.FAILED, ItemState.CANCELLED)


def select_batches(state: str = "", variant: str = "") -> QuerySet[Batch]:
    rows = Batch.objects.select_related("created_by", "cloned_from")
    rows = rows.filter(state=state) if state else rows
    return rows.filter(variant=variant) if variant else rows


def get_pipeline(batch: int) -> Pipeline:
    """Return the stages of a batch's variant. Raises Batch.DoesNotExist."""
    return PIPELINES[Batch.objects.values_list("variant", flat=True).get(pk=batch)]


def list_stage_counts(batch: int) -> list[BatchStageCount]:
    """Return the funnel: the endings of each stage, and its usage."""
    return list(BatchStageCount.objects.filter(batch_id=batch).order_by("id"))


def count_items(batch: int) -> dict[str, dict[str, int]]:
    """Return the number of items by level and state."""
    rows = BatchItem.objects.filter(batch_id=batch).values_list("level", "state").annotate(Count("id"))
    counts = {(level, state): count for level, state, count in rows.order_by()}  # by index alone
    by_level: dict[str, dict[str, int]] = {}
    for level, state in sorted(counts, key=lambda pair: (LEVELS.index(pair[0]), pair[1])):
        by_level.setdefault(level, {})[state] = counts[level, state]
    return by_level


@dataclass(frozen=True)
class Failures:
    """Items that ended alike. `item` is one of them, `call_key` the call at fault there, if there was one."""

    signature: str
    state: str
    stage: str
    reason: str
    count: int
    item: int
    message: str
    call_key: str


def list_failures(batch: int) -> list[Failures]:
    """Return failures and rejections by kind, the most frequent first."""
    rows = BatchItem.objects.filter(batch_id=batch, state__in=[ItemState.FAILED, ItemState.REJECTED])
    rows = rows.exclude(signature="")
    groups = rows.values("signature", "state", "stage", "reason").annotate(count=Count("id"), item=Min("id"))
    frequent = list(groups.order_by("-count", "signature")[:GROUPS])
    first = {
        row.pk: row for row in BatchItem.objects.filter(pk__in=[group["item"] for group in frequent]).defer("spec")
    }
    return [
        Failures(**group, message=first[group["item"]].message, call_key=first[group["item"]].call_key)
        for group in frequent
    ]


def list_stage_runs(item: BatchItem) -> list[StageRun]:
    return list(item.runs.order_by("id"))


def find_product(item: BatchItem) -> BatchProduct | None:
    return BatchProduct.objects.filter(item=item).first()


def load_body(digest: str | None) -> Any:
    """Return the content of a stored body; None if there is none."""
    return load_value(Body, digest) if digest else None


@dataclass(frozen=True)
class ReadingLine:
    """Number of replies of a model that needed this repair, or (`unusable`) could not be used and were asked for
    again."""

    model: str
    repair: str
    count: int
    unusable: bool = False


def list_readings(batch: int) -> list[ReadingLine]:
    """Return repairs of replies of this batch and unusable replies, by model, the most frequent first."""
    calls = LLMCall.objects.filter(batch=batch).order_by()
    each = Func(F("repairs"), function="unnest", output_field=CharField())
    repaired = calls.exclude(repairs=[]).annotate(repair=each)
    lines = [
        ReadingLine(row["model"], row["repair"], row["count"])
        for row in repaired.values("model", "repair").annotate(count=Count("pk"))
    ]
    refused = calls.exclude(unusable="").values("model").annotate(count=Count("pk"))
    lines += [ReadingLine(row["model"], "", row["count"], unusable=True) for row in refused]
    return sorted(lines, key=lambda line: (line.model, line.unusable, -line.count))
