"""Bootstrap: how far a figure would move if other items of the same kind had been labelled.

Whole items are drawn with replacement, so that the labels of one item stay together; a draw is a row with the count of
each item. A figure that consists of sums over items is then one product of matrices for all draws at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from synthesis.taxonomy.ratings import Floats

RESAMPLES = 1_000
SEED = 20_261
COVERED = (2.5, 97.5)
"""The percentiles between which the figure is: 95 % of the draws."""
_CELLS = 4_000_000
"""Weights held at once (32 MB): draws come in portions if there are many items."""


def draw_resamples(items: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each item was drawn, one row per resample. The same seed gives the same draws."""
    numbers = np.random.default_rng(seed)
    portion = max(1, _CELLS // max(1, items))
    even = np.full(items, 1 / items)
    for start in range(0, resamples, portion):
        yield numbers.multinomial(items, even, size=min(portion, resamples - start)).astype(np.float64)


def bootstrap_interval(
    measure: Callable[[Floats], Floats], items: int, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float | None, float | None]:
    """Return the 95 % interval of a measure that takes draws and returns a number for each, NaN if it is undefined.

    Return (None, None) if there are fewer than two items, or if more than half of the draws are undefined.
    """
    if items < 2 or not resamples:
        return None, None
    measured = np.concatenate([measure(weights) for weights in draw_resamples(items, resamples, seed)])
    measured = measured[np.isfinite(measured)]
    if len(measured) * 2 < resamples:
        return None, None
    low, high = np.percentile(measured, COVERED)
    return float(low), float(high)


def divide_or_nan(above: Floats, below: Floats) -> Floats:
    """Divide one by the other, NaN where the divisor is 0."""
    return np.divide(above, below, out=np.full_like(below, np.nan), where=below > 0)
