"""Krippendorff's alpha: one less what is disagreed over what chance would disagree.

Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011). Any number of annotators, gaps allowed; items with
fewer than two labels do not count. His difference function is the square of a metric; here it is the tree distance
itself, which is the square of its root, and the root of an ultrametric is an ultrametric again. So the disagreement in
alpha is the mean distance that an adjudicator sees on each item, and it falls apart by level: it is the mean of the
nominal disagreements at the levels. Squaring the distance once more would all but forgive what parts at the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from synthesis.taxonomy.agreement import LEVELS, Path
from synthesis.taxonomy.figures import NO_PAIR, NO_VARIATION, Figure
from synthesis.taxonomy.ratings import Floats, Integers, Ratings
from synthesis.taxonomy.resamples import RESAMPLES, SEED, interval, quotient

Difference = Callable[[Sequence[Path]], Floats]
"""How much each two of these values differ: symmetric, 0 on the diagonal."""


def nominal(values: Sequence[Path]) -> Floats:
    """1 between any two that are not the same."""
    return 1.0 - np.eye(len(values))


def on_tree(levels: int = LEVELS) -> Difference:
    """`tree_distance` between each two, by the levels at which their ancestors differ."""

    def differences(values: Sequence[Path]) -> Floats:
        if any(len(path) > levels for path in values):
            raise ValueError(f"A path does not fit into a tree of {levels} levels.")
        apart = np.zeros((len(values), len(values)))
        for level in range(1, levels + 1):
            ancestors = _numbered([(path[:level], len(path) < level) for path in values])
            apart += ancestors[:, None] != ancestors[None, :]
        return apart / levels

    return differences


def _numbered(values: Sequence[object]) -> Integers:
    places: dict[object, int] = {}
    return np.asarray([places.setdefault(value, len(places)) for value in values], dtype=np.int64)


def alpha(
    ratings: Ratings, difference: Difference = nominal, *, resamples: int = RESAMPLES, seed: int = SEED
) -> Figure:
    """Alpha with its interval. Undefined where all pairable labels say the same: then chance disagrees on nothing."""
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

    def measure(weights: Floats) -> Floats:
        marginals = (counts.T @ weights.T).T
        total = weights @ labels
        by_chance = ((marginals @ differences) * marginals).sum(axis=1) / (total - 1)
        return 1.0 - quotient(weights @ observed, by_chance)

    value = float(measure(np.ones((1, len(paired))))[0])
    pairs, items = len(left), len(paired)
    if not np.isfinite(value):
        return Figure(None, reason=NO_VARIATION, items=items, pairs=pairs, agreeing=agreeing)
    low, high = interval(measure, items, resamples, seed)
    return Figure(value, low, high, items=items, pairs=pairs, agreeing=agreeing)
