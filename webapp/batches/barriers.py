"""Where items of a level wait for each other: near-duplicates are found among all of a batch's themes."""

from __future__ import annotations

from django.db import transaction

from synthesis.stages import Pipeline, Stage, StageSettings
from webapp.batches.bodies import unpack
from webapp.batches.claims import OPEN, SAVE, Ended, add_run
from webapp.batches.launching import lock
from webapp.batches.models import BatchItem, BatchState, ItemState, StageRun, StageState
from webapp.batches.signatures import signature_of


def due(batch: int, pipeline: Pipeline) -> Stage | None:
    """A barrier where items wait and that no item is still on its way to."""
    for stage in pipeline.stages:
        if stage.group is None:
            continue
        own = [one.name for one in pipeline.of(stage.level)]
        before = own[: own.index(stage.name)]
        items = BatchItem.objects.filter(batch_id=batch, level=stage.level)
        waiting = items.filter(state=ItemState.WAITING, stage=stage.name)
        if waiting.exists() and not items.filter(state__in=OPEN, stage__in=before).exists():
            return stage
    return None


def pass_barrier(batch: int, pipeline: Pipeline, settings: StageSettings) -> bool:
    """Let the first of each group go on, reject the others. False where there was nothing to do.

    The batch's row is held all the time, so that two lanes never decide at once. Items that went on earlier (before a
    retry) stay: what is like them is a duplicate.
    """
    with transaction.atomic():
        row = lock(batch)
        stage = due(batch, pipeline)
        if stage is None or row.state != BatchState.RUNNING:
            return False
        items, drafts = _all(batch, pipeline, stage)
        assert stage.group is not None
        for group in stage.group(settings, drafts):
            _decide(stage, pipeline, [items[index] for index in group])
    return True


def _all(batch: int, pipeline: Pipeline, stage: Stage) -> tuple[list[BatchItem], list[object]]:
    """Items that wait here or passed here, those that passed first, each with the draft the barrier compares by."""
    (name,) = stage.takes
    wanted = pipeline.stage(name).gives
    assert wanted is not None
    runs = StageRun.objects.filter(item__batch_id=batch, item__level=stage.level, stage=name, state=StageState.KEPT)
    drafts = {pk: wanted.model_validate(unpack(body)) for pk, body in runs.values_list("item", "output__body")}
    passed = StageRun.objects.filter(item__batch_id=batch, stage=stage.name, state=StageState.KEPT)
    early = set(passed.values_list("item", flat=True))
    rows = BatchItem.objects.select_for_update(of=("self",)).filter(pk__in=drafts).order_by("position", "id")
    items = [row for row in rows if row.pk in early or (row.stage == stage.name and row.state == ItemState.WAITING)]
    items.sort(key=lambda row: row.pk not in early)
    return items, [drafts[row.pk] for row in items]


def _decide(stage: Stage, pipeline: Pipeline, group: list[BatchItem]) -> None:
    kept = group[0]
    for row in group:
        if row.stage != stage.name or row.state != ItemState.WAITING:
            continue
        if row is kept:
            go_on(row, stage, pipeline)
            continue
        message = f"It is nearly the same theme as {kept.path}, which goes on."
        evidence = {"kept": kept.path, "item": kept.pk}
        add_run(row, Ended(stage.name, StageState.REJECTED, evidence, "duplicate", message))
        row.state, row.reason, row.message = ItemState.REJECTED, "duplicate", message
        row.signature = signature_of(stage.name, "duplicate", "a near-duplicate of another theme")
        row.save()


def go_on(row: BatchItem, stage: Stage, pipeline: Pipeline) -> None:
    """Past the barrier. Within a transaction that holds the item."""
    following = pipeline.after(stage.name)
    add_run(row, Ended(stage.name, StageState.KEPT))
    row.stage = following.name if following else SAVE
    row.state, row.reason, row.message, row.signature = ItemState.WAITING, "", "", ""
    row.save()
