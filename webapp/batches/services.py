"""Writes on batches that people ask for. Each is in the audit log; items change state in `engine/item_state.py`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from synthesis.drafts import ThemeDraft
from synthesis.errors import InputError
from synthesis.formats.values import clean
from synthesis.prompts.trial import checked_trials
from synthesis.stages import ItemSpec, Pipeline
from synthesis.themes.keys import theme_key, version_key
from webapp.accounts.access import CAPPED_ROLES
from webapp.accounts.services import audit
from webapp.batches.engine.barriers import go_on
from webapp.batches.engine.cast import asks_nobody, is_scripted, require_models, unpriced_models, with_defaults
from webapp.batches.engine.item_state import cancel_waiting, new_item, put_back
from webapp.batches.engine.lane_jobs import is_unfinished, launch, lock, stand_still
from webapp.batches.engine.near_duplicates import keep_theme_apart
from webapp.batches.models import (
    Batch,
    BatchItem,
    BatchState,
    CallState,
    ItemState,
    LaunchLimit,
    LLMCall,
    StageRun,
    StageState,
)
from webapp.batches.spec import MOST_THEMES, BatchSettings
from webapp.environments.models import Version
from webapp.environments.services import record_of
from webapp.events.services import publish
from webapp.templatetags.show import counted

RETRIED = (ItemState.FAILED, ItemState.REJECTED, ItemState.CANCELLED)
STILL = (BatchState.PAUSED, BatchState.CAPPED, BatchState.FAILED)


def of_theme(theme: ThemeDraft) -> ItemSpec:
    """An item that begins with a theme that is known: typed, a server's, a bundled one."""
    return ItemSpec(theme=theme, key=theme.key)


def of_text(text: str, source: str = "") -> ItemSpec:
    """An item that begins with a task of the task set `source`, in which a theme is to be found."""
    return ItemSpec(text=text, source=source, key=theme_key("task", text))


def of_environment(version: Version | int) -> ItemSpec:
    """An item that grows more onto a version of an environment that is there. Raises InputError where it is gone."""
    row = version if isinstance(version, Version) else _version(version)
    newest = max(row.assessments.all(), key=lambda assessment: assessment.pk, default=None)
    record = record_of(row)
    key = version_key(record.key, row.environment.source, row.content_hash)
    return ItemSpec(environment=record, version=row.pk, score=newest.score if newest else None, key=key)


def _version(pk: int) -> Version:
    row = Version.objects.select_related("environment").filter(pk=pk).first()
    if row is None:
        raise InputError(f"There is no version {pk} of an environment any more. Choose another.")
    return row


def limits() -> LaunchLimit:
    return LaunchLimit.objects.filter(pk=1).first() or LaunchLimit(pk=1)


@transaction.atomic
def set_limits(user: Any, cap: float, themes: int) -> LaunchLimit:
    """What a batch of an annotator may cost at most, and how many themes it may have."""
    row, _ = LaunchLimit.objects.update_or_create(pk=1, defaults={"annotator_cap": cap, "annotator_themes": themes})
    audit(user, "batch.limits", row, cap=cap, themes=themes)
    return row


def allowed(user: Any, settings: BatchSettings, themes: int) -> BatchSettings:
    """The settings with models for every role, within what this person may launch. Raises InputError.

    Who is held to a limit is not asked what models cost: prices are then those of the endpoints.
    """
    settings = with_defaults(settings).model_copy(update={"prompts": checked_trials(settings.prompts)})
    require_models(settings)
    settings = _within(user, settings, themes)
    if settings.cap is not None and (unknown := unpriced_models(settings)):
        raise InputError(
            f"A cap of {settings.cap:g} could not be kept: nobody has said what {', '.join(unknown)} costs. Set its "
            "price on the page of its endpoint (0 where it is free), or have it launched without a cap."
        )
    return settings


def _require_within(user: Any, batch: Batch) -> None:
    """Who is held to a limit lets no batch go on that is beyond it, whoever launched it. Raises InputError."""
    settings = BatchSettings.model_validate(batch.settings).model_copy(update={"cap": batch.cap})
    if getattr(user, "role", None) not in CAPPED_ROLES or asks_nobody(settings):
        return
    if batch.cap is None:
        raise InputError(
            f"This batch has no spend cap, and you may spend up to {limits().annotator_cap:g} in a batch. Ask an "
            "operator, or clone it: the clone gets a cap."
        )
    _within(user, settings, batch.items.filter(level="theme").count())
    if settings.prices:
        raise InputError(
            "This batch was launched with prices of its own, which your limit does not count with. Ask an operator, "
            "or clone it."
        )


def _within(user: Any, settings: BatchSettings, themes: int) -> BatchSettings:
    if not 1 <= themes <= MOST_THEMES:
        raise InputError(f"A batch has 1 to {MOST_THEMES:,} themes; {themes:,} were chosen.")
    if getattr(user, "role", None) not in CAPPED_ROLES:
        return settings
    limit = limits()
    if themes > limit.annotator_themes:
        raise InputError(
            f"You may launch up to {counted(limit.annotator_themes, 'theme')} at once; {themes} were chosen."
        )
    if settings.cap is not None and settings.cap > limit.annotator_cap:
        raise InputError(f"You may spend up to {limit.annotator_cap:g} in a batch; the cap asked for {settings.cap:g}.")
    cap = limit.annotator_cap if settings.cap is None else settings.cap
    return settings.model_copy(update={"cap": cap, "prices": {}})


@transaction.atomic
def create_batch(
    user: Any,
    name: str,
    specs: Sequence[ItemSpec],
    settings: BatchSettings,
    pipeline: Pipeline,
    *,
    start: bool = True,
    cloned_from: Batch | None = None,
) -> Batch:
    """A batch over these themes, one item each; equal ones are one. Started at once unless `start` is false.

    Raises InputError, which says what to do.
    """
    unique: dict[str, ItemSpec] = {}
    for spec in specs:
        unique.setdefault(spec.key, spec)
    settings = allowed(user, settings, len(unique))
    batch = Batch.objects.create(
        name=clean(name).strip()[:200] or _counted(unique.values()),
        settings=settings.model_dump(mode="json"),
        variant=settings.variant,
        cap=settings.cap,
        scripted=is_scripted(settings),
        created_by=user if getattr(user, "pk", None) else None,
        cloned_from=cloned_from,
    )
    items = [
        new_item(batch.pk, spec.key, "theme", number, spec, {"theme": pipeline.start("theme", spec)})
        for number, spec in enumerate(unique.values())
    ]
    BatchItem.objects.bulk_create(items, batch_size=500)
    audit(user, "batch.create", batch, themes=len(items), cap=batch.cap)
    if start:
        start_batch(user, batch.pk)
        batch.refresh_from_db()
    return batch


def _counted(specs: Collection[ItemSpec]) -> str:
    """`2 themes, 1 environment`."""
    there = sum(spec.environment is not None for spec in specs)
    numbers = (("theme", len(specs) - there), ("environment", there))
    return ", ".join(f"{number} {what}{'s' * (number != 1)}" for what, number in numbers if number)


@transaction.atomic
def start_batch(user: Any, pk: int) -> Batch:
    """Let workers begin on a draft. Raises InputError where it has begun."""
    batch = lock(pk)
    if batch.state != BatchState.DRAFT:
        raise InputError(f"Only a draft is started; this batch is {batch.state}.")
    return _run(user, batch, "batch.start")


@transaction.atomic
def resume_batch(user: Any, pk: int, cap: float | None = None) -> Batch:
    """Go on where the batch stood still; a capped one needs a higher cap. Raises InputError."""
    batch = lock(pk)
    if batch.state not in STILL:
        raise InputError(f"Only a batch that stands still is resumed; this one is {batch.state}.")
    if cap is not None:
        settings = BatchSettings.model_validate(batch.settings).model_copy(update={"cap": cap})
        themes = batch.items.filter(level="theme").count()
        batch.settings = allowed(user, settings, themes).model_dump(mode="json")
        batch.cap = cap
    sure = batch.spent + batch.assumed
    if batch.cap is not None and sure >= batch.cap and not _free(batch):
        raise InputError(f"{sure:.4f} of the cap of {batch.cap:g} is spent. Give a higher cap to go on.")
    return _run(user, batch, "batch.resume")


@transaction.atomic
def resume_after(endpoint: str) -> int:
    """Let every batch go on that waits for this endpoint, which answers again. Gives how many."""
    waiting = list(
        Batch.objects.filter(away=endpoint, state=BatchState.PAUSED).order_by("pk").values_list("pk", flat=True)
    )
    for pk in waiting:
        batch = lock(pk)
        if batch.away != endpoint or batch.state != BatchState.PAUSED:
            continue
        try:
            _run(None, batch, "batch.endpoint_back", endpoint=endpoint)
        except InputError as error:  # a model is gone meanwhile: a person has to choose another
            batch.state, batch.note, batch.away = BatchState.PAUSED, str(error), ""
            batch.save(update_fields=["state", "note", "away"])
    return len(waiting)


def _free(batch: Batch) -> bool:
    return batch.spent + batch.assumed == 0 and batch.cap == 0


@transaction.atomic
def pause_batch(user: Any, pk: int) -> Batch:
    """Stop soon: calls in flight end and are stored, nothing new begins. One that waits for an endpoint does not go on
    by itself any more. Raises InputError."""
    batch = lock(pk)
    if batch.state == BatchState.PAUSED and batch.away:
        batch.note, batch.away = "", ""
        batch.save(update_fields=["note", "away"])
        return _told(user, batch, "batch.pause")
    if not stand_still(pk, BatchState.PAUSED, ""):
        raise InputError(f"Only a running batch is paused; this one is {lock(pk).state}.")
    return _told(user, lock(pk), "batch.pause")


@transaction.atomic
def cancel_batch(user: Any, pk: int) -> Batch:
    """End the batch: what is kept stays, what waits is cancelled. Raises InputError where it has ended."""
    batch = lock(pk)
    if batch.state in (BatchState.DONE, BatchState.CANCELLED):
        raise InputError(f"This batch has ended: it is {batch.state}.")
    batch.state, batch.note, batch.away, batch.finished_at = BatchState.CANCELLED, "", "", timezone.now()
    batch.save(update_fields=["state", "note", "away", "finished_at"])
    cancel_waiting(pk)
    return _told(user, batch, "batch.cancel")


@transaction.atomic
def retry_items(
    user: Any,
    pk: int,
    *,
    item: int | None = None,
    stage: str = "",
    signature: str = "",
    states: Sequence[str] = (ItemState.FAILED,),
) -> int:
    """Try again: one item, those that ended in a stage or ended alike, or all that failed. The batch runs again.

    Replies that led to the failure are set aside; what was kept stays. Gives how many. Raises InputError where none.
    """
    batch = lock(pk)
    if batch.state == BatchState.CANCELLED and item is None and ItemState.CANCELLED not in states:
        states = (*states, ItemState.CANCELLED)
    rows = batch.items.select_for_update(of=("self",), no_key=True).order_by("id")
    chosen = rows.filter(pk=item, state__in=RETRIED) if item is not None else rows.filter(state__in=states)
    chosen = chosen.filter(stage=stage) if stage else chosen
    chosen = chosen.filter(signature=signature) if signature else chosen
    items = list(chosen)
    if not items:
        raise InputError("There is nothing to try again: no such item has failed or was rejected.")
    for row in items:
        _again(row)
    _run(user, batch, "batch.retry", items=len(items), item=item, stage=stage)
    return len(items)


def _again(row: BatchItem) -> None:
    run = StageRun.objects.filter(item=row, stage=row.stage).exclude(state=StageState.KEPT).first()
    if run is not None:
        _set_aside(run)
    put_back(row, row.stage)


def _set_aside(run: StageRun) -> None:
    """The replies that a stage's end came of are not given again: of a rejection all of them, of a failure those of the
    question that failed."""
    calls = LLMCall.objects.filter(key__in=run.calls, state=CallState.DONE)
    fault = LLMCall.objects.filter(key=run.call_key).first() if run.call_key else None
    if run.state == StageState.REJECTED:
        calls.update(state=CallState.ASIDE)
    elif fault is not None:
        same = calls.filter(path=fault.path, role=fault.role, stage=fault.stage, sample=fault.sample)
        same.update(state=CallState.ASIDE)


@transaction.atomic
def keep_duplicate(user: Any, pk: int, item: int, pipeline: Pipeline) -> None:
    """Let a theme go on that was left out as a near-duplicate. Raises InputError."""
    batch = lock(pk)
    row = batch.items.select_for_update(of=("self",), no_key=True).filter(pk=item).first()
    barrier = next((stage for stage in pipeline.stages if row and stage.name == row.stage and stage.group), None)
    if row is None or barrier is None or row.state != ItemState.REJECTED:
        raise InputError("Only a theme that was left out as a near-duplicate can be kept all the same.")
    keep_theme_apart(row, user)
    go_on(row, barrier, pipeline, BatchSettings.model_validate(batch.settings).stages)
    _run(user, batch, "batch.keep_duplicate", item=item)


def clone_batch(
    user: Any,
    pk: int,
    settings: BatchSettings,
    pipeline: Pipeline,
    *,
    name: str = "",
    items: Collection[int] | None = None,
    start: bool = True,
) -> Batch:
    """A new batch with other settings over the items that another began with: all of them, or those with the numbers
    `items`. Raises InputError, Batch.DoesNotExist."""
    origin = Batch.objects.get(pk=pk)
    rows = origin.items.filter(level="theme").order_by("position", "id")
    if items is not None:
        if gone := set(items) - set(rows.values_list("pk", flat=True)):
            raise InputError(f"Batch {pk} did not begin with item {min(gone)}. List its items of the level theme.")
        rows = rows.filter(pk__in=items)
    specs = [ItemSpec.model_validate(spec) for spec in rows.values_list("spec", flat=True)]
    called = name or f"{origin.name} (again)"
    return create_batch(user, called, specs, settings, pipeline, start=start, cloned_from=origin)


def _run(user: Any, batch: Batch, action: str, **detail: Any) -> Batch:
    """Within a transaction that holds the batch. Raises InputError where a model is gone, or beyond a limit."""
    require_models(BatchSettings.model_validate(batch.settings))
    _require_within(user, batch)
    now = timezone.now()
    batch.state, batch.note, batch.away, batch.finished_at = BatchState.RUNNING, "", "", None
    batch.started_at = batch.started_at or now
    if not is_unfinished(batch.pk):
        batch.state, batch.finished_at = BatchState.DONE, now
    batch.save()
    if batch.state == BatchState.RUNNING:
        launch(batch, user)
    return _told(user, batch, action, **detail)


def _told(user: Any, batch: Batch, action: str, **detail: Any) -> Batch:
    audit(user, action, batch, **detail)
    pk = batch.pk
    transaction.on_commit(lambda: publish([f"batch:{pk}"]))
    return batch
