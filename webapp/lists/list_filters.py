"""Filters of a list said once: the parameter of each, how it is read, the rows that it leaves and its form field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict

from webapp.forms import filter_bar
from webapp.lists.columns import RowList
from webapp.paging import window
from webapp.query_params import Params

Narrow = Callable[[QuerySet[Any], Any], QuerySet[Any]]
Choice = str | tuple[str, str]


@dataclass(frozen=True)
class ListFilter:
    """One filter. `field` makes its row in the form; one without came with a link and is only carried on."""

    name: str
    label: str
    read: Callable[[Params, str], Any]
    narrow: Narrow
    field: Callable[[], forms.Field] | None = None


@dataclass(frozen=True)
class ListQuery:
    """What an address asks of a list: values by filter, the order, and in `problems` what it could not mean."""

    rows: RowList
    filters: tuple[ListFilter, ...]
    values: Mapping[str, Any]
    order: str
    problems: tuple[str, ...]

    @property
    def any(self) -> bool:
        return any(_is_set(value) for value in self.values.values())

    def narrow(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """The rows that every filter leaves."""
        for one in self.filters:
            if _is_set(value := self.values[one.name]):
                rows = one.narrow(rows, value)
        return rows

    def narrow_in_order(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """The rows that every filter leaves, in the list's order."""
        return window(self.narrow(rows), self.order, None, backward=False)

    def form(self) -> filter_bar.FilterForm:
        """The filters as a form above the list, with what it carries on besides."""
        shown = {one.name: one.field() for one in self.filters if one.field}
        linked = {one.name: self.values[one.name] for one in self.filters if not one.field and one.name != "ids"}
        order = {self.rows.order_parameter: self.order if self.order != self.rows.default_order else ""}
        return filter_bar.FilterForm(self.values, {**shown, **filter_bar.hidden(linked | order)})

    def linked_chips(self, request: HttpRequest, words: Mapping[str, tuple[str, str]]) -> list[filter_bar.Chip]:
        """The filters that came with a link. `words` has, by name, what each names and the address of its page."""
        chips = []
        for one in self.filters:
            value = self.values[one.name]
            if one.field or not _is_set(value):
                continue
            said = f"{len(value)} of the list" if one.name == "ids" else str(value)
            label, page = words.get(one.name, (said, ""))
            chips.append(filter_bar.Chip(one.label, label, filter_bar.without(request, one.name), page=page))
        return chips


def list_query(rows: RowList, filters: tuple[ListFilter, ...], query: QueryDict) -> ListQuery:
    """What an address asks of a list; what cannot be understood is left out and said."""
    params = Params(query)
    values = {one.name: one.read(params, one.name) for one in filters}
    order = params.choice(rows.order_parameter, rows.orders, rows.default_order)
    problems = tuple(f"{name}={params.text(name, 40)}" for name in params.unreadable)
    return ListQuery(rows, filters, values, order, problems)


def choice(name: str, label: str, choices: Iterable[Choice], column: str = "", *, first: str = "any") -> ListFilter:
    """One of a few values of a column."""
    pairs = [(one, one) if isinstance(one, str) else one for one in choices]
    allowed = {value for value, _ in pairs}
    return ListFilter(
        name,
        label,
        lambda params, key: params.choice(key, allowed),
        lambda rows, value: rows.filter(**{column or name: value}),
        lambda: filter_bar.select(label, pairs, first=first),
    )


def contains(name: str, label: str, column: str) -> ListFilter:
    """A part of a column's text, searched in as one types; the key / leads there."""
    return ListFilter(
        name,
        label,
        lambda params, key: params.search_text(key),
        lambda rows, value: rows.filter(**{f"{column}__icontains": value}),
        lambda: filter_bar.search(label, keyed="Search"),
    )


def equals(name: str, label: str, column: str = "", **attrs: Any) -> ListFilter:
    """A column's whole text."""
    return ListFilter(
        name,
        label,
        lambda params, key: params.search_text(key),
        lambda rows, value: rows.filter(**{column or name: value}),
        lambda: filter_bar.text(label, **attrs),
    )


def flag(name: str, label: str, narrow: Callable[[QuerySet[Any]], QuerySet[Any]]) -> ListFilter:
    """A box to tick."""
    return ListFilter(
        name, label, lambda params, key: params.flag(key), lambda rows, _: narrow(rows), lambda: filter_bar.box(label)
    )


def since(name: str, label: str, column: str) -> ListFilter:
    """From a day on (UTC)."""
    return ListFilter(
        name,
        label,
        lambda params, key: params.day(key),
        lambda rows, day: rows.filter(**{f"{column}__gte": datetime.combine(day, time(), UTC)}),
        lambda: filter_bar.day(label),
    )


def until(name: str, label: str, column: str) -> ListFilter:
    """Up to a day, which it includes (UTC)."""
    return ListFilter(
        name,
        label,
        lambda params, key: params.day(key),
        lambda rows, day: _until(rows, column, day),
        lambda: filter_bar.day(label),
    )


def started_by(user: Any, nobody: str = "the command line") -> ListFilter:
    """Rows with `created_by`: one's own, or nobody's."""
    choices = [("mine", "me"), ("nobody", nobody)]
    return ListFilter(
        "by",
        "Started by",
        lambda params, key: params.choice(key, dict(choices)),
        lambda rows, value: rows.filter(created_by=user.pk if value == "mine" else None),
        lambda: filter_bar.select("Started by", choices, first="anybody"),
    )


def linked(name: str, label: str, column: str, most: int = 200) -> ListFilter:
    """A column's whole text that only a link names."""
    return ListFilter(
        name, label, lambda params, key: params.text(key, most), lambda rows, value: rows.filter(**{column: value})
    )


def ticked() -> ListFilter:
    """Rows that were ticked in the list."""
    return ListFilter(
        "ids", "Selected", lambda params, key: params.picks(key), lambda rows, keys: rows.filter(pk__in=keys)
    )


def _until(rows: QuerySet[Any], column: str, day: date) -> QuerySet[Any]:
    if day == date.max:
        return rows
    return rows.filter(**{f"{column}__lt": datetime.combine(day + timedelta(days=1), time(), UTC)})


def _is_set(value: Any) -> bool:
    return value not in ("", None, False, ())
