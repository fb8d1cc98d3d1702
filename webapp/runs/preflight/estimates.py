"""Estimates of a training job: size of its model, time and place in the queue. None if nothing can be known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.db.models import Avg, F, Sum
from django.utils import timezone

from synthesis.contracts import Frozen
from webapp.runs.models import MetricPoint, TrainingAttempt, TrainingJob, TrainingState
from webapp.runs.preflight.candidates import Candidate
from webapp.runs.preflight.job_lookup import get_base_model
from webapp.runs.spec import DEMO_MODEL

DEMO_PARAMETERS = 1_000_000
PAST = 5
RECENT = 20
"""The pace of a job is the mean of so many steps."""
_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)([BbMm])(?![A-Za-z0-9])")


class Duration(Frozen):
    """Estimated time, by what earlier jobs took for a step."""

    seconds: float
    seconds_a_step: float
    jobs: int


class Queue(Frozen):
    """Place in the queue behind `ahead` jobs; of `workers`, `idle` have no job and `able` could take this one; of these
    it is unknown if those in `untold` have the memory."""

    ahead: int
    running: int
    workers: int
    idle: int
    able: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()


def estimate_parameters(base: str) -> tuple[int, str]:
    """Return (parameters, how this is known); 0 if it is not."""
    if base == DEMO_MODEL:
        return DEMO_PARAMETERS, "about a million"
    size = _SIZE.search(base.rpartition("/")[2])
    if size is None:
        return 0, "the model's name does not say its size"
    return round(float(size[1]) * (10**9 if size[2] in "Bb" else 10**6)), f"{size[0]}, by its name"


def estimate_duration(base: str, preset: str, method: str, steps: int | None) -> tuple[Duration | None, str]:
    """Return (time by what past jobs of this model and preset took, why it is not known)."""
    rows = TrainingJob.objects.filter(method=method, preset=preset, state=TrainingState.SUCCEEDED, step__gt=0)
    rows = rows.exclude(started_at=None).exclude(finished_at=None).select_related("after").order_by("-pk")[: 10 * PAST]
    past = [row for row in rows if get_base_model(row) == base][:PAST]
    if not past:
        return None, "no job of this model and preset has succeeded here yet"
    spent = _sum_spent_time(past)
    if not spent:
        return None, "earlier jobs of this model and preset left no times"
    each = spent.total_seconds() / sum(row.step for row in past)
    if steps is None:
        return None, f"a step took {each:.1f} s in {len(past)} earlier jobs; how many there will be is not known"
    return Duration(seconds=each * steps, seconds_a_step=each, jobs=len(past)), ""


def get_spent_seconds(job: TrainingJob) -> float | None:
    """Return the seconds that workers have spent on a job so far, without pauses and waiting. None: not begun."""
    seconds = [
        ((ended or timezone.now()) - begun).total_seconds()
        for begun, ended in TrainingAttempt.objects.filter(job=job).values_list("started_at", "ended_at")
    ]
    return sum(seconds) if seconds else None


def _sum_spent_time(rows: Sequence[TrainingJob]) -> timedelta:
    """Return the time that workers spent on these jobs, without pauses and waiting."""
    attempts = TrainingAttempt.objects.filter(job__in=[row.pk for row in rows], ended_at__isnull=False)
    total = attempts.aggregate(spent=Sum(F("ended_at") - F("started_at")))["spent"]
    return total or timedelta()


def estimate_seconds_left(jobs: Iterable[TrainingJob]) -> dict[int, float]:
    """Return the seconds that running jobs still take, by primary key, at the pace of their last steps.

    Evaluations between steps are not included. A job that will not get to its end, since a pause or its end was asked
    for, is left out, and so is one whose steps, total or pace are not known.
    """
    running = {
        job.pk: job
        for job in jobs
        if job.state == TrainingState.RUNNING and not job.wish and 0 < job.step < job.total_steps
    }
    if not running:
        return {}
    recent = MetricPoint.objects.filter(
        key__job__in=list(running), key__name="step_s", step__gt=F("key__last_step") - RECENT,
        superseded=False, value__gt=0,
    )  # fmt: skip
    paces = recent.order_by().values_list("key__job").annotate(pace=Avg("value"))
    return {pk: pace * (running[pk].total_steps - running[pk].step) for pk, pace in paces}


NAMED = 20


def build_queue(candidates: Sequence[Candidate], able: Sequence[str] = (), untold: Sequence[str] = ()) -> Queue:
    """Return the queue before a job that is queued now, which workers of the names `able` could take."""
    here = {candidate.worker for candidate in candidates if candidate.worker}
    running = TrainingJob.objects.filter(state=TrainingState.RUNNING)
    busy = set(running.values_list("worker", flat=True)) & here
    ahead = TrainingJob.objects.filter(state__in=(TrainingState.VALIDATING, TrainingState.QUEUED)).count()
    idle = len(here) - len(busy)
    return Queue(
        ahead=ahead,
        running=running.count(),
        workers=len(here),
        idle=idle,
        able=tuple(able[:NAMED]),
        untold=tuple(untold[:NAMED]),
    )
