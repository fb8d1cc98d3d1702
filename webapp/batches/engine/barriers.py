"""Barriers: stages where items wait for each other, such as near-duplicates among all of a batch's themes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from django.db import transaction

from synthesis.stages import BarrierGroups, ItemSpec, Pipeline, Stage, StageSettings
from webapp.batches.engine.item_state import OPEN, leave_out, put_back
from webapp.batches.engine.lane_jobs import lock, open_lanes
from webapp.batches.engine.near_duplicates import kept_apart, tell_duplicates
from webapp.batches.engine.stage_runs import SAVE, EndedStage, add_run, note_barrier_used
from webapp.batches.models import BatchItem, BatchState, Body, ItemState, StageRun, StageState
from webapp.content_store import unpack


def due(batch: int, pipeline: Pipeline) -> Stage | None:
    """A barrier where items wait and that no item is still on its way to."""
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
    """Items that stand at a barrier, those that passed earlier first, and what they are compared by."""

    stage: Stage
    items: list[BatchItem]
    drafts: list[object]
    apart: frozenset[int]
    """Indices of those whose theme a person keeps apart."""


def look(batch: int, job: int, pipeline: Pipeline) -> StandingItems | None:
    """The items at a barrier that is due. Of several lanes only the first is told, or the judge was asked twice."""
    stage = due(batch, pipeline)
    if stage is None:
        return None
    first = open_lanes(batch).order_by("job_id").values_list("job_id", flat=True).first()
    if first not in (job, None):
        return None
    places = _standing(batch, stage)
    rows = BatchItem.objects.in_bulk(places)
    items = [rows[pk] for pk in places]
    apart = kept_apart(items)
    held = frozenset(index for index, pk in enumerate(places) if pk in apart)
    return StandingItems(stage, items, _drafts(pipeline, stage, places), held)


def pass_barrier(
    batch: int,
    pipeline: Pipeline,
    settings: StageSettings,
    standing: StandingItems,
    found: BarrierGroups,
    used: Mapping[int, EndedStage],
) -> bool:
    """Let the first of each group go on, reject the others; by item, `used` is what the judge was asked of it.

    Grouping takes its time, so nothing is locked for it. What is decided is decided under the batch's lock, and only
    where the same items still stand there: else the next look groups anew. Items that went on earlier (before a
    retry) stay: what is like them is a duplicate.
    """
    stage, places = standing.stage, [item.pk for item in standing.items]
    with transaction.atomic():
        row = lock(batch)
        if due(batch, pipeline) != stage or row.state != BatchState.RUNNING or _standing(batch, stage) != places:
            note_barrier_used(batch, used)
            return row.state == BatchState.RUNNING
        rows = BatchItem.objects.select_for_update(of=("self",), no_key=True).order_by("id").in_bulk(places)
        items = [rows[pk] for pk in places]
        decision = BarrierDecision(stage, pipeline, settings, kept_apart(items), used)
        left_out = []
        for group in found.groups:
            left_out += decision.carry_out([(items[index], found.notes.get(index, "")) for index in group])
        tell_duplicates(row, left_out)
        waited = {pk for pk, item in rows.items() if pk not in decision.written}
        note_barrier_used(batch, {pk: ended for pk, ended in used.items() if pk in waited})
    return True


def _standing(batch: int, stage: Stage) -> list[int]:
    """Items that wait here or passed here, those that passed first."""
    runs = StageRun.objects.filter(item__batch_id=batch, item__level=stage.level, state=StageState.KEPT)
    passed = set(runs.filter(stage=stage.name).values_list("item", flat=True))
    reached = runs.filter(stage=stage.takes[0])
    rows = reached.values_list("item", "item__stage", "item__state").order_by("item__position", "item")
    standing = [pk for pk, at, state in rows if pk in passed or (at, state) == (stage.name, ItemState.WAITING)]
    return sorted(standing, key=lambda pk: pk not in passed)


def _drafts(pipeline: Pipeline, stage: Stage, items: list[int]) -> list[object]:
    """What the barrier compares the items by."""
    wanted = pipeline.stage(stage.takes[0]).gives
    assert wanted is not None
    runs = StageRun.objects.filter(item__in=items, stage=stage.takes[0], state=StageState.KEPT)
    outputs = {
        pk: wanted.model_validate(unpack(Body, digest, body))
        for pk, digest, body in runs.values_list("item", "output", "output__body")
    }
    return [outputs[pk] for pk in items]


@dataclass
class BarrierDecision:
    """What a barrier decides of its items, within the batch's transaction."""

    stage: Stage
    pipeline: Pipeline
    settings: StageSettings
    apart: set[int]
    used: Mapping[int, EndedStage]
    written: set[int] = field(default_factory=set)

    def carry_out(self, group: list[tuple[BatchItem, str]]) -> list[tuple[BatchItem, BatchItem]]:
        """Those of a group that are left out, each with the one that goes on."""
        kept, left_out = group[0][0], []
        for row, note in group:
            if row.stage != self.stage.name or row.state != ItemState.WAITING:
                continue
            ended = self.used.get(row.pk, EndedStage(self.stage.name, StageState.KEPT))
            row.cost, row.seconds = row.cost + ended.cost, row.seconds + ended.seconds
            self.written.add(row.pk)
            if row is kept or row.pk in self.apart:
                go_on(row, self.stage, self.pipeline, self.settings, replace(ended, message=note))
                continue
            message = f"It is nearly the same theme as {kept.path}, which goes on.{f' {note}' if note else ''}"
            evidence = {"kept": kept.path, "item": kept.pk} | ({"judge": note} if note else {})
            add_run(
                row,
                replace(ended, state=StageState.REJECTED, output=evidence, reason="duplicate", message=message),
            )
            leave_out(row, self.stage.name, "duplicate", message, "a near-duplicate of another theme")
            left_out.append((row, kept))
        return left_out


def go_on(
    row: BatchItem, stage: Stage, pipeline: Pipeline, settings: StageSettings, ended: EndedStage | None = None
) -> None:
    """Past the barrier. Within a transaction that holds the item."""
    following = pipeline.after(stage.name, settings, ItemSpec.model_validate(row.spec))
    add_run(row, ended or EndedStage(stage.name, StageState.KEPT))
    put_back(row, following.name if following else SAVE)
