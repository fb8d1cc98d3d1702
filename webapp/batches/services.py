"""Writes on batches that people request. Each is in the audit log; items change state in `engine/item_state.py`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from synthesis.contracts import JudgedEdges
from synthesis.drafts import ThemeDraft
from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from synthesis.prompts.trial import check_trials
from synthesis.stages import ItemSpec, Pipeline
from synthesis.themes.keys import build_theme_key, build_version_key
from webapp.accounts.access import CAPPED_ROLES
from webapp.accounts.services import write_audit_entry
from webapp.batches.engine.barriers import move_past_barrier
from webapp.batches.engine.cast import (
    fill_in_defaults,
    has_scripted_role,
    list_unpriced_models,
    needs_no_endpoint,
    require_models,
)
from webapp.batches.engine.item_state import build_item, cancel_waiting_items, return_to_stage
from webapp.batches.engine.lane_queue import has_open_items, lock_batch, start_missing_lanes, stop_batch
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
from webapp.common.events.services import publish_topics
from webapp.common.templatetags.show import counted
from webapp.environments.models import Version
from webapp.environments.services import build_record
from webapp.environments.tool_graph.services import read_known_edges

RETRIED = (ItemState.FAILED, ItemState.REJECTED, ItemState.CANCELLED)
STILL = (BatchState.PAUSED, BatchState.CAPPED, BatchState.FAILED)


def build_theme_spec(theme: ThemeDraft) -> ItemSpec:
    """Return an item that begins with a known theme: typed, a server's, a bundled one."""
    return ItemSpec(theme=theme, key=theme.key)


def build_text_spec(text: str, source: str = "") -> ItemSpec:
    """Return an item that begins with a task of the task set `source`, in which a theme is to be found."""
    return ItemSpec(text=text, source=source, key=build_theme_key("task", text))


def build_environment_spec(version: Version | int, known: Mapping[int, JudgedEdges] | None = None) -> ItemSpec:
    """Return an item that grows more onto a version of an existing environment; `known` are the edges of versions, if
    they were read for many. Raises InputError if it is gone."""
    row = version if isinstance(version, Version) else _get_version(version)
    known = read_known_edges([row.pk]) if known is None else known
    newest = max(row.assessments.all(), key=lambda assessment: assessment.pk, default=None)
    record = build_record(row)
    key = build_version_key(record.key, row.environment.source, row.content_hash)
    score = newest.score if newest else None
    return ItemSpec(environment=record, version=row.pk, score=score, edges=known.get(row.pk), key=key)


def _get_version(pk: int) -> Version:
    row = Version.objects.select_related("environment").filter(pk=pk).first()
    if row is None:
        raise InputError(f"There is no version {pk} of an environment any more. Choose another.")
    return row


def get_launch_limit() -> LaunchLimit:
    return LaunchLimit.objects.filter(pk=1).first() or LaunchLimit(pk=1)


@transaction.atomic
def set_launch_limit(user: Any, cap: float, themes: int) -> LaunchLimit:
    """Set the limits on the cost and the number of themes of an annotator's batch."""
    row, _ = LaunchLimit.objects.update_or_create(pk=1, defaults={"annotator_cap": cap, "annotator_themes": themes})
    write_audit_entry(user, "batch.limits", row, cap=cap, themes=themes)
    return row


def check_settings(user: Any, settings: BatchSettings, themes: int) -> BatchSettings:
    """Return the settings with models for every role, within this person's limits. Raises InputError.

    For a person with limits the prices are those of the endpoints, not chosen ones.
    """
    settings = fill_in_defaults(settings).model_copy(update={"prompts": check_trials(settings.prompts)})
    require_models(settings)
    settings = _apply_limits(user, settings, themes)
    if settings.cap is not None and (unknown := list_unpriced_models(settings)):
        raise InputError(
            f"A cap of {settings.cap:g} cannot be kept: the price of {', '.join(unknown)} is not known. Set its "
            "price on the page of its endpoint (0 if it is free), or launch the batch without a cap."
        )
    return settings


def _require_within_limits(user: Any, batch: Batch) -> None:
    """Raise InputError if this person has limits that the batch exceeds, no matter who launched it."""
    settings = BatchSettings.model_validate(batch.settings).model_copy(update={"cap": batch.cap})
    if getattr(user, "role", None) not in CAPPED_ROLES or needs_no_endpoint(settings):
        return
    if batch.cap is None:
        raise InputError(
            f"This batch has no spend cap, and you may spend up to {get_launch_limit().annotator_cap:g} in a batch. "
            "Ask an operator, or clone it: the clone gets a cap."
        )
    _apply_limits(user, settings, batch.items.filter(level="theme").count())
    if settings.prices:
        raise InputError(
            "This batch was launched with prices of its own, which your limit does not count with. Ask an operator, "
            "or clone it."
        )


def _apply_limits(user: Any, settings: BatchSettings, themes: int) -> BatchSettings:
    if not 1 <= themes <= MOST_THEMES:
        raise InputError(f"A batch has 1 to {MOST_THEMES:,} themes; {themes:,} were chosen.")
    if getattr(user, "role", None) not in CAPPED_ROLES:
        return settings
    limit = get_launch_limit()
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
    """Create a batch over these items, without duplicates, and start it unless `start` is false.

    Raises InputError with advice.
    """
    unique: dict[str, ItemSpec] = {}
    for spec in specs:
        unique.setdefault(spec.key, spec)
    settings = check_settings(user, settings, len(unique))
    batch = Batch.objects.create(
        name=clean_text(name).strip()[:200] or _describe_counts(unique.values()),
        settings=settings.model_dump(mode="json"),
        variant=settings.variant,
        cap=settings.cap,
        scripted=has_scripted_role(settings),
        created_by=user if getattr(user, "pk", None) else None,
        cloned_from=cloned_from,
    )
    items = [
        build_item(batch.pk, spec.key, "theme", number, spec, {"theme": pipeline.start("theme", spec)})
        for number, spec in enumerate(unique.values())
    ]
    BatchItem.objects.bulk_create(items, batch_size=500)
    write_audit_entry(user, "batch.create", batch, themes=len(items), cap=batch.cap)
    if start:
        start_batch(user, batch.pk)
        batch.refresh_from_db()
    return batch


def _describe_counts(specs: Collection[ItemSpec]) -> str:
    """Return a name such as `2 themes, 1 environment`."""
    environment_count = sum(spec.environment is not None for spec in specs)
    numbers = (("theme", len(specs) - environment_count), ("environment", environment_count))
    return ", ".join(f"{number} {what}{'s' * (number != 1)}" for what, number in numbers if number)


@transaction.atomic
def start_batch(user: Any, pk: int) -> Batch:
    """Let workers begin on a draft. Raises InputError if it has begun."""
    batch = lock_batch(pk)
    if batch.state != BatchState.DRAFT:
        raise InputError(f"Only a draft is started; this batch is {batch.state}.")
    return _run_batch(user, batch, "batch.start")


@transaction.atomic
def resume_batch(user: Any, pk: int, cap: float | None = None) -> Batch:
    """Resume a stopped batch; a capped one needs a higher cap. Raises InputError."""
    batch = lock_batch(pk)
    if batch.state not in STILL:
        raise InputError(f"Only a paused, capped or failed batch can be resumed; this one is {batch.state}.")
    if cap is not None:
        settings = BatchSettings.model_validate(batch.settings).model_copy(update={"cap": cap})
        themes = batch.items.filter(level="theme").count()
        batch.settings = check_settings(user, settings, themes).model_dump(mode="json")
        batch.cap = cap
    sure = batch.spent + batch.assumed
    if batch.cap is not None and sure >= batch.cap and not _has_free_cap(batch):
        raise InputError(f"{sure:.4f} of the cap of {batch.cap:g} is spent. Give a higher cap to go on.")
    return _run_batch(user, batch, "batch.resume")


@transaction.atomic
def resume_after_endpoint(endpoint: str) -> int:
    """Resume every batch that waits for this endpoint, which answers again; return their number."""
    waiting = list(
        Batch.objects.filter(away=endpoint, state=BatchState.PAUSED).order_by("pk").values_list("pk", flat=True)
    )
    for pk in waiting:
        batch = lock_batch(pk)
        if batch.away != endpoint or batch.state != BatchState.PAUSED:
            continue
        try:
            _run_batch(None, batch, "batch.endpoint_back", endpoint=endpoint)
        except InputError as error:  # a model is gone meanwhile: a person has to choose another
            batch.state, batch.note, batch.away = BatchState.PAUSED, str(error), ""
            batch.save(update_fields=["state", "note", "away"])
    return len(waiting)


def _has_free_cap(batch: Batch) -> bool:
    return batch.spent + batch.assumed == 0 and batch.cap == 0


@transaction.atomic
def pause_batch(user: Any, pk: int) -> Batch:
    """Stop soon: calls in flight end and are stored, nothing new begins. A batch that waits for an endpoint no longer
    resumes by itself. Raises InputError."""
    batch = lock_batch(pk)
    if batch.state == BatchState.PAUSED and batch.away:
        batch.note, batch.away = "", ""
        batch.save(update_fields=["note", "away"])
        return _audit_and_publish(user, batch, "batch.pause")
    if not stop_batch(pk, BatchState.PAUSED, ""):
        raise InputError(f"Only a running batch is paused; this one is {lock_batch(pk).state}.")
    return _audit_and_publish(user, lock_batch(pk), "batch.pause")


@transaction.atomic
def cancel_batch(user: Any, pk: int) -> Batch:
    """End the batch: kept items stay, waiting ones are cancelled. Raises InputError if it has ended."""
    batch = lock_batch(pk)
    if batch.state in (BatchState.DONE, BatchState.CANCELLED):
        raise InputError(f"This batch has ended: it is {batch.state}.")
    batch.state, batch.note, batch.away, batch.finished_at = BatchState.CANCELLED, "", "", timezone.now()
    batch.save(update_fields=["state", "note", "away", "finished_at"])
    cancel_waiting_items(pk)
    return _audit_and_publish(user, batch, "batch.cancel")


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
    """Retry one item, those that ended in a stage or ended alike, or all that failed. The batch runs again.

    Replies that led to the failure are set aside; kept stages stay. Return the number of items; raise InputError if
    there are none.
    """
    batch = lock_batch(pk)
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
        _retry_item(row)
    _run_batch(user, batch, "batch.retry", items=len(items), item=item, stage=stage)
    return len(items)


def _retry_item(row: BatchItem) -> None:
    run = StageRun.objects.filter(item=row, stage=row.stage).exclude(state=StageState.KEPT).first()
    if run is not None:
        _set_replies_aside(run)
    return_to_stage(row, row.stage)


def _set_replies_aside(run: StageRun) -> None:
    """Set the replies aside that led to a stage's end, so that they are not replayed: for a rejection all of them, for
    a failure those of the failed question."""
    calls = LLMCall.objects.filter(key__in=run.calls, state=CallState.DONE)
    fault = LLMCall.objects.filter(key=run.call_key).first() if run.call_key else None
    if run.state == StageState.REJECTED:
        calls.update(state=CallState.ASIDE)
    elif fault is not None:
        same = calls.filter(path=fault.path, role=fault.role, stage=fault.stage, sample=fault.sample)
        same.update(state=CallState.ASIDE)


@transaction.atomic
def keep_duplicate(user: Any, pk: int, item: int, pipeline: Pipeline) -> None:
    """Let a theme continue that was left out as a near-duplicate. Raises InputError."""
    batch = lock_batch(pk)
    row = batch.items.select_for_update(of=("self",), no_key=True).filter(pk=item).first()
    barrier = next((stage for stage in pipeline.stages if row and stage.name == row.stage and stage.group), None)
    if row is None or barrier is None or row.state != ItemState.REJECTED:
        raise InputError("Only a theme that was left out as a near-duplicate can be kept all the same.")
    keep_theme_apart(row, user)
    move_past_barrier(row, barrier, pipeline, BatchSettings.model_validate(batch.settings).stages)
    _run_batch(user, batch, "batch.keep_duplicate", item=item)


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
    """Create a batch with other settings over the items that another began with: all of them, or those with the numbers
    `items`. Raises InputError, Batch.DoesNotExist."""
    origin = Batch.objects.get(pk=pk)
    rows = origin.items.filter(level="theme").order_by("position", "id")
    if items is not None:
        if unknown_items := set(items) - set(rows.values_list("pk", flat=True)):
            raise InputError(
                f"Batch {pk} did not begin with item {min(unknown_items)}. List its items of the level theme."
            )
        rows = rows.filter(pk__in=items)
    specs = _renew_edges([ItemSpec.model_validate(spec) for spec in rows.values_list("spec", flat=True)])
    called = name or f"{origin.name} (again)"
    return create_batch(user, called, specs, settings, pipeline, start=start, cloned_from=origin)


def _renew_edges(specs: Sequence[ItemSpec]) -> list[ItemSpec]:
    """Return the items with the currently known edges of their environments."""
    known_edges = read_known_edges(spec.version for spec in specs if spec.version)
    return [
        spec.model_copy(update={"edges": known_edges.get(spec.version)}) if spec.version else spec for spec in specs
    ]


def _run_batch(user: Any, batch: Batch, action: str, **detail: Any) -> Batch:
    """Set a batch to running and start its lanes. Within a transaction that holds the batch. Raises InputError if a
    model is gone, or beyond a limit."""
    require_models(BatchSettings.model_validate(batch.settings))
    _require_within_limits(user, batch)
    now = timezone.now()
    batch.state, batch.note, batch.away, batch.finished_at = BatchState.RUNNING, "", "", None
    batch.started_at = batch.started_at or now
    if not has_open_items(batch.pk):
        batch.state, batch.finished_at = BatchState.DONE, now
    batch.save()
    if batch.state == BatchState.RUNNING:
        start_missing_lanes(batch, user)
    return _audit_and_publish(user, batch, action, **detail)


def _audit_and_publish(user: Any, batch: Batch, action: str, **detail: Any) -> Batch:
    write_audit_entry(user, action, batch, **detail)
    pk = batch.pk
    transaction.on_commit(lambda: publish_topics([f"batch:{pk}"]))
    return batch
