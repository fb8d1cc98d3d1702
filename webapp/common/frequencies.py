"""Frequencies of values, in an order that does not depend on the order in which a database returned them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T", bound=str)


def rank_by_count(counts: Mapping[T, int]) -> list[tuple[T, int]]:
    """Return (value, count) of each value: the most frequent first, equally frequent ones by name."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
