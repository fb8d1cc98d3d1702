"""The bootstrap: how far a figure would move had other items of the same kind been labelled.

Whole items are drawn again with replacement, so that the labels of one item stay together; a draw is a row of how often
each item came. A figure that is sums over items is then one product of matrices for all draws at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from synthesis.taxonomy.ratings import Floats

RESAMPLES = 1_000
SEED = 20_261
COVERED = (2.5, 97.5)
"""The percentiles between which the figure stands: 95 % of the draws."""
_CELLS = 4_000_000
"""Weights held at once (32 MB): draws come in portions where there are many items."""


def draws(items: int, resamples: int, seed: int) -> Iterator[Floats]:
    """How often each item was drawn, a row a resample. The same seed gives the same draws."""
    numbers = np.random.default_rng(seed)
    portion = max(1, _CELLS // max(1, items))
    even = np.full(items, 1 / items)
    for start in range(0, resamples, portion):
        yield numbers.multinomial(items, even, size=min(portion, resamples - start)).astype(np.float64)


def interval(
    measure: Callable[[Floats], Floats], items: int, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float | None, float | None]:
    """The 95 % interval of a measure that takes draws and gives a number for each, NaN where it is undefined.

    None where fewer than two items or more undefined draws than half leave nothing to say.
    """
    if items < 2 or not resamples:
        return None, None
    found = np.concatenate([measure(weights) for weights in draws(items, resamples, seed)])
    found = found[np.isfinite(found)]
    if len(found) * 2 < resamples:
        return None, None
    low, high = np.percentile(found, COVERED)
    return float(low), float(high)


def quotient(above: Floats, below: Floats) -> Floats:
    """One by the other, NaN where the other is nothing."""
    return np.divide(above, below, out=np.full_like(below, np.nan), where=below > 0)
