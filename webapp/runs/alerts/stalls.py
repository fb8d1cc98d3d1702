"""Stalled jobs, found by the scheduler: they run, and report no number for much longer than their steps take."""

from __future__ import annotations

from datetime import datetime
from statistics import median

from django.db import transaction
from django.utils import timezone

from webapp.runs.alerts import watch
from webapp.runs.alerts.rules import BY_NAME, FIRST_STEP_SECONDS, STALL_SECONDS, STALL_TIMES
from webapp.runs.models import MetricPoint, TrainingAlert, TrainingAttempt, TrainingJob, TrainingState

STEPS = 20
"""A step takes as long as the median of the last so many."""
MOST_JOBS = 500


def check_stalls() -> None:
    """Begin an alert for each running job that stalls, and end those of jobs that run no more."""
    running = TrainingJob.objects.filter(state=TrainingState.RUNNING).order_by("-pk")
    for pk in running.values_list("pk", flat=True)[:MOST_JOBS]:
        _check_job(pk)
    over = TrainingAlert.objects.filter(rule="stall", ended_at=None).exclude(job__state=TrainingState.RUNNING)
    for alert in over.select_related("job")[:MOST_JOBS]:
        with transaction.atomic():
            watch.end_alert(alert.job, alert)


def _check_job(pk: int) -> None:
    with transaction.atomic():
        job = TrainingJob.objects.select_for_update(of=("self",), no_key=True).filter(pk=pk).first()
        if job is None or job.state != TrainingState.RUNNING:
            return
        waited, patience = measure_waiting(job, timezone.now())
        if waited <= patience or TrainingAlert.objects.filter(job=job, rule="stall", ended_at=None).exists():
            return
        watch.begin_alert(job, BY_NAME["stall"], job.step, waited / patience, format_stall_message(waited, patience))


def measure_waiting(job: TrainingJob, now: datetime) -> tuple[float, float]:
    """Return (seconds since the last number, or since the attempt began; seconds that are waited for)."""
    attempt = TrainingAttempt.objects.filter(job=job, number=job.attempt).first()
    begun = attempt.started_at if attempt is not None else job.started_at or job.created_at
    if job.advanced_at is None or job.advanced_at < begun:
        return (now - begun).total_seconds(), FIRST_STEP_SECONDS
    points = MetricPoint.objects.filter(key__job=job, key__name="step_s", superseded=False, value__isnull=False)
    seconds = list(points.order_by("-step").values_list("value", flat=True)[:STEPS])
    step_s = median([value for value in seconds if value is not None]) if seconds else 0.0
    return (now - job.advanced_at).total_seconds(), max(STALL_SECONDS, STALL_TIMES * step_s)


def format_stall_message(waited: float, patience: float) -> str:
    """Return the alert's message."""
    return f"No number for {waited / 60:.0f} minutes, where {patience / 60:.0f} are waited for."
