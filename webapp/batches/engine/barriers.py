"""Barriers: stages where items wait for each other, such as near-duplicates among all of a batch's themes."""

from __future__ import annotations

from django.db import transaction

from synthesis.stages import ItemSpec, Pipeline, Stage, StageSettings
from webapp.batches.engine.item_state import OPEN, leave_out, put_back
from webapp.batches.engine.lane_jobs import lock
from webapp.batches.engine.near_duplicates import kept_apart, tell_duplicates
from webapp.batches.engine.stage_runs import SAVE, EndedStage, add_run
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


def pass_barrier(batch: int, pipeline: Pipeline, settings: StageSettings) -> bool:
    """Let the first of each group go on, reject the others. False where there was nothing to do.

    Grouping takes its time, so nothing is locked for it. What is decided is decided under the batch's lock, and only
    where the same items still stand there: else the next look groups anew. Items that went on earlier (before a
    retry) stay: what is like them is a duplicate.
    """
    stage = due(batch, pipeline)
    if stage is None:
        return False
    assert stage.group is not None
    places = _standing(batch, stage)
    drafts = _drafts(pipeline, stage, places)
    groups = stage.group(settings, drafts)
    with transaction.atomic():
        row = lock(batch)
        if due(batch, pipeline) != stage or row.state != BatchState.RUNNING:
            return False
        rows = BatchItem.objects.select_for_update(of=("self",), no_key=True).order_by("id").in_bulk(places)
        if _standing(batch, stage) != places:
            return True
        items = [rows[pk] for pk in places]
        apart = kept_apart(items)
        left_out = []
        for group in groups:
            left_out += _decide(stage, pipeline, settings, [items[index] for index in group], apart)
        tell_duplicates(row, left_out)
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


def _decide(
    stage: Stage, pipeline: Pipeline, settings: StageSettings, group: list[BatchItem], apart: set[int]
) -> list[tuple[BatchItem, BatchItem]]:
    """Those that are left out, each with the one that goes on."""
    kept, left_out = group[0], []
    for row in group:
        if row.stage != stage.name or row.state != ItemState.WAITING:
            continue
        if row is kept or row.pk in apart:
            go_on(row, stage, pipeline, settings)
            continue
        message = f"It is nearly the same theme as {kept.path}, which goes on."
        evidence = {"kept": kept.path, "item": kept.pk}
        add_run(row, EndedStage(stage.name, StageState.REJECTED, evidence, "duplicate", message))
        leave_out(row, stage.name, "duplicate", message, "a near-duplicate of another theme")
        left_out.append((row, kept))
    return left_out


def go_on(row: BatchItem, stage: Stage, pipeline: Pipeline, settings: StageSettings) -> None:
    """Past the barrier. Within a transaction that holds the item."""
    following = pipeline.after(stage.name, settings, ItemSpec.model_validate(row.spec))
    add_run(row, EndedStage(stage.name, StageState.KEPT))
    put_back(row, following.name if following else SAVE)
