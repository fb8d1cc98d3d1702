"""Figures of each two annotators: Cohen's kappa, the adjusted Rand index and raw agreement; and the confusion of
labels.

scikit-learn computes kappa and the Rand index; the interval of kappa is the bootstrap of `resamples.py`. The Rand index
has none: an item drawn twice would always be in one group with itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from synthesis.taxonomy.agreement import Path
from synthesis.taxonomy.figures import NO_COMMON_ITEM, NO_PAIR, NO_VARIATION, Figure
from synthesis.taxonomy.ratings import Floats, Integers, Ratings
from synthesis.taxonomy.resamples import RESAMPLES, SEED, bootstrap_interval, divide_or_nan


@dataclass(frozen=True)
class Pair:
    """Agreement of two annotators on the items that both labelled."""

    one: Hashable
    other: Hashable
    raw: Figure
    kappa: Figure


def compute_kappas(ratings: Ratings, *, resamples: int = RESAMPLES, seed: int = SEED) -> tuple[Pair, ...]:
    """Return Cohen's kappa and raw agreement of each two annotators, in the order of the annotators."""
    table = _build_answer_table(ratings)
    numbered = list(enumerate(ratings.annotators))
    return tuple(
        Pair(one, other, *_compute_kappa(table[left], table[right], resamples, seed))
        for (left, one), (right, other) in combinations(numbered, 2)
    )


def _build_answer_table(ratings: Ratings) -> Integers:
    """Return annotators by items: the index of the given value, or -1."""
    table = np.full((len(ratings.annotators), len(ratings.items)), -1, dtype=np.int64)
    table[ratings.annotator, ratings.item] = ratings.value
    return table


def _compute_kappa(left: Integers, right: Integers, resamples: int, seed: int) -> tuple[Figure, Figure]:
    from sklearn.metrics import cohen_kappa_score

    in_both = (left >= 0) & (right >= 0)
    one, other = left[in_both], right[in_both]
    items = len(one)
    if not items:
        return Figure(None, reason=NO_COMMON_ITEM), Figure(None, reason=NO_COMMON_ITEM)
    same = (one == other).astype(np.float64)
    agreeing = int(same.sum())

    def measure_share(weights: Floats) -> Floats:
        return weights @ same / items

    used, codes = np.unique(np.concatenate([one, other]), return_inverse=True)
    first, second = (np.eye(len(used))[part] for part in (codes[:items], codes[items:]))

    def measure_kappa(weights: Floats) -> Floats:
        by_chance = ((weights @ first) * (weights @ second)).sum(axis=1) / items**2
        return divide_or_nan(measure_share(weights) - by_chance, 1 - by_chance)

    low, high = bootstrap_interval(measure_share, items, resamples, seed)
    raw = Figure(agreeing / items, low, high, items=items, pairs=items, agreeing=agreeing)
    if len(used) < 2:
        return raw, Figure(None, reason=NO_VARIATION, items=items, pairs=items, agreeing=agreeing)
    low, high = bootstrap_interval(measure_kappa, items, resamples, seed)
    value = float(cohen_kappa_score(one, other))
    return raw, Figure(value, low, high, items=items, pairs=items, agreeing=agreeing)


@dataclass(frozen=True)
class Likeness:
    """Similarity of two annotators' groupings of the same items."""

    one: Hashable
    other: Hashable
    rand: Figure


def compute_rand_indices(groupings: Mapping[Any, Mapping[Any, Hashable]]) -> tuple[Likeness, ...]:
    """Return the adjusted Rand index of each two annotators' groupings (annotator: item: group), over the items that
    both grouped.
    """
    return tuple(
        Likeness(one, other, _compute_rand(groupings[one], groupings[other]))
        for one, other in combinations(groupings, 2)
    )


def _compute_rand(left: Mapping[Any, Hashable], right: Mapping[Any, Hashable]) -> Figure:
    from sklearn.metrics import adjusted_rand_score
    from sklearn.metrics.cluster import pair_confusion_matrix

    common = [thing for thing in left if thing in right]
    if len(common) < 2:
        return Figure(None, reason=NO_PAIR if not common else "only one thing that both grouped", items=len(common))
    one, other = (_number_groups([side[thing] for thing in common]) for side in (left, right))
    (apart_in_both, _), (_, together_in_both) = pair_confusion_matrix(one, other)
    pairs, agreeing = len(common) * (len(common) - 1) // 2, int(apart_in_both + together_in_both) // 2
    kinds = {len(set(one)), len(set(other))}
    if kinds == {1} or kinds == {len(common)}:
        return Figure(None, reason=NO_VARIATION, items=len(common), pairs=pairs, agreeing=agreeing)
    return Figure(float(adjusted_rand_score(one, other)), items=len(common), pairs=pairs, agreeing=agreeing)


def _number_groups(groups: Sequence[Hashable]) -> list[int]:
    places: dict[Hashable, int] = {}
    return [places.setdefault(group, len(places)) for group in groups]


@dataclass(frozen=True)
class Parting:
    """Two different values of labels of the same item, and the number of pairs of labels with them."""

    one: Path
    other: Path
    pairs: int


@dataclass(frozen=True)
class Confusion:
    """Differing values of pairs of labels of one item, most often first, and agreeing values."""

    pairs: int
    agreeing: int
    partings: tuple[Parting, ...]
    together: tuple[tuple[Path, int], ...]
    """By value, how many pairs agree on it; most first, values without agreement at the end."""


def count_confusion(ratings: Ratings) -> Confusion:
    """Count every two values that were given to one item."""
    left, right = (ratings.value[rows] for rows in ratings.pairs)
    lower, higher = np.minimum(left, right).tolist(), np.maximum(left, right).tolist()
    pair_counts = Counter(zip(lower, higher, strict=True))
    agreed = Counter({one: count for (one, other), count in pair_counts.items() if one == other})
    parted = sorted((-count, one, other) for (one, other), count in pair_counts.items() if one != other)
    order = sorted(range(len(ratings.values)), key=lambda value: (-agreed[value], value))
    return Confusion(
        pairs=len(left),
        agreeing=sum(agreed.values()),
        partings=tuple(Parting(ratings.values[one], ratings.values[other], -count) for count, one, other in parted),
        together=tuple((ratings.values[value], agreed[value]) for value in order),
    )
