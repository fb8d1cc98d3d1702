"""Near-duplicates between two sides of texts: to each text of one side the nearest of the other, where one is near.

Comparing every text with every other would be quadratic. So each text's n-grams (those that themes are compared by)
become a signature of minhashes; what agrees in one of its bands is a candidate (locality-sensitive hashing), and only
the candidates whose signatures agree most are compared exactly. At a cosine of 0.9 one pair of thousands is missed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.themes.vectors import local

BANDS = 20
ROWS = 4
CANDIDATES = 12
"""Of those that share a band so many are looked at for each band."""
COMPARED = 4
"""So many candidates of a text are compared exactly."""
CHUNK = 1_000
SEED = 20_260_101
Texts = Callable[[Sequence[int]], list[str]]
"""The texts of these numbers: they need not all be held."""


@dataclass(frozen=True)
class NearPair:
    """A text of the side that is asked about, its nearest of the other side, and how similar they are (cosine)."""

    asked: int
    other: int
    similarity: float


def near_pairs(
    asked: Texts,
    asked_count: int,
    others: Texts,
    other_count: int,
    threshold: float,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> list[NearPair]:
    """Pairs by the number of the asked text. `tell(done, total)` counts texts, and may raise to stop."""
    if not asked_count or not other_count:
        return []
    total = asked_count * 2 + other_count
    known = _signatures(others, other_count, lambda done: tell(done, total))
    wanted = _signatures(asked, asked_count, lambda done: tell(other_count + done, total))
    candidates = _candidates(known, wanted)
    pairs: list[NearPair] = []
    for start in range(0, asked_count, CHUNK):
        numbers = range(start, min(start + CHUNK, asked_count))
        pairs += _exact(asked, others, numbers, candidates, threshold)
        tell(other_count + asked_count + numbers.stop, total)
    return pairs


def _signatures(texts: Texts, count: int, tell: Callable[[int], None]) -> Any:
    """A row of minhashes a text."""
    import numpy as np  # with scikit-learn, only where something is compared

    luck = random.Random(SEED)
    factors = [(luck.randrange(1, 2**32) | 1, luck.randrange(2**32)) for _ in range(BANDS * ROWS)]
    found = np.full((count, BANDS * ROWS), 2**32 - 1, dtype=np.uint32)
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        matrix = local(texts(range(start, stop)))
        filled = np.flatnonzero(np.diff(matrix.indptr))
        if len(filled):
            grams, begins = _mixed(matrix.indices), matrix.indptr[filled]
            for place, (factor, shift) in enumerate(factors):
                hashed = grams * np.uint32(factor) + np.uint32(shift)
                hashed ^= hashed >> np.uint32(15)
                found[start + filled, place] = np.minimum.reduceat(hashed, begins)
        tell(stop)
    return found


def _mixed(indices: Any) -> Any:
    """Places of n-grams, spread over 32 bits: neighbours are no neighbours any more."""
    import numpy as np

    value = indices.astype(np.uint32)
    value = (value ^ (value >> np.uint32(16))) * np.uint32(0x7FEB352D)
    value = (value ^ (value >> np.uint32(15))) * np.uint32(0x846CA68B)
    return value ^ (value >> np.uint32(16))


def _candidates(known: Any, wanted: Any) -> list[list[int]]:
    """Of each wanted text the known ones whose signatures agree most, of those that agree in a band."""
    import numpy as np

    shared: list[set[int]] = [set() for _ in range(len(wanted))]
    for band in range(BANDS):
        part = slice(band * ROWS, (band + 1) * ROWS)
        of_known, of_wanted = (_band(signatures[:, part]) for signatures in (known, wanted))
        order = np.argsort(of_known, kind="stable")
        ranked = of_known[order]
        begins, ends = np.searchsorted(ranked, of_wanted), np.searchsorted(ranked, of_wanted, side="right")
        for number in np.flatnonzero(ends > begins).tolist():
            begin, end = int(begins[number]), int(ends[number])
            # Of very many alike some, spread over all of them.
            step = max(1, (end - begin) // CANDIDATES)
            shared[number].update(order[begin:end:step][:CANDIDATES].tolist())
    best = []
    for number, numbers in enumerate(shared):
        listed = sorted(numbers)
        if len(listed) > COMPARED:
            agreeing = (known[listed] == wanted[number]).sum(axis=1)
            listed = [listed[place] for place in np.argsort(-agreeing, kind="stable")[:COMPARED].tolist()]
        best.append(listed)
    return best


def _band(part: Any) -> Any:
    """The minhashes of a band as one number."""
    import numpy as np

    value = np.zeros(len(part), dtype=np.uint64)
    for column in range(part.shape[1]):
        value = value * np.uint64(0x9E3779B97F4A7C15) + part[:, column].astype(np.uint64)
        value ^= value >> np.uint64(29)
    return value


def _exact(
    asked: Texts, others: Texts, numbers: range, candidates: list[list[int]], threshold: float
) -> list[NearPair]:
    import numpy as np

    with_some = [number for number in numbers if candidates[number]]
    if not with_some:
        return []
    left = [number for number in with_some for _ in candidates[number]]
    right = [other for number in with_some for other in candidates[number]]
    distinct = sorted(set(right))
    rows = {number: place for place, number in enumerate(with_some)}
    columns = {number: place for place, number in enumerate(distinct)}
    first, second = local(asked(with_some)), local(others(distinct))
    one, other = first[[rows[number] for number in left]], second[[columns[number] for number in right]]
    values = np.asarray(one.multiply(other).sum(axis=1)).ravel()
    found: dict[int, NearPair] = {}
    for number, near, value in zip(left, right, values.tolist(), strict=True):
        similarity = min(1.0, round(value, 6))
        if similarity >= threshold and (number not in found or similarity > found[number].similarity):
            found[number] = NearPair(number, near, similarity)
    return [found[number] for number in sorted(found)]
