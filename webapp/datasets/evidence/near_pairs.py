"""Near-duplicates between two sides of texts: for each text of one side the nearest of the other, if one is near.

Comparing every text with every other would be quadratic. So each text's n-grams (those that themes are compared by)
become a signature of minhashes, and signatures are sorted by several orders of their columns, a tree each (an LSH
forest). The neighbours of a text in this order that begin as it does are candidates, and only those whose whole
signatures agree most are compared exactly. At a cosine of 0.9 one pair of thousands is missed; if very many texts are
half alike, about one of fifty.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.themes.vectors import local

TREES = 20
ROWS = 4
"""A candidate has the first so many columns of a tree in common."""
DEPTH = 16
"""Number of columns that a tree is sorted by: among many equal beginnings, equal continuations are adjacent."""
BESIDE = 6
"""Number of neighbours that are compared on each side."""
COMPARED = 4
"""Number of candidates of a text that are compared exactly."""
CHUNK = 250
SEED = 20_260_101
NONE = -1
Texts = Callable[[Sequence[int]], list[str]]
"""The texts of these numbers: they need not all be held."""


@dataclass(frozen=True)
class NearPair:
    """A text of the side that is asked about, its nearest of the other side, and how similar they are (cosine)."""

    asked: int
    other: int
    similarity: float


def find_near_pairs(
    asked: Texts,
    asked_count: int,
    others: Texts,
    other_count: int,
    threshold: float,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> list[NearPair]:
    """Return pairs by the number of the asked text. The callback gets (done, total) texts, and may raise to stop."""
    if not asked_count or not other_count:
        return []
    total = asked_count * 2 + other_count
    known_signatures = _compute_signatures(others, other_count, lambda done: tell(done, total))
    asked_signatures = _compute_signatures(asked, asked_count, lambda done: tell(other_count + done, total))
    neighbours = _find_neighbours(known_signatures, asked_signatures, lambda: tell(other_count + asked_count, total))
    pairs: list[NearPair] = []
    for start in range(0, asked_count, CHUNK):
        numbers = range(start, min(start + CHUNK, asked_count))
        candidates = _select_candidates(
            known_signatures, asked_signatures[numbers.start : numbers.stop], neighbours[numbers.start : numbers.stop]
        )
        pairs += _compare_exactly(asked, others, numbers, candidates, threshold)
        tell(other_count + asked_count + numbers.stop, total)
    return pairs


def _compute_signatures(texts: Texts, count: int, tell: Callable[[int], None]) -> Any:
    """Return one row of minhashes for each text."""
    import numpy as np  # with scipy, so only loaded for a comparison

    luck = random.Random(SEED)
    factors = [(luck.randrange(1, 2**32) | 1, luck.randrange(2**32)) for _ in range(TREES * ROWS)]
    signatures = np.full((count, TREES * ROWS), 2**32 - 1, dtype=np.uint32)
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        matrix = local(texts(range(start, stop)))
        filled = np.flatnonzero(np.diff(matrix.indptr))
        if len(filled):
            grams, begins = _mix_bits(matrix.indices), matrix.indptr[filled]
            for place, (factor, shift) in enumerate(factors):
                hashed = grams * np.uint32(factor) + np.uint32(shift)
                hashed ^= hashed >> np.uint32(15)
                signatures[start + filled, place] = np.minimum.reduceat(hashed, begins)
        tell(stop)
    return signatures


def _mix_bits(indices: Any) -> Any:
    """Spread the places of n-grams over 32 bits, so that neighbouring places are no longer neighbours."""
    import numpy as np

    value = indices.astype(np.uint32)
    value = (value ^ (value >> np.uint32(16))) * np.uint32(0x7FEB352D)
    value = (value ^ (value >> np.uint32(15))) * np.uint32(0x846CA68B)
    return value ^ (value >> np.uint32(16))


def _find_neighbours(known: Any, wanted: Any, tell: Callable[[], None]) -> Any:
    """Return a row for each wanted text: its known neighbours in each tree, whether they begin alike or not."""
    import numpy as np

    count, width = known.shape
    everyone = np.concatenate([known, wanted])
    neighbours = np.empty((len(wanted), TREES * 2 * BESIDE), dtype=np.int32)
    for tree in range(TREES):
        columns = [(tree * ROWS + step) % width for step in range(DEPTH)]
        order = np.lexsort([everyone[:, column] for column in reversed(columns)])
        is_known = order < count
        ranked = order[is_known]
        before = np.empty(len(wanted), dtype=np.int64)
        before[order[~is_known] - count] = np.cumsum(is_known)[~is_known]
        places = (before[:, None] + np.arange(-BESIDE, BESIDE)).clip(0, count - 1)
        neighbours[:, tree * 2 * BESIDE : (tree + 1) * 2 * BESIDE] = ranked[places]
        tell()
    return neighbours


def _select_candidates(known: Any, wanted: Any, beside: Any) -> list[list[int]]:
    """Return for each wanted text the candidates whose signatures agree most, of those that have a tree's first
    columns in common with it."""
    import numpy as np

    sorted_numbers = np.sort(beside, axis=1)
    same = known[sorted_numbers] == wanted[:, None, :]
    agreeing = same.sum(axis=2)
    begins_alike = same.reshape(*sorted_numbers.shape, TREES, ROWS).all(axis=3).any(axis=2)
    twice = np.zeros(sorted_numbers.shape, dtype=bool)
    twice[:, 1:] = sorted_numbers[:, 1:] == sorted_numbers[:, :-1]
    agreeing[twice | ~begins_alike] = NONE
    best = np.argsort(-agreeing, axis=1, kind="stable")[:, :COMPARED]
    rows = np.arange(len(sorted_numbers))[:, None]
    chosen_numbers = np.where(agreeing[rows, best] == NONE, NONE, sorted_numbers[rows, best])
    return [[number for number in row if number != NONE] for row in chosen_numbers.tolist()]


def _compare_exactly(
    asked: Texts, others: Texts, numbers: range, candidates: list[list[int]], threshold: float
) -> list[NearPair]:
    import numpy as np

    pairs = [(number, other) for number, near in zip(numbers, candidates, strict=True) for other in near]
    if not pairs:
        return []
    asked_numbers, right = (sorted(set(side)) for side in zip(*pairs, strict=True))
    rows = {number: place for place, number in enumerate(asked_numbers)}
    columns = {number: place for place, number in enumerate(right)}
    first, second = local(asked(asked_numbers)), local(others(right))
    asked_rows, other = first[[rows[pair[0]] for pair in pairs]], second[[columns[pair[1]] for pair in pairs]]
    values = np.asarray(asked_rows.multiply(other).sum(axis=1)).ravel()
    best_pairs: dict[int, NearPair] = {}
    for (number, near), value in zip(pairs, values.tolist(), strict=True):
        similarity = min(1.0, round(value, 6))
        if similarity >= threshold and (number not in best_pairs or similarity > best_pairs[number].similarity):
            best_pairs[number] = NearPair(number, near, similarity)
    return [best_pairs[number] for number in sorted(best_pairs)]
