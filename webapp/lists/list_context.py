"""Context of a page with a list: headings, chips, saved views and columns, as `templates/lists/` draws them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, QueryDict
from django.urls import reverse

from webapp.database.kept_sql import Given, KeptQuery
from webapp.forms.filter_bar import Chip, FilterForm, without
from webapp.lists.columns import Column, Heading, RowList, next_order, sorted_as
from webapp.lists.list_filters import ListQuery
from webapp.lists.models import ColumnChoice, SavedView
from webapp.lists.registry import PAGES
from webapp.lists.services import kept_query
from webapp.paging import CURSORS, Page, link
from webapp.query_params import Params, find_unread_names

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
    """The parameters that say where the list stands on a page with several; they are no filter."""
    given: QueryDict | None = None
    """The parameters of the request."""

    @property
    def narrowed(self) -> int:
        """How many filters are set."""
        return sum(chip.set for chip in self.chips)

    @property
    def unknown(self) -> list[str]:
        """Parameters of the address that the page does not know. Read when the page is drawn, after its filters."""
        names = find_unread_names(self.given) if self.given is not None else []
        return [name for name in names if name not in CURSORS][:MOST_UNKNOWN]

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Name and value of each parameter that says what is shown, as the fields of a form."""
        return [(name, str(value)) for name, values in _parameters(self.query).items() for value in values]

    @property
    def has_further_pages(self) -> bool:
        return bool(self.page.before or self.page.after)

    @property
    def clear(self) -> str:
        """The address of the whole list, in the order that it has now."""
        order = self.rows.order_parameter
        asked = [f"{order}={value}" for value in _parameters(self.query).get(order, ())][:1]
        kept = "&".join(filter(None, [self.place, *asked]))
        return f"{self.url}?{kept}" if kept else self.url

    @property
    def saved(self) -> bool:
        """Whether what is shown is all, or a saved view as it was saved."""
        return not self.query or any(tab.current for tab in self.tabs)


def shown_list(
    request: HttpRequest, rows: RowList, page: Page, form: FilterForm, more: Sequence[Chip] = (), place: str = ""
) -> ShownList:
    """A list for the person who asks. `more` are filters that the address knows and the form does not."""
    order = Params(request.GET).text(rows.order_parameter, 40) or rows.default_order
    columns = rows.shown(_CHOSEN.first(owner=request.user.pk, name=rows.name))
    shows = frozenset(column.name for column in columns)
    query = kept_query(request.GET.urlencode())
    return ShownList(
        rows=rows,
        page=page,
        form=form,
        headings=tuple(headings(request, rows, columns, order)),
        shows=shows,
        choices=tuple((column, column.name in shows) for column in rows.columns),
        chips=(*more, *form.chips(request)),
        tabs=tuple(_tabs(request, rows, query)),
        url=request.path if request.method in ("GET", "HEAD") else reverse(PAGES[rows.name]),
        query=query,
        reordered=order != rows.default_order,
        place=place,
        given=request.GET,
    )


def asked_list(
    request: HttpRequest, asked: ListQuery, page: Page, words: Mapping[str, tuple[str, str]] | None = None
) -> ShownList:
    """A list whose filters are said by `ListFilter`s; `words` names what linked ones lead to."""
    return shown_list(request, asked.rows, page, asked.form(), asked.linked_chips(request, words or {}))


def heading(request: HttpRequest, rows: RowList, column: Column, order: str) -> Heading:
    """The head of a column, in a list that is in this order."""
    wanted = next_order(column, order)
    if not wanted:
        return Heading(column)
    url = without(request, rows.order_parameter) if wanted == rows.default_order else ""
    return Heading(column, url or link(request, **{rows.order_parameter: wanted}), sorted_as(column, order))


def headings(request: HttpRequest, rows: RowList, columns: Sequence[Column], order: str) -> Iterator[Heading]:
    """The heads of the columns that are shown; of those that stand for one order the first is marked."""
    marked = False
    for column in columns:
        found = heading(request, rows, column, order)
        yield replace(found, sorted="") if marked else found
        marked = marked or bool(found.sorted)


def _tabs(request: HttpRequest, rows: RowList, query: str) -> list[ViewTab]:
    page, asked = reverse(PAGES[rows.name]), _parameters(query)
    return [
        ViewTab(view, f"{page}?{view.query}", _parameters(view.query) == asked, view.owner_id == request.user.pk)
        for view in _VIEWS.rows(owner=request.user.pk, name=rows.name)
    ]


_CHOSEN = KeptQuery[list[str]](
    lambda: ColumnChoice.objects.filter(owner=Given("owner"), list_name=Given("name")).values_list("shown", flat=True)
)
_VIEWS = KeptQuery[SavedView](
    lambda: SavedView.objects.filter(Q(owner=Given("owner")) | Q(shared=True), list_name=Given("name")).order_by("pk")
)


def _parameters(query: str) -> dict[str, Any]:
    return dict(QueryDict(query).lists())
