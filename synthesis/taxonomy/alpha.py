"""Krippendorff's alpha: one minus the observed disagreement over the disagreement expected by chance.

Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011). Any number of annotators, gaps allowed; items with
fewer than two labels do not count. His difference function is the square of a metric; here it is the tree distance
itself, which is the square of its root, and the root of an ultrametric is an ultrametric again. So the disagreement in
alpha is the mean distance that an adjudicator sees on each item, and it decomposes by level: it is the mean of the
nominal disagreements at the levels. Squaring the distance once more would give almost no weight to differences at the
leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from synthesis.taxonomy.agreement import LEVELS, Path
from synthesis.taxonomy.figures import NO_PAIR, NO_VARIATION, Figure
from synthesis.taxonomy.ratings import Floats, Integers, Ratings
from synthesis.taxonomy.resamples import RESAMPLES, SEED, bootstrap_interval, divide_or_nan

Difference = Callable[[Sequence[Path]], Floats]
"""How much each two of these values differ: symmetric, 0 on the diagonal."""


def nominal_differences(values: Sequence[Path]) -> Floats:
    """Return 1 between any two values that differ, else 0."""
    return 1.0 - np.eye(len(values))


def make_tree_difference(levels: int = LEVELS) -> Difference:
    """Return the difference function `compute_tree_distance`, by the levels at which ancestors differ."""

    def compute_differences(values: Sequence[Path]) -> Floats:
        if any(len(path) > levels for path in values):
            raise ValueError(f"A path does not fit into a tree of {levels} levels.")
        apart = np.zeros((len(values), len(values)))
        for level in range(1, levels + 1):
            ancestors = _number_values([(path[:level], len(path) < level) for path in values])
            apart += ancestors[:, None] != ancestors[None, :]
        return apart / levels

    return compute_differences


def _number_values(values: Sequence[object]) -> Integers:
    places: dict[object, int] = {}
    return np.asarray([places.setdefault(value, len(places)) for value in values], dtype=np.int64)


def krippendorff_alpha(
    ratings: Ratings, difference: Difference = nominal_differences, *, resamples: int = RESAMPLES, seed: int = SEED
) -> Figure:
    """Return alpha with its interval. Undefined if all pairable labels are the same: chance then predicts no
    disagreement.
    """
    paired = np.flatnonzero(ratings.labels_of_item >= 2)
    left, right = ratings.pairs
    agreeing = int((ratings.value[left] == ratings.value[right]).sum())
    if not len(paired):
        return Figure(None, reason=NO_PAIR)
    differences = difference(ratings.values)
    labels = ratings.labels_of_item[paired].astype(np.float64)
    apart = np.bincount(
        ratings.item[left], differences[ratings.value[left], ratings.value[right]], minlength=len(ratings.items)
    )
    observed = 2 * apart[paired] / (labels - 1)
    counts = ratings.counts[paired]

    def measure_alpha(weights: Floats) -> Floats:
        marginals = (counts.T @ weights.T).T
        total = weights @ labels
        by_chance = ((marginals @ differences) * marginals).sum(axis=1) / (total - 1)
        return 1.0 - divide_or_nan(weights @ observed, by_chance)

    value = float(measure_alpha(np.ones((1, len(paired))))[0])
    pairs, items = len(left), len(paired)
    if not np.isfinite(value):
        return Figure(None, reason=NO_VARIATION, items=items, pairs=pairs, agreeing=agreeing)
    low, high = bootstrap_interval(measure_alpha, items, resamples, seed)
    return Figure(value, low, high, items=items, pairs=pairs, agreeing=agreeing)
