"""Equally frequent values are listed by name, in whatever order the database gave them."""

from collections import Counter

from webapp.common.frequencies import rank_by_count


def test_equally_frequent_values_are_ranked_by_name() -> None:
    ranked = [("solved", 3), ("approved", 2), ("in_review", 2)]
    for rows in ("in_review approved solved", "solved approved in_review", "approved solved in_review"):
        counts = Counter(rows.split() * 2 + ["solved"])
        assert rank_by_count(counts) == ranked
