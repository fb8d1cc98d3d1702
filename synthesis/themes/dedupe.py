"""Near-duplicates (ES 3.1, Dedup): themes as vectors, one kept of each group of similar ones.

Every text stands in the group of a kept one that it is at least `threshold` similar to. Groups are not chains: two
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
    """A text that is folded into another, and how similar to it it is."""

    index: int
    similarity: float


class FoldedGroup(Frozen):
    """A kept text with those that are folded into it; most of them have none."""

    kept: int
    members: tuple[Member, ...] = ()


class Count(Frozen):
    """How many groups of more than one there are at a threshold, and how many texts they fold away."""

    threshold: float
    groups: int
    folded: int


def group(texts: Sequence[str], threshold: float, vectorise: Vectoriser = local) -> list[FoldedGroup]:
    """Groups in the order of their kept texts; of similar ones the earlier is kept. Blocks.

    Raises InputError (threshold, too many texts) and what the vectoriser raises.
    """
    return grouped(len(texts), similar(texts, vectorise), require_threshold(threshold))


def theme_text(name: str, description: str, tools: Iterable[str] = ()) -> str:
    """What two themes are compared by. Tools tell apart what boilerplate descriptions make alike."""
    words = f"{name}\n{description}"[:COMPARED]
    return "\n".join([words, *[tool.replace("_", " ") for tool in list(tools)[:TOOLS]]])


def similar(
    texts: Sequence[str], vectorise: Vectoriser = local, tell: Callable[[int, int], None] = lambda done, total: None
) -> list[Pair]:
    """Every pair of texts from `FLOOR` on. `tell(done, total)` is called between blocks and may raise."""
    if len(texts) > MOST_TEXTS:
        raise InputError(f"{len(texts):,} themes cannot be compared at once; {MOST_TEXTS:,} are allowed.")
    if len(texts) < 2:
        return []
    return _pairs(vectorise(texts), tell)


def grouped(count: int, pairs: Iterable[Pair], threshold: float, apart: Collection[int] = ()) -> list[FoldedGroup]:
    """Groups of `count` texts. Those in `apart` are folded into nothing, but others may be folded into them."""
    near: dict[int, list[tuple[float, int]]] = {}
    for early, late, similarity in pairs:
        if similarity >= threshold - SAME:
            near.setdefault(late, []).append((-similarity, early))
    kept: dict[int, list[Member]] = {}
    for index in range(count):
        leaders = [(far, early) for far, early in near.get(index, []) if early in kept]
        if not leaders or index in apart:
            kept[index] = []
            continue
        far, leader = min(leaders)
        kept[leader].append(Member(index=index, similarity=min(1.0, round(-far, 6))))
    return [FoldedGroup(kept=index, members=tuple(members)) for index, members in kept.items()]


def counts(
    count: int, pairs: Sequence[Pair], thresholds: Iterable[float] = THRESHOLDS, apart: Collection[int] = ()
) -> list[Count]:
    """What each threshold would fold, so that a person can choose one."""
    by_threshold = []
    for threshold in thresholds:
        sizes = [len(cluster.members) for cluster in grouped(count, pairs, threshold, apart) if cluster.members]
        by_threshold.append(Count(threshold=threshold, groups=len(sizes), folded=sum(sizes)))
    return by_threshold


def require_threshold(value: float) -> float:
    if not FLOOR <= value <= 1:
        raise InputError(f"A threshold lies between {FLOOR:g} and 1; {value:g} does not.")
    return value


def _pairs(vectors: Matrix, tell: Callable[[int, int], None]) -> list[Pair]:
    import numpy as np  # with scikit-learn, only where something is compared

    total = vectors.shape[0]
    pairs: list[Pair] = []
    for start in range(0, total, BLOCK):
        tell(start, total)
        near = vectors[start:] @ vectors[start : start + BLOCK].T
        if hasattr(near, "tocoo"):
            near = near.tocoo()
            rows, columns, values = near.row, near.col, near.data
            wanted = (values >= FLOOR - SAME) & (rows > columns)
            rows, columns, values = rows[wanted], columns[wanted], values[wanted]
        else:
            rows, columns = np.nonzero(near >= FLOOR - SAME)
            rows, columns = rows[rows > columns], columns[rows > columns]
            values = near[rows, columns]
        pairs += zip((columns + start).tolist(), (rows + start).tolist(), values.tolist(), strict=True)
    tell(total, total)
    return pairs
