"""Filters of a list, each declared once: its parameter, how it is read, the rows that it leaves and its form field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict

from webapp.common.forms import filter_bar
from webapp.common.lists.columns import RowList
from webapp.common.paging import select_window
from webapp.common.query_params import Params

Narrow = Callable[[QuerySet[Any], Any], QuerySet[Any]]
Choice = str | tuple[str, str]


@dataclass(frozen=True)
class ListFilter:
    """One filter. `field` makes its row in the form; a filter without `field` comes from a link and is only carried
    on."""

    name: str
    label: str
    read: Callable[[Params, str], Any]
    narrow: Narrow
    field: Callable[[], forms.Field] | None = None


@dataclass(frozen=True)
class ListQuery:
    """The query of an address on a list: values by filter, the order, and in `problems` the values that cannot be
    read."""

    rows: RowList
    filters: tuple[ListFilter, ...]
    values: Mapping[str, Any]
    order: str
    problems: tuple[str, ...]

    @property
    def any(self) -> bool:
        return any(_is_set(value) for value in self.values.values())

    def narrow(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that every filter leaves."""
        for list_filter in self.filters:
            if _is_set(value := self.values[list_filter.name]):
                rows = list_filter.narrow(rows, value)
        return rows

    def narrow_in_order(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that every filter leaves, in the list's order."""
        return select_window(self.narrow(rows), self.order, None, backward=False)

    def form(self) -> filter_bar.FilterForm:
        """Return the filters as a form above the list, with the hidden parameters that it carries on."""
        form_fields = {one.name: one.field() for one in self.filters if one.field}
        linked = {one.name: self.values[one.name] for one in self.filters if not one.field and one.name != "ids"}
        order = {self.rows.order_parameter: self.order if self.order != self.rows.default_order else ""}
        return filter_bar.FilterForm(self.values, {**form_fields, **filter_bar.make_hidden_fields(linked | order)})

    def linked_chips(self, request: HttpRequest, words: Mapping[str, tuple[str, str]]) -> list[filter_bar.Chip]:
        """Return the chips of filters that came with a link. `words` has, by name, the text of each value and the
        address of its page."""
        chips = []
        for list_filter in self.filters:
            value = self.values[list_filter.name]
            if list_filter.field or not _is_set(value):
                continue
            value_text = f"{len(value)} of the list" if list_filter.name == "ids" else str(value)
            label, page = words.get(list_filter.name, (value_text, ""))
            chips.append(
                filter_bar.Chip(
                    list_filter.label, label, filter_bar.build_url_without(request, list_filter.name), page=page
                )
            )
        return chips


def parse_list_query(rows: RowList, filters: tuple[ListFilter, ...], query: QueryDict) -> ListQuery:
    """Return the list query of an address; values that cannot be read are left out and listed in `problems`."""
    params = Params(query)
    values = {one.name: one.read(params, one.name) for one in filters}
    order = params.choice(rows.order_parameter, rows.orders, rows.default_order)
    problems = tuple(f"{name}={params.text(name, 40)}" for name in params.unreadable)
    return ListQuery(rows, filters, values, order, problems)


def make_choice_filter(
    name: str, label: str, choices: Iterable[Choice], column: str = "", *, first: str = "any"
) -> ListFilter:
    """Return a filter on one of a few values of a column."""
    pairs = [(one, one) if isinstance(one, str) else one for one in choices]
    allowed = {value for value, _ in pairs}
    return ListFilter(
        name,
        label,
        lambda params, key: params.choice(key, allowed),
        lambda rows, value: rows.filter(**{column or name: value}),
        lambda: filter_bar.make_select(label, pairs, first=first),
    )


def make_contains_filter(name: str, label: str, column: str) -> ListFilter:
    """Return a filter on a part of a column's text, which applies while a person types; the key / focuses its field."""
    return ListFilter(
        name,
        label,
        lambda params, key: params.search_text(key),
        lambda rows, value: rows.filter(**{f"{column}__icontains": value}),
        lambda: filter_bar.make_search(label, keyed="Search"),
    )


def make_equals_filter(name: str, label: str, column: str = "", **attrs: Any) -> ListFilter:
    """Return a filter on a column's whole text."""
    return ListFilter(
        name,
        label,
        lambda params, key: params.search_text(key),
        lambda rows, value: rows.filter(**{column or name: value}),
        lambda: filter_bar.make_text(label, **attrs),
    )


def make_flag_filter(name: str, label: str, narrow: Callable[[QuerySet[Any]], QuerySet[Any]]) -> ListFilter:
    """Return a filter with a checkbox."""
    return ListFilter(
        name,
        label,
        lambda params, key: params.flag(key),
        lambda rows, _: narrow(rows),
        lambda: filter_bar.make_checkbox(label),
    )


def make_since_filter(name: str, label: str, column: str) -> ListFilter:
    """Return a filter on rows from a day on (UTC)."""
    return ListFilter(
        name,
        label,
        lambda params, key: params.day(key),
        lambda rows, day: rows.filter(**{f"{column}__gte": datetime.combine(day, time(), UTC)}),
        lambda: filter_bar.make_day(label),
    )


def make_until_filter(name: str, label: str, column: str) -> ListFilter:
    """Return a filter on rows up to a day, inclusive (UTC)."""
    return ListFilter(
        name,
        label,
        lambda params, key: params.day(key),
        lambda rows, day: _narrow_until(rows, column, day),
        lambda: filter_bar.make_day(label),
    )


def make_started_by_filter(user: Any, nobody: str = "the command line") -> ListFilter:
    """Return a filter on `created_by`: the user's own rows, or rows without a user."""
    choices = [("mine", "me"), ("nobody", nobody)]
    return ListFilter(
        "by",
        "Started by",
        lambda params, key: params.choice(key, dict(choices)),
        lambda rows, value: rows.filter(created_by=user.pk if value == "mine" else None),
        lambda: filter_bar.make_select("Started by", choices, first="anybody"),
    )


def make_linked_filter(name: str, label: str, column: str, most: int = 200) -> ListFilter:
    """Return a filter on a column's whole text that only a link sets."""
    return ListFilter(
        name, label, lambda params, key: params.text(key, most), lambda rows, value: rows.filter(**{column: value})
    )


def make_ticked_filter() -> ListFilter:
    """Return a filter on the rows that were ticked in the list."""
    return ListFilter(
        "ids", "Selected", lambda params, key: params.picks(key), lambda rows, keys: rows.filter(pk__in=keys)
    )


def _narrow_until(rows: QuerySet[Any], column: str, day: date) -> QuerySet[Any]:
    if day == date.max:
        return rows
    return rows.filter(**{f"{column}__lt": datetime.combine(day + timedelta(days=1), time(), UTC)})


def _is_set(value: Any) -> bool:
    return value not in ("", None, False, ())
