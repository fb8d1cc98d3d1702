"""A curve against its rollouts: a mean that a step's attempts do not give marks the point, and the job stands still."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.workers.test_checkpoint_uploads import upload
from tests.workers.worker_support import API, HORIZON, attempt, claimed, learning, line, operator, queued, take, values
from webapp.accounts.models import AuditEntry
from webapp.common.claims import StaleClaim
from webapp.runs import control
from webapp.runs.curves.marks import list_marks
from webapp.runs.curves.series import load_series
from webapp.runs.models import MetricPoint, RolloutFile, TrainingEvent, TrainingJob, TrainingState
from webapp.runs.transitions import AttemptEnding
from webapp.workers import claims, llm_proxy, rollout_uploads

pytestmark = pytest.mark.django_db


def arrive(job: TrainingJob, lines: list[dict[str, Any]], step: int = 40) -> None:
    content = gzip.compress("".join(json.dumps(one) + "\n" for one in lines).encode())
    digest = hashlib.sha256(content).hexdigest()
    rollout_uploads.take_rollouts(job.public_id, job.attempt, step, io.BytesIO(content), digest)


REWARDS = (1.0, 0.5, 0.0, 0.26, None, 0.44)
STEP = [line(place, reward, number=1 + place // 2) for place, reward in enumerate(REWARDS)]
"""Of the five that count the mean is 0.44; one that was lost is in no mean. Two are of e1, two of e2."""


def learner(**fields: Any) -> TrainingJob:
    return claimed(queued(tasks=3, **fields))[0]


@pytest.mark.parametrize("first", ["numbers", "rollouts"])
def test_a_mean_that_the_rollouts_do_not_give_marks_the_point_and_pauses_the_job(first: str) -> None:
    job, _, worker = claimed(queued(tasks=3))
    posted = [values(1, 40, reward=0.81, success=0.2, loss=9.0)]
    arrivals = [lambda: take(job, posted), lambda: arrive(job, STEP)]
    for arrival in arrivals if first == "numbers" else reversed(arrivals):
        arrival()
    job.refresh_from_db()
    words = "The worker reported a mean reward of 0.81 for step 40; its rollouts give 0.44."
    assert job.doubt == words
    assert (job.state, job.worker) == (TrainingState.PAUSED, "")
    assert claims.record_heartbeat(worker, {}, job.public_id, 1).stale, "its worker ends the trainer"
    point = MetricPoint.objects.get(contradicted__isnull=False)
    assert (point.key.name, point.value, point.contradicted) == ("reward", 0.81, pytest.approx(0.44))
    event = TrainingEvent.objects.get(job=job, level="error")
    assert (event.kind, event.data["reported"], event.data["step"]) == ("alarm", 0.81, 40)
    assert [(mark.step, mark.words) for mark in list_marks(job) if mark.kind == "doubt"] == [(40, words)]
    RolloutFile.objects.update(verified=2)
    (bucket,) = load_series(job, ["reward"])["reward"].buckets
    assert bucket.unverified == 1, "that its attempts came out alike makes another mean no truer"


def test_what_the_rollouts_give_is_believed_to_the_last_digits_of_a_sum() -> None:
    job, _, worker = claimed(queued(tasks=3))
    arrive(job, STEP)
    sums = {"reward": 0.44 + 1e-9, "success": 0.2, "length": 9.0, "environment__e1__reward": 0.75}
    sums |= {"outcome__infra_error": 1 / 6, "outcome__user_error": 0.0, "environment__e2__program_errors": 0.0}
    take(job, [values(1, 40, **sums, environment__e2__reward=0.13, horizon=float(HORIZON))])
    job.refresh_from_db()
    assert (job.doubt, job.wish) == ("", "")
    assert claims.record_heartbeat(worker, {}, job.public_id, 1).wish == ""
    assert not MetricPoint.objects.filter(contradicted__isnull=False).exists()


def test_the_numbers_of_an_environment_are_compared_too() -> None:
    job = learner()
    arrive(job, STEP)
    take(
        job,
        [
            values(
                1,
                40,
                reward=0.44,
                environment__e2__reward=0.9,
                environment__e2__success=0.5,
                environment__e2__length=8.5,
            )
        ],
    )
    job.refresh_from_db()
    assert job.doubt == (
        "The worker reported a mean reward of environment e2 of 0.90 for step 40; its rollouts give 0.13. "
        "2 more of the step's numbers differ."
    )


def test_all_or_nothing_is_the_mean_of_what_was_learnt_from() -> None:
    job = learner(config=learning(reward="all_or_nothing"))
    most = line(reward=0.0, place=1, attempt=attempt(0.75))
    arrive(job, [line(), most, line(2), line(3, 0.0)])
    take(job, [values(1, 40, reward=0.5, success=0.5)])
    job.refresh_from_db()
    assert job.doubt == ""
    take(job, [values(2, 40, reward=0.6875)])
    job.refresh_from_db()
    assert "0.69 for step 40; its rollouts give 0.50" in job.doubt


def test_the_share_of_users_that_erred_is_that_of_the_attempts() -> None:
    """A worker that hides it would keep the alarm about it from ringing."""
    job = learner()
    verdicts = [{"finding": finding} for finding in ("none", "fault", "unknown")]
    lines = [line(place, 0.0) for place in range(6)]
    for told, verdict in zip(lines, verdicts, strict=False):
        told["attempt"]["user_verdict"] = verdict
    lines[1] |= {"reward": None, "masked": "user_fault"}
    arrive(job, lines)
    take(job, [values(1, 40, user_fault=0.5, user_unknown=1 / 3, masked=1 / 6)])
    job.refresh_from_db()
    assert job.doubt == ""
    take(job, [values(2, 40, user_fault=0.0)])
    job.refresh_from_db()
    assert "judged conversations whose user erred of 0.00 for step 40; its rollouts give 0.50" in job.doubt


def test_a_file_of_an_earlier_version_says_nothing_of_what_was_not_counted_in_it() -> None:
    job = learner()
    arrive(job, STEP)
    file = RolloutFile.objects.get()
    file.means.pop("masked")
    file.save()
    take(job, [values(1, 40, reward=0.44, masked=0.3, user_fault=0.2)])
    job.refresh_from_db()
    assert job.doubt == ""


def test_a_number_of_attempts_that_are_not_there_is_marked() -> None:
    job = learner()
    arrive(job, STEP)
    take(job, [values(1, 40, environment__e0__reward=1.0)])
    job.refresh_from_db()
    assert "environment e0 for step 40; its rollouts give none" in job.doubt
    assert [mark.words for mark in list_marks(job) if mark.kind == "doubt"] == [job.doubt]


def test_after_a_contradiction_only_heartbeats_are_taken_until_a_person_resumes() -> None:
    job, _, worker = claimed(queued(tasks=3))
    arrive(job, STEP)
    take(job, [values(1, 40, reward=0.81)])
    late: list[Callable[[], Any]] = [
        lambda: take(job, [values(2, 41, reward=0.9)]),
        lambda: arrive(job, STEP, step=41),
        lambda: upload(job, 41),
        lambda: claims.end_attempt(job.public_id, 1, AttemptEnding("done")),
        lambda: llm_proxy.complete_chat(job.public_id, 1, "user", {"messages": []}, None),
    ]
    for act in late:
        with pytest.raises(StaleClaim):
            act()
    assert claims.record_heartbeat(worker, {}, job.public_id, 1).stale
    assert claims.claim_job(worker, API) is None
    job.refresh_from_db()
    control.resume_job(job, operator())
    entry = AuditEntry.objects.get(action="training.resume")
    assert "its rollouts give 0.44" in entry.detail["despite"]
    job, _, _ = claimed(job)
    assert (job.doubt, job.attempt) == ("", 2)
    take(job, [values(1, 41, reward=0.9)])
    arrive(job, STEP, step=41)
    job.refresh_from_db()
    assert "step 41" in job.doubt
    assert TrainingEvent.objects.filter(job=job, kind="alarm").count() == 2
    assert RolloutFile.objects.get(job=job, step=41).means["reward"] == pytest.approx(0.44)
