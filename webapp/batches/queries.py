"""Reads on batches: lists, the funnel, failures by kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import CharField, Count, F, Func, Min, QuerySet

from synthesis.pipeline import PIPELINES
from synthesis.stages import LEVELS, Pipeline
from webapp.batches.models import Batch, BatchItem, BatchProduct, BatchStageCount, Body, ItemState, LLMCall, StageRun
from webapp.content_store import load

GROUPS = 200
ENDED = (ItemState.KEPT, ItemState.REJECTED, ItemState.FAILED, ItemState.CANCELLED)


def batches(state: str = "", variant: str = "") -> QuerySet[Batch]:
    rows = Batch.objects.select_related("created_by", "cloned_from")
    rows = rows.filter(state=state) if state else rows
    return rows.filter(variant=variant) if variant else rows


def find_pipeline(batch: int) -> Pipeline:
    """The stages of a batch's variant. Raises Batch.DoesNotExist."""
    return PIPELINES[Batch.objects.values_list("variant", flat=True).get(pk=batch)]


def counts(batch: int) -> list[BatchStageCount]:
    """The funnel: how each stage ended, and what it used."""
    return list(BatchStageCount.objects.filter(batch_id=batch).order_by("id"))


def item_counts(batch: int) -> dict[str, dict[str, int]]:
    """By level and state."""
    rows = BatchItem.objects.filter(batch_id=batch).values_list("level", "state").annotate(Count("id"))
    counts = {(level, state): count for level, state, count in rows.order_by()}  # by index alone
    by_level: dict[str, dict[str, int]] = {}
    for level, state in sorted(counts, key=lambda pair: (LEVELS.index(pair[0]), pair[1])):
        by_level.setdefault(level, {})[state] = counts[level, state]
    return by_level


@dataclass(frozen=True)
class Failures:
    """Items that ended alike. `item` is one of them, `call_key` the call at fault there, where one was."""

    signature: str
    state: str
    stage: str
    reason: str
    count: int
    item: int
    message: str
    call_key: str


def failures(batch: int) -> list[Failures]:
    """What went wrong, by kind, the most frequent first."""
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


def runs_of(item: BatchItem) -> list[StageRun]:
    return list(item.runs.order_by("id"))


def product_of(item: BatchItem) -> BatchProduct | None:
    return BatchProduct.objects.filter(item=item).first()


def body(digest: str | None) -> Any:
    """What a stored body holds; None where there is none."""
    return load(Body, digest) if digest else None


@dataclass(frozen=True)
class ReadingLine:
    """How often replies of a model had to be repaired so, or (`unusable`) could not be used and were asked again."""

    model: str
    repair: str
    count: int
    unusable: bool = False


def readings(batch: int) -> list[ReadingLine]:
    """By model what was repaired in replies of this batch, and how many could not be used. The most frequent first."""
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
