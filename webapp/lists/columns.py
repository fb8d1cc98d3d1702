"""Columns of a list: what they are called, which orders they sort by, and which a person sees."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One column. `ascending` and `descending` are values of the list's order parameter; without one it is no sort key.

    A `needed` column is always shown, an `extra` one only where a person chose it.
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
    """A list that pages show: its name in addresses and saved views, its columns and how its order is asked for."""

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
        """The columns for a person who chose these; None for one who has not chosen."""
        if chosen is None:
            return tuple(column for column in self.columns if not column.extra)
        return tuple(column for column in self.columns if column.needed or column.name in chosen)


@dataclass(frozen=True)
class Heading:
    """The head of a column: `url` sorts by it, `sorted` is how it is sorted now (a value of `aria-sort`)."""

    column: Column
    url: str = ""
    sorted: str = ""


def next_order(column: Column, order: str) -> str:
    """The order that a click on the column's head gives: the other way round, or its better end first."""
    if order and order in (column.ascending, column.descending):
        other = column.ascending if order == column.descending else column.descending
        return other or order
    first, second = (column.descending, column.ascending) if column.numeric else (column.ascending, column.descending)
    return first or second


def sorted_as(column: Column, order: str) -> str:
    if order and order == column.ascending:
        return "ascending"
    return "descending" if order and order == column.descending else ""
