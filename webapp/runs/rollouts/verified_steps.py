"""Steps whose numbers are verified: a sample of their attempts was executed again on this site, and came out alike."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from webapp.runs.models import MetricPoint, RolloutFile, TrainingEvent, TrainingJob
from webapp.runs.rollouts.reported_means import NEVER_SENT, is_counted


def list_verified_steps(job: TrainingJob) -> list[int]:
    """Return the steps, in their order, of which a sample was executed again, whole, and came out alike, and whose
    numbers are those of their attempts."""
    files = RolloutFile.objects.filter(job=job, superseded=False, verified__gt=0, unclear=0)
    points = MetricPoint.objects.filter(key__job=job, superseded=False, contradicted__isnull=False)
    wrong = {*points.values_list("step", flat=True), *find_contradicted_steps(job)}
    return sorted(set(files.values_list("step", flat=True)) - wrong)


def find_contradicted_steps(job: TrainingJob) -> dict[int, str]:
    """Return the steps whose attempts came out otherwise when they were executed again, each with words for it."""
    words_by_step: dict[tuple[int, int], str] = {}
    for event in TrainingEvent.objects.filter(job=job, kind="alarm").order_by("pk"):
        data = event.data
        if "quarantined" in data:
            words = f"{data['quarantined']} of {data['executed']} attempts came out otherwise when executed again here"
            words_by_step[data.get("attempt", event.attempt), data["step"]] = words
    if not words_by_step:
        return {}
    files = RolloutFile.objects.filter(job=job, superseded=False).values_list("attempt", "step")
    return {step: words_by_step[attempt, step] for attempt, step in files if (attempt, step) in words_by_step}


def count_unverified(name: str, first: int, last: int, points: int, verified: Sequence[int]) -> int:
    """Return how many of the `points` of a number from step `first` to `last` are unverified. Numbers that are no
    figures of attempts (a loss, a time) cannot be verified: 0."""
    if name.startswith(NEVER_SENT):
        return points
    if not is_counted(name):
        return 0
    return max(0, points - (bisect_right(verified, last) - bisect_left(verified, first)))
