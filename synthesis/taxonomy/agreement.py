"""Distance of two nodes of a tree, and disagreement of the labels of one item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

Path = tuple[Hashable, ...]
"""A node as the ids from the first level down to it. The empty path is a label too: no node fits."""
LEVELS = 3
"""How deep the taxonomy is, and so how finely two labels can part."""


def count_shared_levels(one: Path, other: Path) -> int:
    """Return how many levels two paths have in common, from the first down."""
    shared = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        shared += 1
    return shared


def compute_tree_distance(one: Path, other: Path, levels: int = LEVELS) -> float:
    """Return 0 for the same node, else the share of the tree's levels that the two do not have in common: 1 for no
    common one.

    A node and one below it are apart as well: naming the branch is not naming the leaf. It is the mean over the levels
    of "another ancestor there?", in which a path that ends early counts as another. It is a metric, even an
    ultrametric: `a` and `c` share at least the fewer of the levels that `a`, `b` and `b`, `c` share, so d(a, c) <=
    max(d(a, b), d(b, c)).
    """
    if max(len(one), len(other)) > levels:
        raise ValueError(f"A path of {max(len(one), len(other))} steps does not fit into a tree of {levels} levels.")
    return 0.0 if one == other else 1.0 - count_shared_levels(one, other) / levels


@dataclass(frozen=True)
class Disagreement:
    """Disagreement of the labels of one item."""

    distance: float | None
    """Mean distance of each pair of labels; None if there are fewer than two."""
    odd: Hashable | None = None
    """The annotator who differs from all others, if three or more labelled and the others say the same."""


def measure_disagreement(labels: Mapping[Hashable, Path], levels: int = LEVELS) -> Disagreement:
    """Return how far the labels of one item, by annotator, are apart, and the annotator who alone differs from the
    rest.
    """
    paths = list(labels.values())
    if len(paths) < 2:
        return Disagreement(None)
    apart = [compute_tree_distance(one, other, levels) for one, other in combinations(paths, 2)]
    return Disagreement(sum(apart) / len(apart), _find_odd_annotator(labels, paths))


def _find_odd_annotator(labels: Mapping[Hashable, Path], paths: Sequence[Path]) -> Hashable | None:
    tally = Counter(paths)
    if len(paths) < 3 or len(tally) != 2 or min(tally.values()) != 1:
        return None
    return next(annotator for annotator, path in labels.items() if tally[path] == 1)
