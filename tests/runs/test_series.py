"""Numbers in buckets, against the same computed row by row in Python on random series."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from tests.runs.job_support import frozen, lessons
from webapp.runs.curves.series import Bucket, load_series
from webapp.runs.models import MetricKey, MetricPoint, TrainingJob
from webapp.runs.queries import list_keys

pytestmark = pytest.mark.django_db

Point = tuple[int, int, float | None, bool]
"""(step, attempt, value, superseded)"""


def job() -> TrainingJob:
    return TrainingJob.objects.create(method="supervised", model="m", dataset=frozen(lessons()))


def add(row: TrainingJob, name: str, points: list[Point]) -> None:
    last = max((step for step, *_ in points), default=0)
    key = MetricKey.objects.create(job=row, name=name, last_step=last)
    MetricPoint.objects.bulk_create(
        MetricPoint(key=key, step=step, attempt=attempt, value=value, superseded=gone)
        for step, attempt, value, gone in points
    )


def by_hand(points: list[Point], low: int, high: int, width: int) -> list[Bucket]:
    newest: dict[int, tuple[int, float | None]] = {}
    for step, attempt, value, gone in points:
        if not gone and low <= step <= high and attempt >= newest.get(step, (0, None))[0]:
            newest[step] = (attempt, value)
    buckets: dict[int, list[tuple[int, float | None]]] = defaultdict(list)
    for step in sorted(newest):
        buckets[(step - low) // width].append((step, newest[step][1]))
    found = []
    for place in sorted(buckets):
        steps = [step for step, _ in buckets[place]]
        known = [value for _, value in buckets[place] if value is not None]
        found.append(
            Bucket(
                first=steps[0],
                last_step=steps[-1],
                points=len(steps),
                gaps=len(steps) - len(known),
                min=min(known, default=None),
                max=max(known, default=None),
                mean=sum(known) / len(known) if known else None,
                last=known[-1] if known else None,
            )
        )
    return found


def random_points(dice: random.Random) -> list[Point]:
    """Gaps, steps without numbers, and a second attempt that begins somewhere and supersedes what was behind."""
    end, turn = dice.randint(1, 400), dice.randint(0, 400)
    value = lambda: None if dice.random() < 0.1 else dice.uniform(-5, 5)  # noqa: E731
    first = [(step, 1, value(), step > turn) for step in range(end + 1) if dice.random() < 0.8]
    second = [(step, 2, value(), False) for step in range(turn, turn + dice.randint(0, 200)) if dice.random() < 0.8]
    return first + second


@pytest.mark.parametrize("seed", range(12))
def test_buckets_are_what_a_loop_over_all_points_gives(seed: int) -> None:
    dice = random.Random(seed)
    row, points = job(), {name: random_points(dice) for name in ("loss", "environment/a b/reward")}
    for name, told in points.items():
        add(row, name, told)
    last = max(step for told in points.values() for step, *_ in told)
    for _ in range(6):
        low, resolution = dice.choice([None, dice.randint(0, last)]), dice.choice([1, 2, 7, 50, 1_000])
        high = dice.choice([None, dice.randint(low or 0, last + 50)])
        found = load_series(row, points, low, high, resolution)
        end = last if high is None else min(high, last)
        width = max(1, -(-(end - (low or 0) + 1) // resolution))
        for name, told in points.items():
            expected = by_hand(told, low or 0, end, width)
            if name != "loss":  # no attempts were sent of these rewards
                expected = [one.model_copy(update={"unverified": one.points}) for one in expected]
            assert found[name].width == width
            assert len(found[name].buckets) <= resolution
            assert [one.model_dump(exclude={"mean"}) for one in found[name].buckets] == [
                one.model_dump(exclude={"mean"}) for one in expected
            ]
            for mine, theirs in zip(found[name].buckets, expected, strict=True):
                assert (mine.mean is None) == (theirs.mean is None)
                assert mine.mean is None or mine.mean == pytest.approx(theirs.mean or 0.0, rel=1e-9, abs=1e-9)


def test_a_spike_is_seen_at_every_resolution() -> None:
    row = job()
    add(row, "kl", [(step, 1, 100.0 if step == 777 else 0.1, False) for step in range(2_000)])
    for resolution in (1, 10, 300):
        assert max(one.max or 0 for one in load_series(row, ["kl"], resolution=resolution)["kl"].buckets) == 100.0


def test_names_without_numbers_and_ranges_without_points_give_nothing() -> None:
    row = job()
    add(row, "loss", [(3, 1, 1.0, False)])
    assert load_series(row, ["reward"]) == {}
    assert load_series(row, ["loss", "loss", "no such"], from_step=10)["loss"].buckets == ()
    assert load_series(row, ["loss"], 0, 2)["loss"].buckets == ()
    assert [key.name for key in list_keys(row)] == ["loss"]


def test_other_jobs_numbers_stay_out() -> None:
    mine, other = job(), job()
    points: list[Any] = [(step, 1, 1.0, False) for step in range(5)]
    add(mine, "loss", points)
    add(other, "loss", [(step, 1, 2.0, False) for step in range(9)])
    assert {one.max for one in load_series(mine, ["loss"])["loss"].buckets} == {1.0}
