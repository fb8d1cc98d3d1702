"""Krippendorff's alpha from its definition, item by item and draw by draw: slow, and plainly right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import permutations

import numpy as np

from synthesis.taxonomy.agreement import Path
from synthesis.taxonomy.alpha import Difference
from synthesis.taxonomy.ratings import Ratings
from synthesis.taxonomy.resamples import COVERED, draw_resamples


def plain_alpha(
    ratings: Ratings, difference: Difference, resamples: int, seed: int
) -> tuple[float | None, float, float]:
    """Value and interval, from the same draws as the fast one."""
    matrix = difference(ratings.values)
    number = {path: place for place, path in enumerate(ratings.values)}
    labels: dict[object, list[Path]] = defaultdict(list)
    for item, _, path in ratings.rows():
        labels[item].append(path)
    items = [[number[path] for path in given] for given in labels.values() if len(given) > 1]
    found = []
    for weights in draw_resamples(len(items), resamples, seed):
        for row in weights.astype(int).tolist():
            drawn = [item for item, times in zip(items, row, strict=True) for _ in range(times)]
            found.append(_alpha(drawn, matrix))
    defined = [value for value in found if value is not None]
    low, high = np.percentile(defined, COVERED)
    return _alpha(items, matrix), float(low), float(high)


def _alpha(items: Sequence[Sequence[int]], matrix: np.ndarray) -> float | None:
    everything = [value for given in items for value in given]
    observed = sum(
        matrix[one, other] / (len(given) - 1) for given in items for one, other in permutations(given, 2)
    ) / len(everything)
    tally = np.bincount(everything, minlength=len(matrix))
    chance = 0.0
    for one, times in enumerate(tally.tolist()):
        for other, more in enumerate(tally.tolist()):
            chance += matrix[one, other] * times * (more if one != other else more - 1)
    chance /= len(everything) * (len(everything) - 1)
    return None if not chance else float(1 - observed / chance)
