"""Columns of a list: their labels, the orders that they sort by, and those that a person sees."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One column. `ascending` and `descending` are values of the list's order parameter; without one the column is no
    sort key.

    A `needed` column is always shown, an `extra` one only if a person chose it.
    """

    name: str
    label: str
    ascending: str = ""
    descending: str = ""
    numeric: bool = False
    help: str = ""
    needed: bool = False
    extra: bool = False


@dataclass(frozen=True)
class RowList:
    """A list that pages show: its name in addresses and saved views, its columns and its order parameter."""

    name: str
    title: str
    columns: tuple[Column, ...]
    default_order: str = "-id"
    order_parameter: str = "order"

    @property
    def orders(self) -> frozenset[str]:
        """The values that the order parameter may have."""
        named = {order for column in self.columns for order in (column.ascending, column.descending) if order}
        return frozenset(named | {self.default_order})

    def shown(self, chosen: Collection[str] | None) -> tuple[Column, ...]:
        """Return the columns for a person who chose these; None for a person who has not chosen."""
        if chosen is None:
            return tuple(column for column in self.columns if not column.extra)
        return tuple(column for column in self.columns if column.needed or column.name in chosen)


@dataclass(frozen=True)
class Heading:
    """The head of a column: `url` sorts by it, `sorted` is its current value of `aria-sort`."""

    column: Column
    url: str = ""
    sorted: str = ""


def get_next_order(column: Column, order: str) -> str:
    """Return the order that a click on the column's head gives: the reversed one, or its better end first."""
    if order and order in (column.ascending, column.descending):
        other = column.ascending if order == column.descending else column.descending
        return other or order
    first, second = (column.descending, column.ascending) if column.numeric else (column.ascending, column.descending)
    return first or second


def get_aria_sort(column: Column, order: str) -> str:
    if order and order == column.ascending:
        return "ascending"
    return "descending" if order and order == column.descending else ""
