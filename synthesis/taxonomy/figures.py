"""A measure of agreement: a number with its interval, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

NO_PAIR = "no item has two labels"
NO_VARIATION = "no variation"
NO_COMMON_ITEM = "no item that both labelled"
ONE_CATEGORY = "only one category to choose"


@dataclass(frozen=True)
class Figure:
    """A figure. `low` to `high` is the 95 % interval; both are None if there are too few items to resample."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    """Why there is no value; empty if there is one."""
    items: int = 0
    """How many items it rests on."""
    pairs: int = 0
    """How many pairs of labels of one item it rests on."""
    agreeing: int = 0
    """How many of the pairs say the same."""
