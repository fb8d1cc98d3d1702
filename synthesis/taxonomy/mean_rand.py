"""The mean adjusted Rand index of annotators' groupings, with an interval.

The index is that of Hubert and Arabie, "Comparing Partitions" (Journal of Classification 2, 1985). Its interval is that
of the jackknife (Efron and Stein, "The Jackknife Estimate of Variance", Annals of Statistics 9, 1981): each thing is
left out once. The bootstrap would draw some things twice, and everybody would agree that a thing is with its copy.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from synthesis.taxonomy.figures import Figure
from synthesis.taxonomy.pairs import Likeness
from synthesis.taxonomy.ratings import Floats, Integers
from synthesis.taxonomy.resamples import quotient

STANDARD_ERRORS = 1.96
"""On each side of the value: 95 % of a normal distribution."""
FEWEST = 3
"""Without one of fewer things there are not two left to compare."""
NOT_TWO = "fewer than two people grouped"

Grouping = Mapping[Any, Hashable]


def mean_rand(groupings: Mapping[Any, Grouping], indices: Sequence[Likeness]) -> Figure:
    """Return the mean of those indices that are defined, with its 95 % interval."""
    defined = [one for one in indices if one.rand.value is not None]
    if not defined:
        return Figure(None, reason=indices[0].rand.reason if indices else NOT_TWO)
    value = sum(one.rand.value or 0.0 for one in defined) / len(defined)
    things = list(dict.fromkeys(thing for one in defined for thing in groupings[one.one]))
    without = [_without_each(groupings[one.one], groupings[one.other], things) for one in defined]
    low, high = _interval(value, np.array(without))
    return Figure(value, low, high, items=max(one.rand.items for one in defined), pairs=len(defined))


def _interval(value: float, without: Floats) -> tuple[float | None, float | None]:
    """The interval from the indices (a row for each two annotators) without each thing in turn (a column each)."""
    known = np.isfinite(without)
    counted = known.sum(axis=0)
    means = quotient(np.where(known, without, 0.0).sum(axis=0), counted.astype(np.float64))
    means = means[counted > 0]
    number = len(means)
    if number < FEWEST or number * 2 < without.shape[1]:
        return None, None
    error = float(np.sqrt((number - 1) / number * ((means - means.mean()) ** 2).sum()))
    return max(-1.0, value - STANDARD_ERRORS * error), min(1.0, value + STANDARD_ERRORS * error)


def _without_each(left: Grouping, right: Grouping, things: Sequence[Any]) -> Floats:
    """The index of two groupings without each of these things; NaN if it is undefined."""
    common = [thing for thing in things if thing in left and thing in right]
    one, other = _numbered([left[thing] for thing in common]), _numbered([right[thing] for thing in common])
    table = np.zeros((int(one.max()) + 1, int(other.max()) + 1))
    np.add.at(table, (one, other), 1)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    # A thing that is left out takes one pair along for each other thing of its group.
    together = _pairs(table).sum() - (table[one, other] - 1)
    in_left, in_right = _pairs(rows).sum() - (rows[one] - 1), _pairs(columns).sum() - (columns[other] - 1)
    by_chance = in_left * in_right / max(1.0, float(_pairs(np.array(len(common) - 1.0))))
    found = quotient(together - by_chance, (in_left + in_right) / 2 - by_chance)
    by_thing = dict(zip(common, found.tolist(), strict=True))
    return np.array([by_thing.get(thing, np.nan) for thing in things])


def _pairs(counts: Floats) -> Floats:
    """How many pairs there are of so many things."""
    found: Floats = counts * (counts - 1) / 2
    return found


def _numbered(groups: Sequence[Hashable]) -> Integers:
    places: dict[Hashable, int] = {}
    return np.asarray([places.setdefault(group, len(places)) for group in groups], dtype=np.int64)
