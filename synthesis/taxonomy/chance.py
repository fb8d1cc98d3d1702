"""Raw agreement, and Gwet's AC1, which stays meaningful if nearly every label is the same.

Gwet, "Computing inter-rater reliability and its variance in the presence of high agreement" (2008), and for more than
two annotators with gaps his Handbook of Inter-Rater Reliability (4th edition, 2014). Alpha is near 0 if one category
takes nearly all; AC1 derives the chance of agreeing from how hard it is to distinguish categories.
"""

from __future__ import annotations

import numpy as np

from synthesis.taxonomy.figures import NO_PAIR, ONE_CATEGORY, Figure
from synthesis.taxonomy.ratings import Floats, Ratings
from synthesis.taxonomy.resamples import RESAMPLES, SEED, bootstrap_interval, divide_or_nan


def raw_agreement(ratings: Ratings, *, resamples: int = RESAMPLES, seed: int = SEED) -> Figure:
    """Return the share of pairs of labels of one item that agree, with the counts."""
    paired = np.flatnonzero(ratings.labels_of_item >= 2)
    if not len(paired):
        return Figure(None, reason=NO_PAIR)
    agreeing, pairs = (column[paired] for column in _count_item_pairs(ratings))

    def measure_agreement(weights: Floats) -> Floats:
        return divide_or_nan(weights @ agreeing, weights @ pairs)

    low, high = bootstrap_interval(measure_agreement, len(paired), resamples, seed)
    same, of = int(agreeing.sum()), int(pairs.sum())
    return Figure(same / of, low, high, items=len(paired), pairs=of, agreeing=same)


def gwet_ac1(
    ratings: Ratings, categories: int | None = None, *, resamples: int = RESAMPLES, seed: int = SEED
) -> Figure:
    """Return AC1 with its interval. `categories`: the number of available ones; by default, the number of those
    used.
    """
    labels = ratings.labels_of_item.astype(np.float64)
    paired = labels >= 2
    if not paired.any():
        return Figure(None, reason=NO_PAIR)
    number = max(categories or 0, len(ratings.values))
    agreeing, pairs = _count_item_pairs(ratings)
    items, all_pairs, same = int(paired.sum()), int(pairs.sum()), int(agreeing.sum())
    if number < 2:
        return Figure(None, reason=ONE_CATEGORY, items=items, pairs=all_pairs, agreeing=same)
    agreed = divide_or_nan(agreeing, pairs)
    agreed[~paired] = 0.0
    shares = ratings.counts.multiply(1 / labels[:, None]).tocsr()

    def measure_ac1(weights: Floats) -> Floats:
        drawn = weights.sum(axis=1)
        common = (shares.T @ weights.T).T / drawn[:, None]
        by_chance = (common * (1 - common)).sum(axis=1) / (number - 1)
        return divide_or_nan(
            divide_or_nan(weights @ agreed, weights @ paired.astype(np.float64)) - by_chance, 1 - by_chance
        )

    value = float(measure_ac1(np.ones((1, len(labels))))[0])
    low, high = bootstrap_interval(measure_ac1, len(labels), resamples, seed)
    return Figure(value, low, high, items=items, pairs=all_pairs, agreeing=same)


def _count_item_pairs(ratings: Ratings) -> tuple[Floats, Floats]:
    """Return for each item the number of agreeing pairs of its labels, and the number of all pairs."""
    left, right = ratings.pairs
    same = (ratings.value[left] == ratings.value[right]).astype(np.float64)
    items = len(ratings.items)
    of = np.bincount(ratings.item[left], minlength=items).astype(np.float64)
    return np.bincount(ratings.item[left], same, minlength=items).astype(np.float64), of
