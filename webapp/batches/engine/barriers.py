"""Barriers: stages at which items wait for each other, such as near-duplicates among all themes of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from django.db import transaction

from synthesis.stages import BarrierGroups, ItemSpec, Pipeline, Stage, StageSettings
from webapp.batches.engine.item_state import OPEN, reject_at_barrier, return_to_stage
from webapp.batches.engine.lane_queue import lock_batch, open_lanes
from webapp.batches.engine.near_duplicates import find_kept_apart, fold_duplicates
from webapp.batches.engine.stage_runs import SAVE, EndedStage, add_run, count_barrier_usage
from webapp.batches.models import BatchItem, BatchState, Body, ItemState, StageRun, StageState
from webapp.common.content_store import unpack_value


def find_due_barrier(batch: int, pipeline: Pipeline) -> Stage | None:
    """Return a barrier at which items wait and which no item has yet to reach."""
    for stage in pipeline.stages:
        if stage.group is None:
            continue
        own = [level_stage.name for level_stage in pipeline.of(stage.level)]
        before = own[: own.index(stage.name)]
        items = BatchItem.objects.filter(batch_id=batch, level=stage.level)
        waiting = items.filter(state=ItemState.WAITING, stage=stage.name)
        if waiting.exists() and not items.filter(state__in=OPEN, stage__in=before).exists():
            return stage
    return None


@dataclass(frozen=True)
class StandingItems:
    """Items that wait at a barrier, those that passed earlier first, and the drafts by which they are compared."""

    stage: Stage
    items: list[BatchItem]
    drafts: list[object]
    apart: frozenset[int]
    """Indices of those whose theme a person keeps apart."""


def find_standing_items(batch: int, job: int, pipeline: Pipeline) -> StandingItems | None:
    """Return the items at a barrier that is due. Only the first of several lanes gets them, so that the judge is not
    asked twice."""
    stage = find_due_barrier(batch, pipeline)
    if stage is None:
        return None
    first = open_lanes(batch).order_by("job_id").values_list("job_id", flat=True).first()
    if first not in (job, None):
        return None
    places = _list_standing_items(batch, stage)
    rows = BatchItem.objects.in_bulk(places)
    items = [rows[pk] for pk in places]
    apart = find_kept_apart(items)
    held = frozenset(index for index, pk in enumerate(places) if pk in apart)
    return StandingItems(stage, items, _load_compared_drafts(pipeline, stage, places), held)


def pass_barrier(
    batch: int,
    pipeline: Pipeline,
    settings: StageSettings,
    standing: StandingItems,
    found: BarrierGroups,
    used: Mapping[int, EndedStage],
) -> bool:
    """Let the first item of each group continue and reject the others; `used` is the usage of the judge by item.

    Grouping takes its time, so nothing is locked for it. The decision is made under the batch's lock, and only if the
    same items still wait there; otherwise the next look groups anew. Items that passed earlier (before a retry) stay:
    items like them are duplicates.
    """
    stage, places = standing.stage, [item.pk for item in standing.items]
    with transaction.atomic():
        row = lock_batch(batch)
        if (
            find_due_barrier(batch, pipeline) != stage
            or row.state != BatchState.RUNNING
            or _list_standing_items(batch, stage) != places
        ):
            count_barrier_usage(batch, used)
            return row.state == BatchState.RUNNING
        rows = BatchItem.objects.select_for_update(of=("self",), no_key=True).order_by("id").in_bulk(places)
        items = [rows[pk] for pk in places]
        decision = BarrierDecision(stage, pipeline, settings, find_kept_apart(items), used)
        left_out = []
        for group in found.groups:
            left_out += decision.carry_out([(items[index], found.notes.get(index, "")) for index in group])
        fold_duplicates(row, left_out)
        waited = {pk for pk, item in rows.items() if pk not in decision.written}
        count_barrier_usage(batch, {pk: ended for pk, ended in used.items() if pk in waited})
    return True


def _list_standing_items(batch: int, stage: Stage) -> list[int]:
    """Return the items that wait at the barrier or passed it, those that passed first."""
    runs = StageRun.objects.filter(item__batch_id=batch, item__level=stage.level, state=StageState.KEPT)
    passed = set(runs.filter(stage=stage.name).values_list("item", flat=True))
    reached = runs.filter(stage=stage.takes[0])
    rows = reached.values_list("item", "item__stage", "item__state").order_by("item__position", "item")
    standing = [pk for pk, at, state in rows if pk in passed or (at, state) == (stage.name, ItemState.WAITING)]
    return sorted(standing, key=lambda pk: pk not in passed)


def _load_compared_drafts(pipeline: Pipeline, stage: Stage, items: list[int]) -> list[object]:
    """Return the drafts by which the barrier compares the items."""
    draft_model = pipeline.stage(stage.takes[0]).gives
    assert draft_model is not None
    runs = StageRun.objects.filter(item__in=items, stage=stage.takes[0], state=StageState.KEPT)
    outputs = {
        pk: draft_model.model_validate(unpack_value(Body, digest, body))
        for pk, digest, body in runs.values_list("item", "output", "output__body")
    }
    return [outputs[pk] for pk in items]


@dataclass
class BarrierDecision:
    """The decision of a barrier on its items, within the batch's transaction."""

    stage: Stage
    pipeline: Pipeline
    settings: StageSettings
    apart: set[int]
    used: Mapping[int, EndedStage]
    written: set[int] = field(default_factory=set)

    def carry_out(self, group: list[tuple[BatchItem, str]]) -> list[tuple[BatchItem, BatchItem]]:
        """Pass or reject the items of a group; return the rejected ones, each with the item that continues."""
        continuing, left_out = group[0][0], []
        for row, note in group:
            if row.stage != self.stage.name or row.state != ItemState.WAITING:
                continue
            ended = self.used.get(row.pk, EndedStage(self.stage.name, StageState.KEPT))
            row.cost, row.seconds = row.cost + ended.cost, row.seconds + ended.seconds
            self.written.add(row.pk)
            if row is continuing or row.pk in self.apart:
                move_past_barrier(row, self.stage, self.pipeline, self.settings, replace(ended, message=note))
                continue
            message = f"It is nearly the same theme as {continuing.path}, which goes on.{f' {note}' if note else ''}"
            evidence = {"kept": continuing.path, "item": continuing.pk} | ({"judge": note} if note else {})
            add_run(
                row,
                replace(ended, state=StageState.REJECTED, output=evidence, reason="duplicate", message=message),
            )
            reject_at_barrier(row, self.stage.name, "duplicate", message, "a near-duplicate of another theme")
            left_out.append((row, continuing))
        return left_out


def move_past_barrier(
    row: BatchItem, stage: Stage, pipeline: Pipeline, settings: StageSettings, ended: EndedStage | None = None
) -> None:
    """Move an item past the barrier. Within a transaction that holds the item."""
    following = pipeline.after(stage.name, settings, ItemSpec.model_validate(row.spec))
    add_run(row, ended or EndedStage(stage.name, StageState.KEPT))
    return_to_stage(row, following.name if following else SAVE)
