"""The distance of two nodes is a metric of the tree, and the disagreement about an item is its mean."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from synthesis.taxonomy.agreement import Path, compute_tree_distance, measure_disagreement
from synthesis.taxonomy.alpha import make_tree_difference
from synthesis.taxonomy.pairs import count_confusion
from synthesis.taxonomy.ratings import Ratings

NODES: list[Path] = [(), *(path for depth in (1, 2, 3) for path in product("ab", repeat=depth))]


def test_the_distance_is_the_share_of_levels_not_shared() -> None:
    wards = ("health", "wards", "beds")
    for other, apart in [
        (wards, 0.0),
        (("health", "wards", "shifts"), 1 / 3),
        (("health", "wards"), 1 / 3),
        (("health", "clinics", "beds"), 2 / 3),
        (("health",), 2 / 3),
        (("travel", "wards", "beds"), 1.0),
        ((), 1.0),
    ]:
        assert compute_tree_distance(wards, other) == compute_tree_distance(other, wards) == pytest.approx(apart)
    assert compute_tree_distance(("yes",), ("no",), levels=1) == 1.0
    with pytest.raises(ValueError, match="4 steps does not fit into a tree of 3 levels"):
        compute_tree_distance(("a", "b", "c", "d"), ("a",))


def test_the_distance_is_an_ultrametric_and_one_with_the_matrix_of_alpha() -> None:
    matrix = make_tree_difference()(NODES)
    for (row, one), (column, other) in product(enumerate(NODES), repeat=2):
        apart = compute_tree_distance(one, other)
        assert matrix[row, column] == pytest.approx(apart)
        assert (apart == 0) == (one == other)
    assert (matrix[:, None, :] <= np.maximum(matrix[:, :, None], matrix[None, :, :]) + 1e-12).all()


@pytest.mark.parametrize(
    ("labels", "distance", "odd"),
    [
        ((("health", "wards"), ("health", "wards"), ("health", "clinics")), 0.44, "tove"),
        ((("travel", "ferries"), ("logistics", "freight"), ("logistics", "sea")), 0.89, None),
        (
            (("health", "pharmacy", "stock"), ("health", "pharmacy", "sale"), ("health", "pharmacy", "stock")),
            0.22,
            "marek",
        ),
        ((("a",), ("b",), ("c",)), 1.0, None),
        ((("a",), ("a",), ("a",)), 0.0, None),
        ((("a",), ("b",)), 1.0, None),
        ((("a",),), None, None),
    ],
)
def test_the_disagreement_of_one_item(labels: tuple[Path, ...], distance: float | None, odd: str | None) -> None:
    found = measure_disagreement(dict(zip(("ines", "marek", "tove"), labels, strict=False)))
    assert found.odd == odd
    assert found.distance == (None if distance is None else pytest.approx(distance, abs=0.005))


def test_two_against_two_leave_nobody_alone() -> None:
    assert measure_disagreement({"a": ("x",), "b": ("x",), "c": ("y",), "d": ("y",)}).odd is None
    assert measure_disagreement({"a": ("x",), "b": ("x",), "c": ("x",), "d": ("y",)}).odd == "d"


def test_where_labels_part_at_a_level() -> None:
    ratings = Ratings.of(
        [
            (1, "ines", ("travel", "ferries")),
            (1, "marek", ("logistics", "sea")),
            (1, "tove", ("logistics", "freight")),
            (2, "ines", ("travel", "rail")),
            (2, "marek", ("travel", "ferries")),
            (3, "ines", ("health",)),
        ]
    )
    found = count_confusion(ratings.at_level(1))
    assert (found.pairs, found.agreeing) == (4, 2)
    assert [({part.one, part.other}, part.pairs) for part in found.partings] == [({("travel",), ("logistics",)}, 2)]
    assert dict(found.together) == {("travel",): 1, ("logistics",): 1, ("health",): 0}
    deep = count_confusion(ratings)
    assert (deep.agreeing, len(deep.partings)) == (0, 4)
    assert ratings.without({"ines"}).annotators == ("marek", "tove")
