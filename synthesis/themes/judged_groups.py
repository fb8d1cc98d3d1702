"""Near-duplicates by meaning (ours): vectors propose pairs of themes, a judge decides on each pair.

Undecided pairs stay apart, with the reason: an unavailable judge merges nothing. Pairs that are judged the same make
groups, also through a third theme, but never across a pair that was judged different.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from synthesis.errors import LLMError
from synthesis.themes.dedupe import BLOCK, SAME, FoldedGroup, Member, Pair
from synthesis.themes.pair_judge import SameThemeVerdict
from synthesis.themes.vectors import Matrix, Vectoriser, local

NEAREST = 12
"""Of each theme so many nearest ones are compared with it."""
LEAST_LIKE = 0.02
"""Vectors of two texts that are less alike say that they have nothing in common."""
MOST_PAIRS = 20_000
"""The judge is asked about no more pairs at once; the most alike come first."""
GIVE_UP = 3
"""Calls in a row that fail otherwise than by their reply: then the judge is away, and nobody is asked further."""
NOT_ASKED = "The judge was not asked, since {most:,} pairs were more alike."
Ask = Callable[[int, int], Awaitable[SameThemeVerdict]]
"""The judge's verdict on two texts by their indices, the earlier first. Raises LLMError."""


@dataclass
class JudgedGroups:
    """Groups with their verdicts. `undecided` pairs have the reason why they stay apart."""

    groups: list[FoldedGroup] = field(default_factory=list)
    asked: int = 0
    same: dict[tuple[int, int], str] = field(default_factory=dict)
    different: dict[tuple[int, int], str] = field(default_factory=dict)
    undecided: dict[tuple[int, int], str] = field(default_factory=dict)
    gave_up: str = ""
    """Why nobody was asked further, where the judge could not be asked."""
    likeness: dict[tuple[int, int], float] = field(default_factory=dict)
    """Of the pairs that were proposed, as far as vectors say it."""


def find_candidate_pairs(
    texts: Sequence[str],
    vectorise: Vectoriser = local,
    nearest: int = NEAREST,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> list[Pair]:
    """Return pairs in which one text is among the other's nearest, the most alike first. Blocks.

    Local n-grams are weighted by their rarity in these texts: words that all texts have carry no information. Raise the
    errors of the vectoriser.
    """
    if len(texts) < 2 or not nearest:
        return []
    vectors = _weigh_by_rarity(vectorise(texts))
    total = vectors.shape[0]
    likeness_by_pair: dict[tuple[int, int], float] = {}
    for start in range(0, total, BLOCK):
        tell(start, total)
        for row, column, value in _find_nearest(vectors, start, nearest):
            likeness_by_pair[min(row, column), max(row, column)] = value
    tell(total, total)
    ordered = sorted(likeness_by_pair.items(), key=lambda pair: (-pair[1], pair[0]))
    return [(early, late, min(1.0, value)) for (early, late), value in ordered]


async def judge_groups(
    texts: Sequence[str],
    pairs: Sequence[Pair],
    ask: Ask,
    *,
    apart: Collection[int] = (),
    at_once: int = 8,
    most: int = MOST_PAIRS,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> JudgedGroups:
    """Return groups of texts, the earliest kept. Texts of `apart` are folded into nothing, others may be folded into
    them.

    Raise the errors of `ask` other than LLMError.
    """
    judged, merged = JudgedGroups(), _Merged(len(texts), apart)
    open_pairs: list[tuple[int, int]] = []
    for early, late, _ in pairs:
        if early in apart and late in apart:
            continue
        if texts[early] == texts[late]:
            judged.same[early, late] = "Word for word the same."
            merged.join(early, late, judged.different)
        else:
            open_pairs.append((early, late))
    failed = 0
    for pair in open_pairs[most:]:
        judged.undecided[pair] = NOT_ASKED.format(most=most)
    open_pairs = open_pairs[:most]
    while open_pairs:
        tell(len(judged.same) + len(judged.different) + len(judged.undecided), len(pairs))
        wave, open_pairs = _take_wave(open_pairs, merged, at_once)
        for pair, verdict in zip(wave, await _ask_all(ask, wave), strict=True):
            judged.asked += 1
            if isinstance(verdict, LLMError):
                judged.undecided[pair] = str(verdict)
                failed = 0 if verdict.reason == "malformed" else failed + 1
                continue
            failed = 0
            (judged.same if verdict.same else judged.different)[pair] = verdict.reason
        for early, late in wave:
            if (early, late) in judged.same:
                merged.join(early, late, judged.different)
        if failed >= GIVE_UP:
            judged.gave_up = next(reversed(judged.undecided.values()))
            judged.undecided |= dict.fromkeys(open_pairs, judged.gave_up)
            break
    judged.likeness = {(early, late): value for early, late, value in pairs}
    judged.groups = _build_groups(len(texts), merged, judged.likeness)
    return judged


def build_known_groups(
    count: int,
    same: Iterable[tuple[int, int]],
    different: Collection[tuple[int, int]],
    likeness: Mapping[tuple[int, int], float],
    apart: Collection[int] = (),
) -> list[FoldedGroup]:
    """Return groups of texts by known verdicts, in an order of the texts that may differ."""
    merged = _Merged(count, apart)
    for early, late in same:
        merged.join(early, late, different)
    return _build_groups(count, merged, likeness)


class _Merged:
    """Merged texts so far, by the earliest of them."""

    def __init__(self, count: int, apart: Collection[int]) -> None:
        self.root = list(range(count))
        self.members = [{index} for index in range(count)]
        self.apart = apart

    def join(self, early: int, late: int, different: Collection[tuple[int, int]]) -> None:
        """Merge two groups, unless that joins two themes that were judged different, or that a person keeps apart."""
        kept_root, merged_root = sorted((self.root[early], self.root[late]))
        if kept_root == merged_root or merged_root in self.apart:
            return
        kept_members, merged_members = self.members[kept_root], self.members[merged_root]
        if any((min(a, b), max(a, b)) in different for a in kept_members for b in merged_members):
            return
        kept_members |= merged_members
        for index in merged_members:
            self.root[index] = kept_root


def _take_wave(
    pairs: Sequence[tuple[int, int]], merged: _Merged, at_once: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return pairs to ask about at once, and pairs for later; skip those that are merged already."""
    wave: list[tuple[int, int]] = []
    for place, (early, late) in enumerate(pairs):
        if len(wave) == at_once:
            return wave, list(pairs[place:])
        if merged.root[early] != merged.root[late]:
            wave.append((early, late))
    return wave, []


async def _ask_all(ask: Ask, wave: Sequence[tuple[int, int]]) -> list[SameThemeVerdict | LLMError]:
    tasks = [asyncio.ensure_future(ask(*pair)) for pair in wave]
    try:
        await asyncio.wait(tasks) if tasks else None
        verdicts: list[SameThemeVerdict | LLMError] = []
        for task in tasks:
            error = task.exception()
            if error is not None and not isinstance(error, LLMError):
                raise error
            verdicts.append(error if isinstance(error, LLMError) else task.result())
        return verdicts
    finally:
        for task in tasks:
            task.cancel()


def _build_groups(count: int, merged: _Merged, likeness: Mapping[tuple[int, int], float]) -> list[FoldedGroup]:
    """Return groups in the order of their kept texts.

    The likeness of two texts that were never compared is that to the nearest of the group.
    """
    groups = []
    for kept in range(count):
        if merged.root[kept] != kept:
            continue
        ids = merged.members[kept]
        members = [
            Member(index=index, similarity=round(_compute_likeness(index, kept, ids, likeness), 6))
            for index in sorted(ids - {kept})
        ]
        groups.append(FoldedGroup(kept=kept, members=tuple(members)))
    return groups


def _compute_likeness(index: int, kept: int, ids: Iterable[int], known: Mapping[tuple[int, int], float]) -> float:
    direct = known.get((min(index, kept), max(index, kept)))
    if direct is not None:
        return direct
    return max((known.get((min(index, other), max(index, other)), 0.0) for other in ids if other != index), default=0.0)


def _weigh_by_rarity(vectors: Matrix) -> Matrix:
    if not hasattr(vectors, "tocsr"):
        return vectors
    import numpy as np
    from scipy.sparse import diags

    rows = vectors.tocsr()
    have = np.bincount(rows.indices, minlength=rows.shape[1])
    weighed = rows @ diags(np.log((1 + rows.shape[0]) / (1 + have)) + 1)
    lengths = np.sqrt(np.asarray(weighed.multiply(weighed).sum(axis=1))).ravel()
    return diags(1 / np.where(lengths > 0, lengths, 1)) @ weighed


def _find_nearest(vectors: Matrix, start: int, nearest: int) -> list[tuple[int, int, float]]:
    """Return (row, one of its nearest, likeness) for each row of a block."""
    import numpy as np

    near: Any = vectors[start : start + BLOCK] @ vectors.T
    near = np.asarray(near.todense() if hasattr(near, "todense") else near, dtype=float)
    rows = np.arange(near.shape[0])
    near[rows, rows + start] = -1.0
    neighbour_count = min(nearest, near.shape[1] - 1)
    columns = np.argpartition(-near, neighbour_count - 1, axis=1)[:, :neighbour_count]
    return [
        (int(row + start), int(column), float(near[row, column]))
        for row in rows
        for column in columns[row]
        if near[row, column] >= LEAST_LIKE - SAME
    ]
