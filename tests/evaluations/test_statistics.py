"""Numbers of evaluations by other ways: brute force, closed forms, cases by hand."""

from __future__ import annotations

import itertools
import statistics as python_statistics

import numpy as np
import pytest

from webapp.runs.evaluations.comparison import compare_pair
from webapp.runs.evaluations.results import build_horizon_result
from webapp.runs.evaluations.statistics import (
    compute_max_at_k,
    compute_wilson_interval,
    estimate_mean_over_tasks,
    estimate_means_over_tasks,
)
from webapp.runs.evaluations.tried_tasks import TriedTask

REWARDS = [0.0, 0.25, 1.0, 0.5, 1.0, 0.0]


def tried(name: str, rewards: list[float], **left_out: int) -> TriedTask:
    task = TriedTask(
        (name, "v", "task"), "e", None, rewards=rewards, turns=[2] * len(rewards), tokens=[9] * len(rewards)
    )
    task.solved_turns = [2 for reward in rewards if reward == 1.0]
    task.left_out.update(left_out)
    return task


@pytest.mark.parametrize("k", range(1, len(REWARDS) + 1))
def test_max_at_k_is_the_mean_of_the_best_over_all_choices(k: int) -> None:
    expected = python_statistics.fmean(max(chosen) for chosen in itertools.combinations(REWARDS, k))
    assert compute_max_at_k(REWARDS, k) == pytest.approx(expected)


def test_the_interval_is_that_of_a_bootstrap_over_tasks() -> None:
    values = list(np.random.default_rng(1).normal(0.5, 0.2, size=400))
    estimate, same = estimate_mean_over_tasks(values), estimate_mean_over_tasks(values)
    assert estimate is not None
    assert estimate == same, "the same numbers have the same interval"
    assert (estimate.interval, estimate.tasks) == ("bootstrap", 400)
    reach = 1.96 * python_statistics.pstdev(values) / 400**0.5
    assert estimate.value == pytest.approx(python_statistics.fmean(values))
    assert estimate.low == pytest.approx(estimate.value - reach, abs=reach * 0.15)
    assert estimate.high == pytest.approx(estimate.value + reach, abs=reach * 0.15)


def test_where_all_tasks_agree_the_interval_is_no_point() -> None:
    solved, none, turns = estimate_means_over_tasks([[1.0] * 10, [0.0] * 10, []])
    assert solved is not None
    assert none is not None
    assert (solved.interval, solved.high) == ("wilson", pytest.approx(1.0))
    assert solved.low == pytest.approx(0.7225, abs=1e-4)
    assert none.high == pytest.approx(1 - 0.7225, abs=1e-4)
    assert turns is None
    alike = estimate_mean_over_tasks([1.0, 1.0, 1.0], bounded=False)
    assert alike is not None
    assert (alike.value, alike.low, alike.interval) == (1.0, None, "none"), "one turn is no share of anything"


def test_wilson_as_it_is_published() -> None:
    # Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20.
    assert compute_wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert compute_wilson_interval(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert compute_wilson_interval(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_lost_attempts_have_no_part_in_any_number_and_are_shown() -> None:
    whole = build_horizon_result(
        5, [tried("a", [1.0, 0.0, 1.0, 0.0]), tried("b", [1.0, 1.0], lost=2), tried("c", [], lost=4)]
    )
    assert (whole.tasks, whole.attempts, whole.counted, whole.left_out) == (3, 12, 6, {"lost": 6})
    assert whole.success is not None
    assert (whole.success.value, whole.success.tasks) == (0.75, 2)
    assert [(one.k, one.passed.value, one.passed.tasks, one.best.value) for one in whole.at] == [
        (1, 0.75, 2, 0.75),
        (2, pytest.approx((5 / 6 + 1) / 2), 2, pytest.approx((5 / 6 + 1) / 2)),
        (4, 1.0, 1, 1.0),
    ]


def test_pairs_are_of_tasks_that_both_tried() -> None:
    ones = [tried("a", [1.0]), tried("b", [0.5, 0.5]), tried("c", [0.2]), tried("d", [], lost=1), tried("e", [1.0])]
    others = [tried("a", [0.0]), tried("b", [1.0, 0.0]), tried("c", [0.4]), tried("d", [1.0]), tried("f", [1.0])]
    result = compare_pair("one", "other", 5, ones, others)
    assert (result.tasks, result.wins, result.ties, result.losses) == (3, 1, 1, 1)
    assert result.difference is not None
    assert result.difference.value == pytest.approx((1.0 + 0.0 - 0.2) / 3)
    assert result.wins_low == pytest.approx(compute_wilson_interval(1, 3)[0])
    nothing = compare_pair("one", "other", 5, ones[:1], others[1:])
    assert (nothing.tasks, nothing.wins_low, nothing.difference) == (0, None, None)


def test_pass_at_k_ends_with_as_many_attempts_as_a_task_has() -> None:
    three = build_horizon_result(5, [tried("a", [1.0, 0.0, 0.0]), tried("b", [0.0, 0.5, 0.0])])
    assert [(one.k, one.passed.value) for one in three.at] == [
        (1, pytest.approx(1 / 6)), (2, pytest.approx(1 / 3)), (3, 0.5),
    ]  # fmt: skip
    assert [one.k for one in build_horizon_result(5, [tried("a", [1.0] * 5)]).at] == [1, 2, 4, 5]
