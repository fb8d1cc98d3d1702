"""Filters of the lists of a batch's items and calls."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from django.db import connection
from django.db.models import BooleanField, Exists, Model, OuterRef, QuerySet
from django.db.models.expressions import RawSQL
from django.http import QueryDict

from synthesis.stages import LEVELS
from webapp.batches.engine.item_state import OPEN
from webapp.batches.models import BatchItem, BatchProduct, CallState, ItemState, LLMCall, StageRun, StageState
from webapp.common.query_params import Params

M = TypeVar("M", bound=Model)
ENTERED = "entered"
REPAIRED = "repaired"
"""Kept, and a repair was asked for on the way."""
ENDED_AS = (ENTERED, *StageState.values, REPAIRED)
REPAIRS = ("skeleton/repair", "assessment/repair_tool", "tasks/repair")
"""Prompts that are filled in where something is repaired."""
READ_AS = (REPAIRED, "unusable")
LONGEST = 300


@dataclass(frozen=True)
class ItemFilter:
    """Filter of items. `stage` alone: items that wait in it or ended there. With `ended`: the result of the stage for
    them, whatever their state now; `reason` is then the stage's too."""

    level: str = ""
    state: str = ""
    stage: str = ""
    ended: str = ""
    reason: str = ""
    signature: str = ""
    parent: int | None = None
    open: bool = False
    """Only what waits or runs."""

    @property
    def any(self) -> bool:
        return any(value not in ("", None, False) for value in vars(self).values())


FIELDS = tuple(field.name for field in fields(ItemFilter))


@dataclass(frozen=True)
class CallFilter:
    """Filter of calls. `lost`: only those with a request without a stored reply. `read`: those whose reply was repaired
    in its form, or could not be used; `repair` is one kind of repair."""

    state: str = ""
    role: str = ""
    stage: str = ""
    lost: bool = False
    read: str = ""
    model: str = ""
    repair: str = ""

    @property
    def place(self) -> str:
        return f"{self.role}:{self.stage}" if self.role else ""

    @property
    def any(self) -> bool:
        return any(vars(self).values())


def read_item_filter(query: QueryDict) -> ItemFilter:
    """Return the filter that a query string describes; invalid values are left out."""
    params = Params(query)
    stage = params.text("stage", LONGEST)
    return ItemFilter(
        level=params.choice("level", LEVELS),
        state=params.choice("state", ItemState.values),
        stage=stage,
        ended=params.choice("ended", ENDED_AS) if stage else "",
        reason=params.text("reason", LONGEST),
        signature=params.text("signature", LONGEST),
        parent=params.id("parent"),
        open=params.flag("open"),
    )


def read_call_filter(query: QueryDict) -> CallFilter:
    """Return the filter that a query string describes. `?place=author:plan_state` is role and stage together, as in the
    index."""
    params = Params(query)
    role, _, stage = params.text("place", LONGEST).partition(":")
    state = params.choice("state", CallState.values)
    return CallFilter(
        state=state,
        role=role,
        stage=stage,
        lost=params.flag("lost"),
        read=params.choice("read", READ_AS),
        model=params.text("model", LONGEST),
        repair=params.text("repair", LONGEST),
    )


def filter_items(batch: int, chosen: ItemFilter) -> QuerySet[BatchItem]:
    """Return the items of a batch that match a filter, with their products, without specs and provenance."""
    rows = _filter_by_fields(BatchItem.objects.filter(batch_id=batch), chosen, "state", "level", "signature", "parent")
    rows = rows.select_related("product").defer("spec", "product__provenance")
    if chosen.stage and chosen.ended:
        return rows.filter(Exists(_filter_runs(chosen)))
    rows = rows.filter(stage=chosen.stage) if chosen.stage else rows
    rows = rows.filter(state__in=OPEN) if chosen.open else rows
    return rows.filter(reason=chosen.reason) if chosen.reason else rows


def _filter_runs(chosen: ItemFilter) -> QuerySet[StageRun]:
    runs = StageRun.objects.filter(item=OuterRef("pk"), stage=chosen.stage).order_by()
    if chosen.ended == REPAIRED:
        has_repair_prompt = RawSQL("(used::jsonb -> 'prompts') ?| %s", [list(REPAIRS)], BooleanField())
        runs = runs.filter(has_repair_prompt, state=StageState.KEPT)
    elif chosen.ended != ENTERED:
        runs = runs.filter(state=chosen.ended)
    return runs.filter(reason=chosen.reason) if chosen.reason else runs


def filter_calls(batch: int, chosen: CallFilter) -> QuerySet[LLMCall]:
    """Return the calls that this batch was the first to make, by a filter."""
    rows = _filter_by_fields(LLMCall.objects.filter(batch_id=batch), chosen, "state", "role", "stage", "model")
    if chosen.read == REPAIRED or chosen.repair:
        rows = rows.exclude(repairs=[])
        rows = rows.filter(repairs__contains=[chosen.repair]) if chosen.repair else rows
    elif chosen.read:
        rows = rows.exclude(unusable="")
    return rows.filter(lost__gt=0) if chosen.lost else rows


def _filter_by_fields(rows: QuerySet[M], chosen: object, *names: str) -> QuerySet[M]:
    """Return the rows that match the named fields of a filter; an empty text and None match all."""
    field_values = {name: getattr(chosen, name) for name in names}
    return rows.filter(**{name: value for name, value in field_values.items() if value not in ("", None)})


def get_joined_product(item: BatchItem) -> BatchProduct | None:
    """Return the product of an item that `filter_items` returned."""
    product: Any = getattr(item, "product", None)
    return product


PLACES = """
WITH RECURSIVE known(role, stage) AS (
  (SELECT role, stage FROM batches_llmcall WHERE batch_id = %(batch)s ORDER BY role, stage LIMIT 1)
  UNION ALL
  SELECT next.role, next.stage FROM known, LATERAL (
    SELECT role, stage FROM batches_llmcall AS call
    WHERE call.batch_id = %(batch)s AND (call.role, call.stage) > (known.role, known.stage)
    ORDER BY role, stage LIMIT 1
  ) AS next
) SELECT role, stage FROM known
"""


def list_call_places(batch: int) -> list[tuple[str, str]]:
    """Return roles and stages of a batch's calls: one hop through the index from each pair to the next."""
    with connection.cursor() as cursor:
        cursor.execute(PLACES, {"batch": batch})
        return [(role, stage) for role, stage in cursor.fetchall()]
