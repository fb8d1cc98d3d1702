"""Near-duplicates (ES 3.1, Dedup): themes as vectors, one kept of each group of similar ones.

Every text belongs to the group of a kept one with a similarity of at least `threshold`. Groups are not chains: two
texts that are only similar through a third one do not become one theme.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from synthesis.themes.vectors import Matrix, Vectoriser, local

FLOOR = 0.5
"""No two themes below this similarity are ever compared further, whatever the threshold."""
THRESHOLDS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
MOST_TEXTS = 50_000
"""Comparing is quadratic: 2,000 take seconds, 20,000 minutes."""
BLOCK = 512
COMPARED = 4_000
"""Characters of a text that are compared."""
TOOLS = 40
SAME = 1e-6
"""Rounding: two equal texts are not always 1 apart from nothing."""

Pair = tuple[int, int, float]
"""(earlier index, later index, similarity)."""


class Member(Frozen):
    """Text that is folded into another, and its similarity to it."""

    index: int
    similarity: float


class FoldedGroup(Frozen):
    """Kept text with those that are folded into it; most have none."""

    kept: int
    members: tuple[Member, ...] = ()


class Count(Frozen):
    """Number of groups of more than one at a threshold, and of the texts they fold away."""

    threshold: float
    groups: int
    folded: int


def group_texts(texts: Sequence[str], threshold: float, vectorise: Vectoriser = local) -> list[FoldedGroup]:
    """Return groups in the order of their kept texts; of similar ones the earlier is kept. Blocks.

    Raise InputError (threshold, too many texts) and the errors of the vectoriser.
    """
    return group_pairs(len(texts), find_similar_pairs(texts, vectorise), require_threshold(threshold))


def build_theme_text(name: str, description: str, tools: Iterable[str] = ()) -> str:
    """Return the text by which themes are compared. Tools distinguish themes with the same boilerplate description."""
    words = f"{name}\n{description}"[:COMPARED]
    return "\n".join([words, *[tool.replace("_", " ") for tool in list(tools)[:TOOLS]]])


def find_similar_pairs(
    texts: Sequence[str], vectorise: Vectoriser = local, tell: Callable[[int, int], None] = lambda done, total: None
) -> list[Pair]:
    """Return every pair of texts from `FLOOR` on. The progress callback is called between blocks and may raise."""
    if len(texts) > MOST_TEXTS:
        raise InputError(f"{len(texts):,} themes cannot be compared at once; {MOST_TEXTS:,} are allowed.")
    if len(texts) < 2:
        return []
    return _compute_pairs(vectorise(texts), tell)


def group_pairs(count: int, pairs: Iterable[Pair], threshold: float, apart: Collection[int] = ()) -> list[FoldedGroup]:
    """Return groups of `count` texts. Those in `apart` are folded into nothing, but others may be folded into them."""
    near: dict[int, list[tuple[float, int]]] = {}
    for early, late, similarity in pairs:
        if similarity >= threshold - SAME:
            near.setdefault(late, []).append((-similarity, early))
    members_by_kept: dict[int, list[Member]] = {}
    for index in range(count):
        leaders = [(far, early) for far, early in near.get(index, []) if early in members_by_kept]
        if not leaders or index in apart:
            members_by_kept[index] = []
            continue
        far, leader = min(leaders)
        members_by_kept[leader].append(Member(index=index, similarity=min(1.0, round(-far, 6))))
    return [FoldedGroup(kept=index, members=tuple(members)) for index, members in members_by_kept.items()]


def count_by_threshold(
    count: int, pairs: Sequence[Pair], thresholds: Iterable[float] = THRESHOLDS, apart: Collection[int] = ()
) -> list[Count]:
    """Return the texts that each threshold would fold, so that a user can choose one."""
    by_threshold = []
    for threshold in thresholds:
        sizes = [len(cluster.members) for cluster in group_pairs(count, pairs, threshold, apart) if cluster.members]
        by_threshold.append(Count(threshold=threshold, groups=len(sizes), folded=sum(sizes)))
    return by_threshold


def require_threshold(value: float) -> float:
    if not FLOOR <= value <= 1:
        raise InputError(f"A threshold lies between {FLOOR:g} and 1; {value:g} does not.")
    return value


def _compute_pairs(vectors: Matrix, tell: Callable[[int, int], None]) -> list[Pair]:
    import numpy as np  # imported here: only a comparison needs it

    total = vectors.shape[0]
    pairs: list[Pair] = []
    for start in range(0, total, BLOCK):
        tell(start, total)
        near = vectors[start:] @ vectors[start : start + BLOCK].T
        if hasattr(near, "tocoo"):
            near = near.tocoo()
            rows, columns, values = near.row, near.col, near.data
            is_near = (values >= FLOOR - SAME) & (rows > columns)
            rows, columns, values = rows[is_near], columns[is_near], values[is_near]
        else:
            rows, columns = np.nonzero(near >= FLOOR - SAME)
            rows, columns = rows[rows > columns], columns[rows > columns]
            values = near[rows, columns]
        pairs += zip((columns + start).tolist(), (rows + start).tolist(), values.tolist(), strict=True)
    tell(total, total)
    return pairs
