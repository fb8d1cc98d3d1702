"""Records become rows: each once, none missing, what a later attempt does again superseded; hostile ones refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from django.db import transaction
from pydantic import ValidationError

from tests.workers.worker_support import RECORDS, at_once, claimed, course, event, take, values
from training.metrics import Position as Place
from training.metrics import Writer, read_records
from webapp.common.claims import StaleClaim
from webapp.common.errors import Unusable
from webapp.runs import transitions
from webapp.runs.curves.series import load_series as curves
from webapp.runs.models import (
    Checkpoint,
    CheckpointState,
    MetricKey,
    MetricPoint,
    RolloutFile,
    TrainingAttempt,
    TrainingEvent,
    TrainingJob,
    TrainingState,
)
from webapp.workers import claims, ingest
from webapp.workers.errors import RecordGap, TooManyKeys

pytestmark = pytest.mark.django_db


def again(job: TrainingJob, from_step: int) -> TrainingJob:
    """The next attempt, that goes on from a checkpoint of this step."""
    attempt = TrainingAttempt.objects.get(job=job, number=job.attempt)
    transitions.lose_attempt(job, attempt, "The worker was lost.")
    if from_step:
        Checkpoint.objects.create(job=job, attempt=job.attempt, step=from_step, state=CheckpointState.READY)
    return claimed(job)[0]


def series(job: TrainingJob, name: str = "reward") -> list[tuple[int, float | None]]:
    """What a curve shows."""
    points = MetricPoint.objects.filter(key__job=job, key__name=name, superseded=False)
    return list(points.order_by("step", "attempt").values_list("step", "value"))


def test_what_a_trainer_writes_arrives(tmp_path: Any) -> None:
    job, _, _ = claimed()
    with Writer(tmp_path / "record.jsonl") as writer:
        writer.event(0, "info", "Training begins.", device="cpu")
        writer.values(1, {"reward": 0.25, "loss": math.nan, "environment/e1/reward": 0.5})
        writer.artefact(1, "rollouts", "rollouts/step-000001.jsonl.gz", attempts=8)
        writer.values(2, {"reward": 0.5, "tokens_per_s": 100.0, "step_s": 9.0, "rollout_s": 3.0})
        writer.event(2, "warn", "2 of 8 attempts were lost", lost=2)
        writer.event(2, "warn", "Programs ended 3 of 8 attempts", program_errors=3)
    records, _ = read_records(tmp_path / "record.jsonl", Place())
    assert ingest.take_records(job.public_id, 1, records) == 7
    assert series(job) == [(1, 0.25), (2, 0.5)]
    assert series(job, "loss") == [(1, None)]
    key = MetricKey.objects.get(job=job, name="reward")
    assert (key.last_step, key.last_value) == (2, 0.5)
    job.refresh_from_db()
    assert (job.step, job.infra_errors, job.program_errors, job.trained_tokens) == (2, 2, 3, 300)
    told = TrainingEvent.objects.filter(job=job, seq__isnull=False).order_by("seq")
    assert [(one.seq, one.level, one.step) for one in told] == [(1, "info", 0), (5, "warn", 2), (6, "warn", 2)]
    assert told[0].data == {"device": "cpu"}


def test_what_is_sent_again_is_ignored() -> None:
    job, _, _ = claimed()
    records = [*course(1, 5), event(6), values(7, 6, tokens_per_s=10.0, step_s=2.0)]
    assert take(job, records) == 8
    before = list(MetricPoint.objects.values_list("pk", "value"))
    assert take(job, records) == 8
    assert take(job, records[3:]) == 8
    assert take(job, []) == 8
    assert list(MetricPoint.objects.values_list("pk", "value")) == before
    assert TrainingEvent.objects.filter(seq=6).count() == 1
    job.refresh_from_db()
    assert job.trained_tokens == 20
    assert take(job, [*records[5:], values(8, 7, reward=1.0)]) == 9
    assert series(job)[-1] == (7, 1.0)


def test_a_gap_writes_nothing_and_says_where_to_go_on() -> None:
    job, _, _ = claimed()
    take(job, course(1, 3))
    for records in ([values(5, 5, reward=1.0)], [values(4, 4, reward=1.0), values(6, 6, reward=1.0)]):
        with pytest.raises(RecordGap) as refused:
            take(job, records)
        assert refused.value.facts["next_seq"] in (4, 5)
    assert len(series(job)) == 3


@pytest.mark.django_db(transaction=True)
def test_many_senders_of_one_record_leave_it_once() -> None:
    """A worker whose request timed out sends it again while the first is still written."""
    job, _, _ = claimed()
    records = [one for seq in range(1, 200, 2) for one in (values(seq, seq, reward=0.5, loss=1.0), event(seq + 1, seq))]
    found = at_once(*(lambda: take(job, records) for _ in range(6)))
    assert found == [201] * 6
    assert MetricPoint.objects.count() == 200
    assert TrainingEvent.objects.filter(seq__isnull=False).count() == 100
    job.refresh_from_db()
    assert TrainingAttempt.objects.get(job=job).next_seq == 201


@pytest.mark.django_db(transaction=True)
def test_an_attempt_that_is_lost_while_it_sends_leaves_whole_batches() -> None:
    job, _, _ = claimed()
    batches = [course(seq, seq + 9, steps_from=seq) for seq in range(1, 200, 10)]

    def send() -> int:
        for batch in batches:
            take(job, batch, number=1)
        return 201

    def lose() -> None:
        with transaction.atomic():
            held, attempt = claims.require_attempt(job.public_id, 1, lock=True)
            transitions.lose_attempt(held, attempt, "Lost.")

    sent, _ = at_once(send, lose)
    assert sent == 201 or sent.code == "stale_attempt"
    steps = [step for step, _ in series(job)]
    assert steps == list(range(1, len(steps) + 1))
    assert TrainingAttempt.objects.get(job=job).next_seq == len(steps) + 1


def test_a_later_attempt_supersedes_what_came_behind_its_checkpoint() -> None:
    job, _, _ = claimed()
    take(job, [*course(1, 8), values(9, 8, tokens_per_s=10.0, step_s=1.0), values(10, 4, tokens_per_s=7.0, step_s=1.0)])
    for step in (4, 8):
        RolloutFile.objects.create(job=job, attempt=1, step=step, sha256="0" * 64)
    Checkpoint.objects.create(job=job, attempt=1, step=7, state=CheckpointState.UPLOADING)
    job.refresh_from_db()
    assert (job.step, job.trained_tokens) == (8, 17)
    job = again(job, from_step=5)
    assert series(job)[-1] == (8, 8.0), "an attempt that recorded nothing takes nothing away"
    take(job, [event(1, 5, "Resumed.", resumed=5), values(2, 6, reward=60.0)])
    assert series(job) == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0), (6, 60.0)]
    assert MetricPoint.objects.filter(key__name="reward", superseded=True).count() == 3, "kept, and counted nowhere"
    key = MetricKey.objects.get(job=job, name="tokens_per_s")
    assert (key.last_step, key.last_value) == (4, 7.0)
    job.refresh_from_db()
    assert (job.step, job.trained_tokens) == (6, 7)
    assert list(RolloutFile.objects.order_by("step").values_list("superseded", flat=True)) == [False, True]
    assert Checkpoint.objects.get(step=7).superseded


def test_an_attempt_from_the_beginning_supersedes_all() -> None:
    job, _, _ = claimed()
    take(job, [values(1, 0, evaluation__reward=0.1), *course(2, 4)])
    job = again(job, from_step=0)
    take(job, [values(1, 0, evaluation__reward=0.3), values(2, 1, reward=9.0)])
    assert series(job) == [(1, 9.0)]
    assert series(job, "evaluation/reward") == [(0, 0.3)]


def test_a_trainer_that_went_further_back_supersedes_more_and_one_that_claims_less_does_not() -> None:
    job, _, _ = claimed()
    take(job, course(1, 9))
    job = again(job, from_step=6)
    take(job, [event(1, 3, "Resumed.", resumed=3)])
    assert [step for step, _ in series(job)] == [1, 2, 3]
    assert TrainingAttempt.objects.get(job=job, number=2).from_step == 3
    take(job, [event(2, 8, "Resumed.", resumed=8), event(3, 0, resumed=-1), event(4, 0, resumed="2")])
    assert [step for step, _ in series(job)] == [1, 2, 3]


def test_an_evaluation_that_is_made_again_on_resuming_counts_once() -> None:
    job, _, _ = claimed()
    take(job, [*course(1, 5), values(6, 5, evaluation__reward=0.5)])
    job = again(job, from_step=5)
    take(job, [event(1, 5, resumed=5), values(2, 5, evaluation__reward=0.7)])
    assert series(job, "evaluation/reward") == [(5, 0.7)]
    assert len(series(job)) == 5, "the step's other numbers stay"


def test_a_number_told_twice_by_one_attempt_is_the_later_one() -> None:
    job, _, _ = claimed()
    take(job, [values(1, 1, reward=0.1), values(2, 1, reward=0.2)])
    take(job, [values(3, 1, reward=0.3)])
    assert series(job) == [(1, 0.3)]


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "values", "seq": 1, "time": 0, "step": 1, "values": {"reward": math.nan}},
        {"kind": "values", "seq": 1, "time": 0, "step": 1, "values": {"reward": math.inf}},
        {"kind": "values", "seq": 0, "time": 0, "step": 1, "values": {}},
        {"kind": "values", "seq": 1, "time": 0, "step": -1, "values": {}},
        {"kind": "event", "seq": 1, "time": 0, "step": 1, "level": "fatal", "message": "x"},
        {"kind": "artefact", "seq": 1, "time": 0, "step": 1, "what": "pickle", "path": "x"},
        {"kind": "python", "seq": 1, "time": 0, "step": 1},
    ],
)
def test_what_is_no_record_is_not_read(record: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RECORDS.validate_python([record])


@pytest.mark.parametrize(
    "record",
    [
        values(1, 2**31, reward=1.0),
        values(1, 10**40, reward=1.0),
        values(1, 1, **{"k" * 301: 1.0}),
        values(1, 1, **{"": 1.0}),
    ],
)
def test_absurd_records_are_refused_and_nothing_is_written(record: dict[str, Any]) -> None:
    job, _, _ = claimed()
    with pytest.raises(Unusable):
        take(job, [record])
    assert not MetricPoint.objects.exists()
    assert TrainingAttempt.objects.get(job=job).next_seq == 1


def test_hostile_texts_and_times_are_kept_within_bounds() -> None:
    job, _, _ = claimed()
    at = [{**event(1, message="a\x00\ud800" + "x" * 9_000), "time": 1e300}, {**event(2), "time": -1e300}]
    large = event(3, data="x" * 20_000)
    take(job, [*at, large, values(4, 1, **{"bad\x00key": 1e308}), event(5, level="warn", lost=10**30)])
    told = TrainingEvent.objects.filter(seq__isnull=False).order_by("seq")
    assert len(told[0].message) == ingest.MESSAGE_CHARS
    assert not {"\x00", "\ud800"} & set(told[0].message)
    assert all(abs((one.at - job.created_at).total_seconds()) < 600 for one in told)
    assert set(told[2].data) == {"left_out"}
    assert MetricPoint.objects.get().value is None
    job.refresh_from_db()
    assert job.infra_errors == 0


def test_the_greatest_numbers_can_be_drawn() -> None:
    job, _, _ = claimed()
    take(job, [values(1 + step, step, reward=(-1) ** step * ingest.LARGEST) for step in range(8)])
    (bucket,) = curves(job, ["reward"], resolution=1)["reward"].buckets
    assert (bucket.min, bucket.max, bucket.mean) == (-ingest.LARGEST, ingest.LARGEST, 0)


def test_a_job_has_a_bounded_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "MOST_KEYS", 3)
    job, _, _ = claimed()
    take(job, [values(1, 1, a=1.0, b=1.0, c=1.0)])
    with pytest.raises(TooManyKeys):
        take(job, [values(2, 2, a=1.0, d=1.0)])
    take(job, [values(2, 2, a=1.0)])


def test_absurd_paces_do_not_overflow_the_count_of_tokens() -> None:
    assert ingest.count_trained_tokens([(1, "tokens_per_s", 1e308), (1, "step_s", 1e308)]) == 10**15
    assert ingest.count_trained_tokens([(1, "tokens_per_s", -5.0), (1, "step_s", 1.0), (2, "step_s", None)]) == 0


def test_an_ended_job_takes_no_more() -> None:
    job, _, _ = claimed()
    take(job, course(1, 2))
    for state in (TrainingState.CANCELLED, TrainingState.PAUSED, TrainingState.SUCCEEDED, TrainingState.FAILED):
        TrainingJob.objects.filter(pk=job.pk).update(state=state)
        with pytest.raises(StaleClaim):
            take(job, course(3, 3))
