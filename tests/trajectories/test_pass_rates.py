"""pass@k: the unbiased estimator, by task, policy and setting; what says nothing about an agent has no part in it."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.rollouts_web.support import make_task
from webapp.trajectories.models import Trajectory
from webapp.trajectories.pass_rates import average_pass_at, compute_mean_pass_at, compute_pass_at, load_pass_rates

SPOILT = (("infra_error", None), ("cancelled", None))


@pytest.mark.parametrize(("solved", "tried"), [(0, 3), (1, 3), (2, 5), (3, 3)])
def test_it_is_the_share_of_all_choices_of_k_attempts_with_one_that_solves(solved: int, tried: int) -> None:
    attempts = [place < solved for place in range(tried)]
    for k, share in compute_pass_at(solved, tried):
        chosen = list(combinations(attempts, k))
        assert share == pytest.approx(sum(any(one) for one in chosen) / len(chosen))


def test_one_of_three_and_three_of_three_differ() -> None:
    assert average_pass_at([(1, 3)]) == {"1": 0.333333, "2": 0.666667, "3": 1.0}
    assert average_pass_at([(3, 3)]) == {"1": 1.0, "2": 1.0, "3": 1.0}
    assert average_pass_at([(0, 2), (3, 3)]) == {"1": 0.5, "2": 0.5}
    assert average_pass_at([]) == {}


@pytest.mark.django_db
def test_of_a_task_what_failed_for_us_counts_in_no_rate() -> None:
    task = make_task()
    ended = [("solved", 1.0), ("failed", 0.5), ("program_error", None), *SPOILT]
    for number, (outcome, reward) in enumerate(ended):
        for policy, talk in (("one", False), ("one", True), ("two", False)):
            Trajectory.objects.create(
                environment_id=task.environment_id, task=task, revision=task.current, policy=policy, source="test",
                content_hash=f"{number}-{policy}-{talk}", conversational=talk, outcome=outcome, reward=reward,
                now="", call_count=2,
            )  # fmt: skip
    assert task.current_id is not None
    rates = load_pass_rates(task.current_id)
    assert [(line.policy, line.conversational) for line in rates.lines] == [("one", 0), ("one", 1), ("two", 0)]
    first = rates.lines[0]
    assert (first.solved, first.tried, first.uncounted, first.reward, first.calls) == (1, 3, 2, 0.75, 2.0)
    assert (rates.solved, rates.tried, rates.uncounted) == (3, 9, 6)
    assert [round(share, 3) for _, share in first.at] == [0.333, 0.667, 1.0]
    assert compute_mean_pass_at(Trajectory.objects.filter(policy="one", conversational=False)) == average_pass_at(
        [(1, 3)]
    )
