"""Raw agreement, and Gwet's AC1, which stays meaningful where nearly every label is the same.

Gwet, "Computing inter-rater reliability and its variance in the presence of high agreement" (2008), and for more than
two annotators with gaps his Handbook of Inter-Rater Reliability (4th edition, 2014). Alpha is near 0 where one category
takes nearly all; AC1 takes the chance of agreeing from how hard it is to tell categories apart.
"""

from __future__ import annotations

import numpy as np

from synthesis.taxonomy.figures import NO_PAIR, ONE_CATEGORY, Figure
from synthesis.taxonomy.ratings import Floats, Ratings
from synthesis.taxonomy.resamples import RESAMPLES, SEED, interval, quotient


def raw_agreement(ratings: Ratings, *, resamples: int = RESAMPLES, seed: int = SEED) -> Figure:
    """The share of pairs of labels of one item that say the same, with the counts beside it."""
    paired = np.flatnonzero(ratings.labels_of_item >= 2)
    if not len(paired):
        return Figure(None, reason=NO_PAIR)
    agreeing, pairs = (column[paired] for column in _pairs_of_items(ratings))

    def measure(weights: Floats) -> Floats:
        return quotient(weights @ agreeing, weights @ pairs)

    low, high = interval(measure, len(paired), resamples, seed)
    same, of = int(agreeing.sum()), int(pairs.sum())
    return Figure(same / of, low, high, items=len(paired), pairs=of, agreeing=same)


def ac1(ratings: Ratings, categories: int | None = None, *, resamples: int = RESAMPLES, seed: int = SEED) -> Figure:
    """AC1 with its interval. `categories`: how many could be chosen; without it, how many were."""
    labels = ratings.labels_of_item.astype(np.float64)
    paired = labels >= 2
    if not paired.any():
        return Figure(None, reason=NO_PAIR)
    number = max(categories or 0, len(ratings.values))
    agreeing, pairs = _pairs_of_items(ratings)
    items, all_pairs, same = int(paired.sum()), int(pairs.sum()), int(agreeing.sum())
    if number < 2:
        return Figure(None, reason=ONE_CATEGORY, items=items, pairs=all_pairs, agreeing=same)
    agreed = quotient(agreeing, pairs)
    agreed[~paired] = 0.0
    shares = ratings.counts.multiply(1 / labels[:, None]).tocsr()

    def measure(weights: Floats) -> Floats:
        drawn = weights.sum(axis=1)
        common = (shares.T @ weights.T).T / drawn[:, None]
        by_chance = (common * (1 - common)).sum(axis=1) / (number - 1)
        return quotient(quotient(weights @ agreed, weights @ paired.astype(np.float64)) - by_chance, 1 - by_chance)

    value = float(measure(np.ones((1, len(labels))))[0])
    low, high = interval(measure, len(labels), resamples, seed)
    return Figure(value, low, high, items=items, pairs=all_pairs, agreeing=same)


def _pairs_of_items(ratings: Ratings) -> tuple[Floats, Floats]:
    """For each item, how many pairs of its labels say the same, and how many pairs there are."""
    left, right = ratings.pairs
    same = (ratings.value[left] == ratings.value[right]).astype(np.float64)
    items = len(ratings.items)
    of = np.bincount(ratings.item[left], minlength=items).astype(np.float64)
    return np.bincount(ratings.item[left], same, minlength=items).astype(np.float64), of
