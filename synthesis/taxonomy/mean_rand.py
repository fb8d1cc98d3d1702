"""Mean adjusted Rand index of annotators' groupings, with an interval.

The index is that of Hubert and Arabie, "Comparing Partitions" (Journal of Classification 2, 1985). Its interval is that
of the jackknife (Efron and Stein, "The Jackknife Estimate of Variance", Annals of Statistics 9, 1981): each item is
left out once. The bootstrap would draw some items twice, and all annotators would group an item with its copy.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from synthesis.taxonomy.figures import Figure
from synthesis.taxonomy.pairs import Likeness
from synthesis.taxonomy.ratings import Floats, Integers
from synthesis.taxonomy.resamples import divide_or_nan

STANDARD_ERRORS = 1.96
"""On each side of the value: 95 % of a normal distribution."""
FEWEST = 3
"""Without one of fewer things there are not two left to compare."""
NOT_TWO = "fewer than two people grouped"

Grouping = Mapping[Any, Hashable]


def compute_mean_rand(groupings: Mapping[Any, Grouping], indices: Sequence[Likeness]) -> Figure:
    """Return the mean of those indices that are defined, with its 95 % interval."""
    defined = [one for one in indices if one.rand.value is not None]
    if not defined:
        return Figure(None, reason=indices[0].rand.reason if indices else NOT_TWO)
    value = sum(one.rand.value or 0.0 for one in defined) / len(defined)
    things = list(dict.fromkeys(thing for one in defined for thing in groupings[one.one]))
    without = [_compute_without_each(groupings[one.one], groupings[one.other], things) for one in defined]
    low, high = _compute_interval(value, np.array(without))
    return Figure(value, low, high, items=max(one.rand.items for one in defined), pairs=len(defined))


def _compute_interval(value: float, without: Floats) -> tuple[float | None, float | None]:
    """Return the interval from the indices (a row for each two annotators) without each item in turn (a column
    each).
    """
    is_defined = np.isfinite(without)
    counted = is_defined.sum(axis=0)
    means = divide_or_nan(np.where(is_defined, without, 0.0).sum(axis=0), counted.astype(np.float64))
    means = means[counted > 0]
    number = len(means)
    if number < FEWEST or number * 2 < without.shape[1]:
        return None, None
    error = float(np.sqrt((number - 1) / number * ((means - means.mean()) ** 2).sum()))
    return max(-1.0, value - STANDARD_ERRORS * error), min(1.0, value + STANDARD_ERRORS * error)


def _compute_without_each(left: Grouping, right: Grouping, things: Sequence[Any]) -> Floats:
    """Return the index of two groupings without each of these items; NaN if it is undefined."""
    common = [thing for thing in things if thing in left and thing in right]
    one, other = _number_groups([left[thing] for thing in common]), _number_groups([right[thing] for thing in common])
    table = np.zeros((int(one.max()) + 1, int(other.max()) + 1))
    np.add.at(table, (one, other), 1)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    # Leaving out an item removes one pair for each other item of its group.
    together = _count_pairs(table).sum() - (table[one, other] - 1)
    in_left, in_right = _count_pairs(rows).sum() - (rows[one] - 1), _count_pairs(columns).sum() - (columns[other] - 1)
    by_chance = in_left * in_right / max(1.0, float(_count_pairs(np.array(len(common) - 1.0))))
    indices = divide_or_nan(together - by_chance, (in_left + in_right) / 2 - by_chance)
    by_thing = dict(zip(common, indices.tolist(), strict=True))
    return np.array([by_thing.get(thing, np.nan) for thing in things])


def _count_pairs(counts: Floats) -> Floats:
    """Return the number of pairs of so many items."""
    found: Floats = counts * (counts - 1) / 2
    return found


def _number_groups(groups: Sequence[Hashable]) -> Integers:
    places: dict[Hashable, int] = {}
    return np.asarray([places.setdefault(group, len(places)) for group in groups], dtype=np.int64)
