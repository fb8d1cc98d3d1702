"""Context of a page with a list: headings, chips, saved views and columns, as `templates/lists/` draws them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, QueryDict
from django.urls import reverse

from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.common.forms.filter_bar import Chip, FilterForm, build_url_without
from webapp.common.lists.columns import Column, Heading, RowList, get_aria_sort, get_next_order
from webapp.common.lists.list_filters import ListQuery
from webapp.common.lists.models import ColumnChoice, SavedView
from webapp.common.lists.registry import PAGES
from webapp.common.lists.services import normalize_query
from webapp.common.paging import CURSORS, Page, build_page_link
from webapp.common.query_params import Params, find_unread_names

MOST_UNKNOWN = 5


@dataclass(frozen=True)
class ViewTab:
    """A saved view as a tab."""

    view: SavedView
    url: str
    current: bool
    mine: bool


@dataclass(frozen=True)
class ShownList:
    """A list as a page draws it. `shows` holds the names of the columns that are shown."""

    rows: RowList
    page: Page
    form: FilterForm
    headings: tuple[Heading, ...]
    shows: frozenset[str]
    choices: tuple[tuple[Column, bool], ...]
    chips: tuple[Chip, ...]
    tabs: tuple[ViewTab, ...]
    url: str
    query: str
    reordered: bool
    """Whether the person asked for another order than the list has at first."""
    place: str = ""
    """The parameters that give the position of the list on a page with several; they are not filters."""
    given: QueryDict | None = None
    """The parameters of the request."""

    @property
    def narrowed(self) -> int:
        """The number of filters that are set."""
        return sum(chip.set for chip in self.chips)

    @property
    def unknown(self) -> list[str]:
        """The parameters of the address that the page does not know. It is read when the page is drawn, after its
        filters."""
        names = find_unread_names(self.given) if self.given is not None else []
        return [name for name in names if name not in CURSORS][:MOST_UNKNOWN]

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Name and value of each parameter that says what is shown, as the fields of a form."""
        return [(name, str(value)) for name, values in _parse_parameters(self.query).items() for value in values]

    @property
    def has_further_pages(self) -> bool:
        return bool(self.page.before or self.page.after)

    @property
    def clear(self) -> str:
        """The address of the whole list, in its current order."""
        order = self.rows.order_parameter
        order_parameters = [f"{order}={value}" for value in _parse_parameters(self.query).get(order, ())][:1]
        parameters_kept = "&".join(filter(None, [self.place, *order_parameters]))
        return f"{self.url}?{parameters_kept}" if parameters_kept else self.url

    @property
    def saved(self) -> bool:
        """True if the list is unfiltered, or is a saved view without changes."""
        return not self.query or any(tab.current for tab in self.tabs)


def build_shown_list(
    request: HttpRequest, rows: RowList, page: Page, form: FilterForm, more: Sequence[Chip] = (), place: str = ""
) -> ShownList:
    """Return a list for the person who sent the request. `more` are filters that the address has and the form has
    not."""
    order = Params(request.GET).text(rows.order_parameter, 40) or rows.default_order
    columns = rows.shown(_CHOSEN.first(owner=request.user.pk, name=rows.name))
    shows = frozenset(column.name for column in columns)
    query = normalize_query(request.GET.urlencode())
    return ShownList(
        rows=rows,
        page=page,
        form=form,
        headings=tuple(build_headings(request, rows, columns, order)),
        shows=shows,
        choices=tuple((column, column.name in shows) for column in rows.columns),
        chips=(*more, *form.chips(request)),
        tabs=tuple(_build_view_tabs(request, rows, query)),
        url=request.path if request.method in ("GET", "HEAD") else reverse(PAGES[rows.name]),
        query=query,
        reordered=order != rows.default_order,
        place=place,
        given=request.GET,
    )


def build_filtered_list(
    request: HttpRequest, asked: ListQuery, page: Page, words: Mapping[str, tuple[str, str]] | None = None
) -> ShownList:
    """Return a list whose filters are `ListFilter`s; `words` has the name and the page of what linked filters point
    to."""
    return build_shown_list(request, asked.rows, page, asked.form(), asked.linked_chips(request, words or {}))


def build_heading(request: HttpRequest, rows: RowList, column: Column, order: str) -> Heading:
    """Return the head of a column of a list in this order."""
    next_value = get_next_order(column, order)
    if not next_value:
        return Heading(column)
    url = build_url_without(request, rows.order_parameter) if next_value == rows.default_order else ""
    return Heading(
        column, url or build_page_link(request, **{rows.order_parameter: next_value}), get_aria_sort(column, order)
    )


def build_headings(request: HttpRequest, rows: RowList, columns: Sequence[Column], order: str) -> Iterator[Heading]:
    """Yield the heads of the columns that are shown; of several columns with one order only the first is marked."""
    marked = False
    for column in columns:
        column_heading = build_heading(request, rows, column, order)
        yield replace(column_heading, sorted="") if marked else column_heading
        marked = marked or bool(column_heading.sorted)


def _build_view_tabs(request: HttpRequest, rows: RowList, query: str) -> list[ViewTab]:
    page, current_parameters = reverse(PAGES[rows.name]), _parse_parameters(query)
    return [
        ViewTab(
            view,
            f"{page}?{view.query}",
            _parse_parameters(view.query) == current_parameters,
            view.owner_id == request.user.pk,
        )
        for view in _VIEWS.rows(owner=request.user.pk, name=rows.name)
    ]


_CHOSEN = KeptQuery[list[str]](
    lambda: ColumnChoice.objects.filter(owner=Given("owner"), list_name=Given("name")).values_list("shown", flat=True)
)
_VIEWS = KeptQuery[SavedView](
    lambda: SavedView.objects.filter(Q(owner=Given("owner")) | Q(shared=True), list_name=Given("name")).order_by("pk")
)


def _parse_parameters(query: str) -> dict[str, Any]:
    return dict(QueryDict(query).lists())
