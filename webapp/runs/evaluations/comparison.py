"""Comparison of evaluations: win, tie and loss task by task (ES Figure 5), and how far their means are apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from synthesis.contracts import Frozen, is_same_reward
from webapp.runs.evaluations.results import EvaluationResults, get_results, get_results_by_horizon
from webapp.runs.evaluations.statistics import Estimate, compute_wilson_interval, estimate_mean_over_tasks
from webapp.runs.evaluations.tried_tasks import TriedTask
from webapp.runs.models import TrainingJob

MOST = 8
"""Evaluations that are compared at once."""


class PairResult(Frozen):
    """Two evaluations on the tasks that both tried with the same verifier. `first` wins a task if its attempts earned
    more on average. `low` and `high` are Wilson's interval of the share of tasks; `difference` is the mean reward of
    `first` less that of `second`, its interval by a bootstrap over the tasks, paired."""

    first: str
    second: str
    horizon: int
    tasks: int
    wins: int
    ties: int
    losses: int
    wins_low: float | None
    wins_high: float | None
    losses_low: float | None
    losses_high: float | None
    difference: Estimate | None


class Comparison(Frozen):
    """Evaluations side by side. `horizon` is the one that pairs are compared at; None if the evaluations share none."""

    evaluations: tuple[EvaluationResults, ...]
    horizons: tuple[int, ...]
    horizon: int | None
    pairs: tuple[PairResult, ...]


def compare_results(jobs: Sequence[TrainingJob], horizon: int | None = None) -> Comparison:
    """Compare evaluations side by side, and every two of them at `horizon`, or at the longest that all of them have."""
    results_by_horizon = [get_results_by_horizon(job) for job in jobs]
    shared = sorted(set.intersection(*(set(found) for found in results_by_horizon))) if results_by_horizon else []
    chosen = horizon if horizon in shared else shared[-1] if shared else None
    pairs = []
    if chosen is not None:
        for (one, first), (other, second) in combinations(zip(jobs, results_by_horizon, strict=True), 2):
            pairs.append(compare_pair(one.public_id, other.public_id, chosen, first[chosen][0], second[chosen][0]))
    return Comparison(
        evaluations=tuple(get_results(job) for job in jobs),
        horizons=tuple(shared),
        horizon=chosen,
        pairs=tuple(pairs),
    )


def compare_pair(
    first: str, second: str, horizon: int, ones: Sequence[TriedTask], others: Sequence[TriedTask]
) -> PairResult:
    """Compare two evaluations' attempts at one horizon, task by task."""
    tasks_by_key = {task.key: task for task in others if task.tried}
    both: list[tuple[TriedTask, TriedTask]] = [
        (task, tasks_by_key[task.key]) for task in ones if task.tried and task.key in tasks_by_key
    ]
    wins = sum(one.mean > other.mean and not is_same_reward(one.mean, other.mean) for one, other in both)
    losses = sum(one.mean < other.mean and not is_same_reward(one.mean, other.mean) for one, other in both)
    total = len(both)
    won, lost = (
        (compute_wilson_interval(wins, total), compute_wilson_interval(losses, total))
        if total
        else ((None, None), (None, None))
    )
    return PairResult(
        first=first,
        second=second,
        horizon=horizon,
        tasks=total,
        wins=wins,
        ties=total - wins - losses,
        losses=losses,
        wins_low=won[0],
        wins_high=won[1],
        losses_low=lost[0],
        losses_high=lost[1],
        difference=estimate_mean_over_tasks([one.mean - other.mean for one, other in both], bounded=False),
    )
