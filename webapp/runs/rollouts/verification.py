"""Verification of a sample of rollouts by executing them again, of a whole file if one of the sample differs.

Attempts that differ are quarantined, and the job is paused until a person has seen both numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from synthesis.contracts import UNCOUNTED
from synthesis.errors import FormatError, InputError
from synthesis.runtime import Sandbox
from webapp.jobs.models import Job, JobState
from webapp.jobs.queries import list_subject_jobs
from webapp.jobs.services import enqueue_job
from webapp.runs import transitions
from webapp.runs.models import RolloutFile, RunRollout, TrainingEvent, TrainingJob
from webapp.runs.rollouts import rollout_file
from webapp.runs.rollouts.rollout_replay import FASTER, compute_learnt_reward, execute_rollout, get_revision
from webapp.runs.rollouts.user_verdicts import is_masked_by_rule, require_askable_verdict
from webapp.runs.topics import publish_job

KIND = "verify_rollouts"
FILES_A_JOB = 200
EVERY = timedelta(minutes=2)
FORGOTTEN_AT_ONCE = 500
RELATED = ("revision__task", "revision__scenario__version")
WITHOUT_TASK = "no_task"
"""The kind of the event that says so."""
MOST_FASTER = 3
FASTER_SHARE = 0.2
"""So many, and so large a share, of a step's attempts may have run out of time at the worker alone. More is no slow
machine: a worker that may leave out what programs ended could drop its failures so."""


@dataclass
class VerificationResult:
    """Result of verifying some files. `unclear` counts attempts that could not be executed again, `reason` is that of
    the first."""

    files: int = 0
    executed: int = 0
    quarantined: int = 0
    unclear: int = 0
    reason: str = ""


@dataclass
class FileResult:
    """Result of verifying one file: attempts executed again with the rewards that the step learnt from and those that
    came out here, those that differ with words, and why some could not be executed."""

    executed: int = 0
    told: list[float] = field(default_factory=list)
    found: list[float] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)
    faster: list[int] = field(default_factory=list)
    """Attempts that ran out of time at the worker, and did not here."""
    unclear: int = 0
    reason: str = ""
    without_task: int = 0
    """Attempts that count, at tasks that are not on this site: they cannot be executed again."""
    whole: bool = False
    """All of the file were executed, since one of the sample differed."""


def verify_sample(job: TrainingJob, *, ended: bool = False) -> Job | None:
    """Start the verification of rollouts that arrived; return None if there is nothing to do yet.

    Called for every file that arrives, and once more when the attempt has ended: a background job verifies all files
    that wait, and another begins some minutes after it at the soonest.
    """
    if not settings.ROLLOUT_SAMPLE or not waiting_files(job.pk).exists():
        return None
    title, subject = f"Execute rollouts of {job.public_id} again", f"training:{job.pk}"
    with transaction.atomic():
        # Locked, so that two files that arrive at the same moment start one background job.
        TrainingJob.objects.select_for_update(of=("self",)).only("pk").get(pk=job.pk)
        earlier_jobs = list_subject_jobs(KIND, subject)
        if earlier_jobs.filter(state=JobState.QUEUED).exists():
            return None
        if not ended and earlier_jobs.filter(created_at__gt=timezone.now() - EVERY).exists():
            return None
        return enqueue_job(KIND, title, {"job": job.pk}, subject=subject)


def verify_forgotten() -> int:
    """Start the verification of rollouts that wait though nothing starts it any more: their job is paused, was
    cancelled, or lost its worker. Return for how many jobs. A verification that failed is not repeated by this."""
    late = RolloutFile.objects.filter(verified=None, created_at__lt=timezone.now() - EVERY).exclude(stored="")
    started = 0
    for pk, newest in late.order_by("job").values_list("job").annotate(Max("created_at"))[:FORGOTTEN_AT_ONCE]:
        if not list_subject_jobs(KIND, f"training:{pk}").filter(created_at__gt=newest).exists():
            started += verify_sample(TrainingJob.objects.get(pk=pk)) is not None
    return started


def reverify_whole_file(file: RolloutFile) -> None:
    """Execute the whole file again, after a person opened an attempt that came out otherwise."""
    RolloutFile.objects.filter(pk=file.pk).update(verified=None)
    verify_sample(file.job, ended=True)


def waiting_files(job: int) -> Any:
    """Return rollout files of a training job that were not verified, and are still here."""
    return RolloutFile.objects.filter(job=job, verified=None).exclude(stored="")


def verify_waiting_files(sandbox: Sandbox, job: int, progress: Callable[[int, int, str], None]) -> dict[str, Any]:
    """Verify each waiting file's sample. Files verified before a crash are not verified again."""
    tally = VerificationResult()
    files = list(waiting_files(job).select_related("job").order_by("step")[:FILES_A_JOB])
    for number, file in enumerate(files, 1):
        _verify_file(sandbox, file, tally, lambda note, at=number - 1: progress(at, len(files), note))  # type: ignore[misc]
        progress(number, len(files), f"Step {file.step}")
    if len(files) == FILES_A_JOB:
        verify_sample(TrainingJob.objects.get(pk=job), ended=True)
    return {name: getattr(tally, name) for name in ("files", "executed", "quarantined", "unclear", "reason")}


def _verify_file(sandbox: Sandbox, file: RolloutFile, tally: VerificationResult, beat: Callable[[str], None]) -> None:
    """Verify a sample of a file; all of it if one of the sample, or one that a person opened, differs."""
    done = FileResult()
    sample = draw_sample(file)
    _execute_rollouts(sandbox, file, sample, done, beat)
    if done.bad or _executable_rollouts(file).exclude(quarantined="").exists():
        done.whole = True
        others = _executable_rollouts(file).exclude(pk__in=[row.pk for row in sample])
        _execute_rollouts(sandbox, file, others.select_related(*RELATED).order_by("index"), done, beat)
    elif done.faster:
        others = _executable_rollouts(file).filter(outcome="program_error").exclude(pk__in=[row.pk for row in sample])
        _execute_rollouts(sandbox, file, others.select_related(*RELATED).order_by("index"), done, beat)
    done.bad += _list_excess_timeouts(file, done.faster)
    done.without_task = RunRollout.objects.filter(file=file, revision=None).exclude(outcome__in=UNCOUNTED).count()
    tally.files += 1
    tally.executed += done.executed
    tally.quarantined += len(done.bad)
    tally.unclear += done.unclear
    tally.reason = tally.reason or done.reason
    _write_result(file, done)


def _execute_rollouts(
    sandbox: Sandbox, file: RolloutFile, wanted: Iterable[RunRollout], done: FileResult, beat: Callable[[str], None]
) -> None:
    rows = {row.index: row for row in wanted}
    try:
        for index, told in rollout_file.read_file_lines(file, rows) if rows else ():
            row = rows[index]
            row.file = file
            try:
                require_askable_verdict(told)
                executed = execute_rollout(sandbox, get_revision(row), told, row)
            except InputError as error:
                done.unclear += 1
                done.reason = done.reason or str(error)
                continue
            done.executed += 1
            learnt_here = compute_learnt_reward(row, executed.attempt.reward)
            if learnt_here is None and told.attempt.outcome == "program_error" and told.reward is not None:
                learnt_here = 0.0
            if told.reward is not None and learnt_here is not None:
                done.told.append(told.reward)
            if learnt_here is not None and (told.reward is not None or not is_masked_by_rule(told, file.job)):
                done.found.append(learnt_here)
            if executed.note == FASTER and not executed.mismatch:
                done.faster.append(row.pk)
            if executed.mismatch:
                done.bad.append((row.pk, executed.mismatch))
            beat(f"Step {file.step}: {done.executed} attempts executed again")
    except (InputError, FormatError) as error:
        done.unclear += 1
        done.reason = done.reason or str(error)


def _list_excess_timeouts(file: RolloutFile, faster: list[int]) -> list[tuple[int, str]]:
    """Return attempts that ran out of time at the worker alone, if they are more than a slower machine explains."""
    attempts = _executable_rollouts(file).count()
    if len(faster) <= max(MOST_FASTER, FASTER_SHARE * attempts):
        return []
    words = f"{len(faster)} of {attempts} attempts of the step are reported as out of time, and here they are not: "
    return [(pk, words + "more than a slower machine explains.") for pk in faster]


def _executable_rollouts(file: RolloutFile) -> QuerySet[RunRollout]:
    """Return attempts that can be executed again. Lost ones claim nothing; the report that a program ended one is a
    claim."""
    return RunRollout.objects.filter(file=file, revision__isnull=False).exclude(outcome__in=UNCOUNTED)


def draw_sample(file: RolloutFile) -> list[RunRollout]:
    """Return the sample of a file, the same each time, which no worker can foretell.

    Attempts reported as ended by programs have a sample of their own: few among many, they would hardly be drawn.
    """
    luck = random.Random(f"{settings.SECRET_KEY}:{file.sha256}:{file.pk}")
    ended = Q(outcome="program_error")
    chosen: list[int] = []
    for part in (~ended, ended):
        places = list(_executable_rollouts(file).filter(part).order_by("index").values_list("pk", flat=True))
        chosen += luck.sample(places, min(settings.ROLLOUT_SAMPLE, len(places)))
    return list(RunRollout.objects.filter(pk__in=chosen).select_related(*RELATED).order_by("index"))


@transaction.atomic
def _write_result(file: RolloutFile, done: FileResult) -> None:
    job = TrainingJob.objects.select_for_update(of=("self",), no_key=True).get(pk=file.job_id)
    if not RolloutFile.objects.filter(pk=file.pk, verified=None).update(
        verified=done.executed, unclear=done.unclear + done.without_task
    ):
        return
    publish_job(job.pk)
    for pk, words in done.bad:
        RunRollout.objects.filter(pk=pk).update(quarantined=words)
    if done.bad:
        data = {"step": file.step, "attempt": file.attempt, "quarantined": len(done.bad), "executed": done.executed}
        transitions.doubt_job(job, _format_sentence(file, done), **data | _compute_means(done))
    if done.without_task:
        _log_without_task(file, done.without_task)
    if done.unclear:
        message = f"{done.unclear} attempts of step {file.step} could not be executed again: {done.reason}"
        _log_event(file, "warn", message, {"unclear": done.unclear})


def _log_without_task(file: RolloutFile, count: int) -> None:
    """Log once a job that attempts have no task here: for an uploaded dataset this is true of every step."""
    if TrainingEvent.objects.filter(job=file.job_id, kind=WITHOUT_TASK).exists():
        return
    message = (
        f"{count} attempts of step {file.step} are at tasks that are not on this site, so they cannot be executed "
        "again here: the numbers of such steps stay unverified."
    )
    _log_event(file, "warn", message, {"attempts": count}, kind=WITHOUT_TASK)


def _compute_means(done: FileResult) -> dict[str, float]:
    if not done.told or not done.found:
        return {}
    return {"reported": sum(done.told) / len(done.told), "found": sum(done.found) / len(done.found)}


def _format_sentence(file: RolloutFile, done: FileResult) -> str:
    words = (
        f"{len(done.bad)} of {done.executed} attempts of step {file.step} came out otherwise when they were executed "
        "again, and are quarantined."
    )
    if means := _compute_means(done):
        words += (
            f" The worker reported a mean reward of {means['reported']:.4f} for the {len(done.told)} of them that "
            f"count; executed again {_format_counting(done)} give {means['found']:.4f}."
        )
    return f"{words} The first one: {done.bad[0][1]}"


def _format_counting(done: FileResult) -> str:
    """Format how many attempts count: more than the worker's if it left out attempts that it reported as ended by
    programs."""
    return "they" if len(done.found) == len(done.told) else f"{len(done.found)} count and"


def _log_event(file: RolloutFile, level: str, message: str, data: dict[str, Any], kind: str = "message") -> None:
    TrainingEvent.objects.create(
        kind=kind,
        job=file.job,
        attempt=file.attempt,
        step=file.step,
        level=level,
        message=message[:4_000],
        data=data,
        at=timezone.now(),
    )
    publish_job(file.job_id)
