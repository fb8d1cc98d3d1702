"""A curve against its rollouts: a mean that a step's attempts do not give marks the point, and the job stands still."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from typing import Any

import pytest

from tests.workers.worker_support import claimed, take, values
from webapp.runs import control
from webapp.runs.curves.marks import marks_of
from webapp.runs.models import MetricPoint, RolloutFile, TrainingEvent, TrainingJob
from webapp.workers import claims, rollout_uploads

pytestmark = pytest.mark.django_db


def line(reward: float | None, *, earned: float | None = None, environment: str = "e1", **more: Any) -> dict[str, Any]:
    """An attempt as a trainer writes it; `reward` is what the step learnt from, `earned` the verifier's."""
    earned = reward if earned is None else earned
    attempt: dict[str, Any] = {"policy": "p", "ending": "answered", "outcome": "failed"}
    if earned is not None:
        attempt |= {"reward": {"reward": earned, "passed": 0, "total": 1, "verdicts": [], "rule": "goals"}}
    masked = {"masked": "infra_error"} if reward is None else {}
    return {"row": "row-1", "environment": environment, "reward": reward, "attempt": attempt} | masked | more


def arrive(job: TrainingJob, lines: list[dict[str, Any]], step: int = 40) -> None:
    content = gzip.compress("".join(json.dumps(one) + "\n" for one in lines).encode())
    digest = hashlib.sha256(content).hexdigest()
    rollout_uploads.take_rollouts(job.public_id, job.attempt, step, io.BytesIO(content), digest)


STEP = [line(1.0), line(0.5), line(0.0, environment="e2"), line(0.26, environment="e2"), line(None)]
"""Of the four that count the mean is 0.44; one that was lost is in no mean."""


@pytest.mark.parametrize("first", ["numbers", "rollouts"])
def test_a_mean_that_the_rollouts_do_not_give_marks_the_point_and_pauses_the_job(first: str) -> None:
    job, _, worker = claimed()
    posted = [values(1, 40, reward=0.81, success=0.25, loss=9.0)]
    arrivals = [lambda: take(job, posted), lambda: arrive(job, STEP)]
    for arrival in arrivals if first == "numbers" else reversed(arrivals):
        arrival()
    job.refresh_from_db()
    words = "The worker reported a mean reward of 0.81 for step 40; its rollouts give 0.44."
    assert job.doubt == words
    assert claims.heartbeat(worker, {}, job.public_id, 1).wish == "pause"
    point = MetricPoint.objects.get(contradicted__isnull=False)
    assert (point.key.name, point.value, point.contradicted) == ("reward", 0.81, pytest.approx(0.44))
    event = TrainingEvent.objects.get(job=job, level="error")
    assert (event.kind, event.data["reported"], event.data["step"]) == ("alarm", 0.81, 40)
    assert [(mark.step, mark.words) for mark in marks_of(job) if mark.kind == "doubt"] == [(40, words)]


def test_what_the_rollouts_give_is_believed_to_the_last_digits_of_a_sum() -> None:
    job, _, worker = claimed()
    arrive(job, STEP)
    sums = {"reward": 0.44 + 1e-9, "success": 0.25, "length": 0.0, "environment__e1__reward": 0.75}
    take(job, [values(1, 40, **sums, environment__e2__reward=0.13, horizon=30.0)])
    job.refresh_from_db()
    assert (job.doubt, job.wish) == ("", "")
    assert claims.heartbeat(worker, {}, job.public_id, 1).wish == ""
    assert not MetricPoint.objects.filter(contradicted__isnull=False).exists()


def test_the_numbers_of_an_environment_are_compared_too() -> None:
    job, _, _ = claimed()
    arrive(job, STEP)
    take(job, [values(1, 40, reward=0.44, environment__e2__reward=0.9, environment__e2__success=0.5)])
    job.refresh_from_db()
    assert job.doubt == (
        "The worker reported a mean reward of environment e2 of 0.90 for step 40; its rollouts give 0.13. "
        "1 more of the step's numbers differ."
    )


def test_all_or_nothing_is_the_mean_of_what_was_learnt_from() -> None:
    job, _, _ = claimed()
    arrive(job, [line(1.0, earned=1.0), line(0.0, earned=0.75)])
    take(job, [values(1, 40, reward=0.5, success=0.5)])
    job.refresh_from_db()
    assert job.doubt == ""
    take(job, [values(2, 40, reward=0.875)])
    job.refresh_from_db()
    assert "0.88 for step 40; its rollouts give 0.50" in job.doubt


def test_a_point_is_told_once_and_a_second_step_again_after_a_person_resumed() -> None:
    job, _, _ = claimed()
    arrive(job, STEP)
    take(job, [values(1, 40, reward=0.81)])
    take(job, [values(2, 40, loss=1.0)])
    assert TrainingEvent.objects.filter(job=job, level="error").count() == 1
    job.refresh_from_db()
    control.resume(job, None)
    job.refresh_from_db()
    assert (job.doubt, job.wish) == ("", "")
    take(job, [values(3, 41, reward=0.9)])
    arrive(job, STEP, step=41)
    job.refresh_from_db()
    assert "step 41" in job.doubt
    assert RolloutFile.objects.get(job=job, step=41).means["reward"] == pytest.approx(0.44)
