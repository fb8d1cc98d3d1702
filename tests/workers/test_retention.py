"""What is let go of: checkpoints beyond those kept, what is old; and what stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import transaction
from django.test import TestCase
from django.utils import timezone

from tests.workers import worker_support as support
from tests.workers.test_checkpoint_uploads import begin, rollouts, upload
from tests.workers.worker_support import blob, checkpoint_files, claimed, step_lines, take, values
from webapp.runs import transitions
from webapp.runs.models import (
    Checkpoint,
    CheckpointFile,
    CheckpointState,
    RolloutFile,
    RunRollout,
    TrainingJob,
    TrainingState,
)
from webapp.workers import claims, retention

pytestmark = pytest.mark.django_db


def test_checkpoints_beyond_those_kept_are_let_go() -> None:
    job, _, _ = claimed()
    job.config["limits"]["checkpoints_kept"] = 2
    job.save()
    waits = support.queued(model=f"ft:{job.public_id}:step-1")
    with TestCase.captureOnCommitCallbacks(execute=True):
        rows = {step: upload(job, step) for step in (1, 2, 3, 4)}
        upload(job, 4, final=True)
        stored = rows[2].files.get(path="model.safetensors").stored
        assert default_storage.exists(stored)
        assert retention.prune_checkpoints(job) == 1
    states = dict(Checkpoint.objects.filter(final=False).values_list("step", "state"))
    assert states == {1: "ready", 2: "deleted", 3: "ready", 4: "ready"}, "another job waits for the first"
    assert not default_storage.exists(stored)
    assert Checkpoint.objects.get(final=True).state == CheckpointState.READY
    waits.state = TrainingState.CANCELLED
    waits.save()
    assert retention.prune_checkpoints(job) == 1


def test_adapters_that_others_lie_upon_stay_while_a_job_waits_for_them() -> None:
    above, long_ago = "mine-7B", timezone.now() - timedelta(days=400)
    for step in (1, 2):
        job, _, _ = claimed()
        names = {"adapter_config.json": b"{}", "adapter_model.safetensors": support.weights()}
        with TestCase.captureOnCommitCallbacks(execute=True):
            upload(job, step, files=names)
        ended = {"state": TrainingState.SUCCEEDED, "finished_at": long_ago}
        TrainingJob.objects.filter(pk=job.pk).update(model=above, **ended)
        above = f"ft:{job.public_id}:step-{step}"
    waits = support.queued(model=above)
    retention.prune_expired()
    assert Checkpoint.objects.filter(state=CheckpointState.READY).count() == 2
    TrainingJob.objects.filter(pk=waits.pk).update(state=TrainingState.CANCELLED)
    retention.prune_expired()
    assert Checkpoint.objects.filter(state=CheckpointState.DELETED).count() == 2


def test_what_is_old_is_let_go_and_rows_stay(settings: Any) -> None:
    job, _, _ = claimed()
    rollouts(job, blob(step_lines()))
    upload(job, 2)
    upload(job, 4, final=True)
    half = begin(job, checkpoint_files(3), step=3)
    assert retention.prune_expired() == 0
    long_ago = timezone.now() - timedelta(days=400)
    RolloutFile.objects.update(created_at=long_ago)
    Checkpoint.objects.update(created_at=long_ago)
    stored = RolloutFile.objects.get().stored
    assert retention.prune_expired() == 1, "a job that runs keeps its checkpoints, and goes on with its upload"
    assert not default_storage.exists(stored)
    assert (RolloutFile.objects.get().stored, RunRollout.objects.count()) == ("", 4)
    take(job, [values(1, 4, loss=1.0)])
    claims.end_attempt(job.public_id, 1, transitions.AttemptEnding("done"))
    TrainingJob.objects.update(finished_at=long_ago)
    assert retention.prune_expired() == 2
    assert not Checkpoint.objects.filter(pk=half.pk).exists()
    assert dict(Checkpoint.objects.values_list("step", "state")) == {2: "deleted", 4: "ready"}


def test_a_checkpoint_that_its_worker_is_fetching_stays() -> None:
    job, _, _ = claimed()
    for step in (1, 2, 3, 4):
        upload(job, step)
    with transaction.atomic():
        held, attempt = claims.require_attempt(job.public_id, 1, lock=True)
        transitions.lose_attempt(held, attempt, "Lost.")
    Checkpoint.objects.filter(step__gt=1).update(state=CheckpointState.UPLOADING)
    job, told, _ = claimed(job)
    assert told.resume is not None
    assert told.resume.step == 1
    Checkpoint.objects.update(state=CheckpointState.READY)
    assert retention.prune_checkpoints(job) == 0
    support.take(job, support.course(1, 1))
    assert retention.prune_checkpoints(job) == 3, "those behind it were superseded"
    assert dict(Checkpoint.objects.values_list("step", "state"))[1] == "ready"
    assert CheckpointFile.objects.filter(checkpoint__step=2, stored="").count() == 3
