"""`limits.hours` of a job: what all its attempts took."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from synthesis.errors import InputError
from tests.workers.worker_support import claimed
from training.config import Reinforcement
from webapp.runs import control
from webapp.runs.models import TrainingAttempt, TrainingJob, TrainingState
from webapp.runs.transitions import AttemptEnding
from webapp.workers import claims

pytestmark = pytest.mark.django_db


def test_hours_count_over_all_attempts() -> None:
    """The account is the rows of attempts: what each took is told to the next, pauses between are not in it."""
    job, told, _ = claimed(config=Reinforcement().model_dump(mode="json") | {"limits": {"hours": 3.0}})
    assert told.spent_s == pytest.approx(0, abs=5)
    begun = timezone.now() - timedelta(days=3)
    TrainingAttempt.objects.update(started_at=begun, ended_at=begun + timedelta(hours=2), state="lost")
    TrainingJob.objects.update(state=TrainingState.QUEUED)
    job, told, _ = claimed(job)
    assert told.attempt == 2
    assert told.spent_s == pytest.approx(2 * 3600, abs=5)
    claims.end_attempt(job.public_id, job.attempt, AttemptEnding("out_of_time"))
    TrainingAttempt.objects.filter(number=2).update(started_at=timezone.now() - timedelta(minutes=61))
    with pytest.raises(InputError, match=r"^hours: the attempts of this job have taken 3\.0 of its 3 hours"):
        control.resume_job(job, job.created_by)
    assert control.resume_job(job, job.created_by, hours=4).state == TrainingState.QUEUED
