"""Table that every measure reads: labels by annotator and item."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from synthesis.taxonomy.agreement import Path

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Row = tuple[Hashable, Hashable, Path]
"""Item, annotator, label."""


@dataclass(frozen=True, eq=False)
class Ratings:
    """Labels as three columns of indices. Gaps are missing rows; order has no meaning."""

    items: tuple[Hashable, ...]
    annotators: tuple[Hashable, ...]
    values: tuple[Path, ...]
    item: Integers
    annotator: Integers
    value: Integers

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Ratings:
        listed = list(rows)
        columns = [_index_column([row[place] for row in listed]) for place in range(3)]
        (items, item), (annotators, annotator), (values, value) = columns
        order = np.argsort(item, kind="stable")
        return cls(items, annotators, values, item[order], annotator[order], value[order])

    def rows(self) -> list[Row]:
        columns = zip(self.item.tolist(), self.annotator.tolist(), self.value.tolist(), strict=True)
        return [(self.items[item], self.annotators[by], self.values[value]) for item, by, value in columns]

    def at_level(self, level: int) -> Ratings:
        """Return the same labels cut to this level; a label that ends above it stays as it is."""
        return Ratings.of([(item, by, path[:level]) for item, by, path in self.rows()])

    def without(self, annotators: Collection[Hashable]) -> Ratings:
        return Ratings.of([row for row in self.rows() if row[1] not in annotators])

    @cached_property
    def labels_of_item(self) -> Integers:
        return np.bincount(self.item, minlength=len(self.items))

    @cached_property
    def counts(self) -> Any:
        """Number of times that each item was given each value: a sparse matrix, items by values."""
        from scipy.sparse import csr_matrix

        ones = np.ones(len(self.item))
        return csr_matrix((ones, (self.item, self.value)), shape=(len(self.items), len(self.values)))

    @cached_property
    def pairs(self) -> tuple[Integers, Integers]:
        """Every two labels of one item, as two columns of rows. Rows are sorted by item, so the two are neighbours."""
        most = int(self.labels_of_item.max(initial=0))
        steps = range(1, most)
        left = [np.flatnonzero(self.item[:-step] == self.item[step:]) for step in steps]
        right = [rows + step for rows, step in zip(left, steps, strict=True)]
        empty = [np.empty(0, dtype=np.int64)]
        return np.concatenate(left or empty), np.concatenate(right or empty)


def _index_column(column: list[Any]) -> tuple[tuple[Any, ...], Integers]:
    places: dict[Any, int] = {}
    numbers = [places.setdefault(value, len(places)) for value in column]
    return tuple(places), np.asarray(numbers, dtype=np.int64)
