"""Verification of a sample of rollouts by executing them again; what differs is quarantined."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from synthesis.contracts import UNCOUNTED
from synthesis.errors import FormatError, InputError
from synthesis.runtime import Sandbox
from webapp.jobs.models import Job, JobState
from webapp.jobs.queries import of_subject
from webapp.jobs.services import create
from webapp.runs.models import RolloutFile, RunRollout, TrainingEvent, TrainingJob
from webapp.runs.rollouts import rollout_file
from webapp.runs.rollouts.rollout_replay import execute, revision_of
from webapp.runs.topics import tell_job

KIND = "verify_rollouts"
FILES_A_JOB = 200
EVERY = timedelta(minutes=2)


@dataclass
class VerificationResult:
    """Result of verifying some files. `unclear` could not be executed again; why the first could not."""

    files: int = 0
    executed: int = 0
    quarantined: int = 0
    unclear: int = 0
    reason: str = ""
    steps: list[int] = field(default_factory=list)
    """Where something was quarantined."""


def verify_sample(job: TrainingJob, *, ended: bool = False) -> Job | None:
    """Start the verification of rollouts that arrived; None where there is nothing to do yet.

    Called for every file that arrives, and once more when the attempt has ended: a background job looks at all files
    that wait, and another begins some minutes after it at the soonest.
    """
    if not settings.ROLLOUT_SAMPLE or not waiting(job.pk).exists():
        return None
    title, subject = f"Execute rollouts of {job.public_id} again", f"training:{job.pk}"
    with transaction.atomic():
        TrainingJob.objects.select_for_update(of=("self",)).only("pk").get(pk=job.pk)
        known = of_subject(KIND, subject)
        if known.filter(state=JobState.QUEUED).exists():
            return None
        if not ended and known.filter(created_at__gt=timezone.now() - EVERY).exists():
            return None
        return create(KIND, title, {"job": job.pk}, subject=subject)


def waiting(job: int) -> Any:
    """Rollout files of a training job that were not verified, and are still here."""
    return RolloutFile.objects.filter(job=job, verified=None).exclude(stored="")


def verify(sandbox: Sandbox, job: int, progress: Callable[[int, int, str], None]) -> dict[str, Any]:
    """Verify each waiting file's sample. What was verified before a crash is not verified again."""
    tally = VerificationResult()
    files = list(waiting(job).select_related("job").order_by("step")[:FILES_A_JOB])
    for number, file in enumerate(files, 1):
        _look(sandbox, file, tally)
        progress(number, len(files), f"Step {file.step}")
    if len(files) == FILES_A_JOB:
        verify_sample(TrainingJob.objects.get(pk=job), ended=True)
    return {name: getattr(tally, name) for name in ("files", "executed", "quarantined", "unclear", "reason")}


def _look(sandbox: Sandbox, file: RolloutFile, tally: VerificationResult) -> None:
    bad: list[tuple[int, str]] = []
    unclear = ""
    looked = 0
    rows = {row.index: row for row in sampled(file)}
    try:
        for index, told in rollout_file.lines(file, rows) if rows else ():
            row = rows[index]
            row.file = file
            try:
                executed = execute(sandbox, revision_of(row), told, row)
            except InputError as error:
                tally.unclear += 1
                unclear = unclear or str(error)
                continue
            looked += 1
            if executed.mismatch:
                bad.append((row.pk, executed.mismatch))
    except (InputError, FormatError) as error:
        tally.unclear += 1
        unclear = unclear or str(error)
    tally.files, tally.executed, tally.quarantined = (
        tally.files + 1,
        tally.executed + looked,
        tally.quarantined + len(bad),
    )
    tally.reason = tally.reason or unclear
    _write(file, looked, bad, unclear)


def sampled(file: RolloutFile) -> list[RunRollout]:
    """The sample of a file, the same each time, which no worker can foretell.

    Lost attempts claim nothing, nor do those that a program ended.
    """
    rows = RunRollout.objects.filter(file=file, revision__isnull=False).exclude(
        Q(outcome__in=UNCOUNTED) | Q(outcome="program_error") & (Q(reward=0.0) | Q(reward__isnull=True))
    )
    places = list(rows.order_by("index").values_list("pk", flat=True))
    luck = random.Random(f"{settings.SECRET_KEY}:{file.sha256}:{file.pk}")
    chosen = luck.sample(places, min(settings.ROLLOUT_SAMPLE, len(places)))
    related = ("revision__task", "revision__scenario__version")
    return list(RunRollout.objects.filter(pk__in=chosen).select_related(*related).order_by("index"))


@transaction.atomic
def _write(file: RolloutFile, looked: int, bad: list[tuple[int, str]], unclear: str) -> None:
    if not RolloutFile.objects.filter(pk=file.pk, verified=None).update(verified=looked):
        return
    for pk, words in bad:
        RunRollout.objects.filter(pk=pk).update(quarantined=words)
    if bad:
        message = (
            f"{len(bad)} of {looked} attempts of step {file.step} that were executed again came out otherwise and are "
            f"quarantined: {bad[0][1]}"
        )
        _tell(file, "error", message, {"quarantined": len(bad), "executed": looked})
    if unclear:
        message = f"Attempts of step {file.step} could not be executed again: {unclear}"
        _tell(file, "warn", message, {"unclear": True})


def _tell(file: RolloutFile, level: str, message: str, data: dict[str, Any]) -> None:
    TrainingEvent.objects.create(
        job=file.job,
        attempt=file.attempt,
        step=file.step,
        level=level,
        message=message[:4_000],
        data=data,
        at=timezone.now(),
    )
    tell_job(file.job_id)
