"""Retention: removal of old checkpoints and rollouts, unfinished uploads and workers that are gone."""

from __future__ import annotations

import contextlib
import time
from datetime import timedelta

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import transaction
from django.utils import timezone

from synthesis.errors import InputError
from webapp.runs.checkpoint_files import get_model_parts
from webapp.runs.models import (
    OPEN_STATES,
    Checkpoint,
    CheckpointState,
    RolloutFile,
    TrainingJob,
    TrainingState,
)
from webapp.workers import registration
from webapp.workers.checkpoint_uploads import drop_checkpoint, open_incoming_folder, remove_files
from webapp.workers.models import OPEN_DEPLOYMENTS

AT_ONCE = 500
KEPT_BY_DEFAULT = 3
ABANDONED = timedelta(days=1)


def prune_expired() -> int:
    """Remove what is past its retention; return how many checkpoints, files of attempts and workers were removed."""
    return (
        registration.forget_workers()
        + _delete_old_checkpoints()
        + _delete_abandoned_uploads()
        + _delete_old_rollouts()
        + _delete_orphaned_parts()
    )


def prune_checkpoints(job: TrainingJob) -> int:
    """Keep the last checkpoints (`limits.checkpoints_kept`), those that jobs wait to begin with, and those served."""
    kept = job.config.get("limits", {}).get("checkpoints_kept", KEPT_BY_DEFAULT)
    rows = Checkpoint.objects.filter(job=job, state=CheckpointState.READY, final=False)
    last = rows.filter(superseded=False).order_by("-step", "-attempt").values_list("pk", flat=True)[:kept]
    return _delete_checkpoints(rows.exclude(pk__in=list(last)))


def _delete_checkpoints(rows: object) -> int:
    gone, awaited = 0, _get_awaited_adapters()
    for row in list(rows.select_related("job")[:AT_ONCE]):  # type: ignore[attr-defined]
        named = f"ft:{row.job.public_id}:step-{row.step}"
        if row.pk in awaited or TrainingJob.objects.filter(model=named, state__in=OPEN_STATES).exists():
            continue
        if row.deployments.filter(state__in=OPEN_DEPLOYMENTS).exists():
            continue
        with transaction.atomic():
            held = TrainingJob.objects.select_for_update(of=("self",), no_key=True).get(pk=row.job_id)
            if held.state == TrainingState.RUNNING and _is_being_resumed(held, row):
                continue
            remove_files(row)
            Checkpoint.objects.filter(pk=row.pk).update(state=CheckpointState.DELETED)
        gone += 1
    return gone


def _get_awaited_adapters() -> set[int]:
    """Return the keys of adapters of earlier jobs that open jobs begin with, also those that other adapters build
    on."""
    pks: set[int] = set()
    for job in TrainingJob.objects.filter(model__contains=":step-", state__in=OPEN_STATES)[:AT_ONCE]:
        with contextlib.suppress(InputError):
            pks |= {checkpoint.pk for checkpoint in get_model_parts(job).checkpoints}
    return pks


def _is_being_resumed(job: TrainingJob, row: Checkpoint) -> bool:
    """Return whether the worker may be fetching the checkpoint: nothing was recorded yet behind it."""
    attempt = job.attempts.filter(number=job.attempt).first()
    return attempt is not None and attempt.from_step == row.step and attempt.next_seq == 1


def _delete_old_checkpoints() -> int:
    before = timezone.now() - timedelta(days=settings.TRAINING_CHECKPOINTS_DAYS)
    ended = Checkpoint.objects.filter(state=CheckpointState.READY, final=False, job__finished_at__lt=before)
    return _delete_checkpoints(ended.exclude(job__state__in=OPEN_STATES).order_by("pk"))


def _delete_abandoned_uploads() -> int:
    """Delete uploads whose attempt has ended."""
    before = timezone.now() - ABANDONED
    rows = Checkpoint.objects.filter(state=CheckpointState.UPLOADING, created_at__lt=before).select_related("job")
    gone = 0
    for row in rows.order_by("pk")[:AT_ONCE]:
        if row.job.state == TrainingState.RUNNING and row.job.attempt == row.attempt:
            continue
        with transaction.atomic():
            drop_checkpoint(row)
        gone += 1
    return gone


def _delete_old_rollouts() -> int:
    before = timezone.now() - timedelta(days=settings.TRAINING_ROLLOUTS_DAYS)
    rows = RolloutFile.objects.filter(created_at__lt=before).exclude(stored="").order_by("pk")
    gone = 0
    for row in rows[:AT_ONCE]:
        RolloutFile.objects.filter(pk=row.pk).update(stored="")
        default_storage.delete(row.stored)
        gone += 1
    return gone


def _delete_orphaned_parts() -> int:
    """Delete files of uploads whose rows are gone."""
    before = time.time() - 7 * ABANDONED.total_seconds()
    old = [path for path in open_incoming_folder().iterdir() if path.stat().st_mtime < before]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)
