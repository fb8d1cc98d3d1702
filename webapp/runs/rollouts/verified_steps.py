"""Steps whose numbers are verified: a sample of their attempts was executed again on this site."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from webapp.runs.models import RolloutFile, TrainingJob
from webapp.runs.rollouts.reported_means import NEVER_SENT, is_counted


def verified_steps(job: TrainingJob) -> list[int]:
    """Return the steps, in their order, of which a sample was executed again, whole."""
    files = RolloutFile.objects.filter(job=job, superseded=False, verified__gt=0, unclear=0)
    return sorted(set(files.values_list("step", flat=True)))


def count_unverified(name: str, first: int, last: int, points: int, verified: Sequence[int]) -> int:
    """Return how many of the `points` of a number from step `first` to `last` are unverified. Numbers that are no
    figures of attempts (a loss, a time) are nobody's to verify: 0."""
    if name.startswith(NEVER_SENT):
        return points
    if not is_counted(name):
        return 0
    return max(0, points - (bisect_right(verified, last) - bisect_left(verified, first)))
