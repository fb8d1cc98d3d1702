"""Keyset paging: a page is found from the end of the last one; rows are counted to ten thousand, then estimated."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest

from webapp.common.query_params import Params

PAGE_SIZE = 50
CURSOR_CHARS = 8_000
COUNTED_TO = 10_000
"""More rows than this are not counted: the planner's estimate is shown, and said to be one."""
TO = "\u2013"
CURSORS = ("after", "before", "last", "at")


@dataclass(frozen=True)
class RowCount:
    """The number of rows of a list. If it is not `exact`, the number is an estimate of the planner, or just the
    `least`."""

    number: int
    exact: bool = True
    least: bool = False

    @property
    def words(self) -> str:
        if self.exact:
            return f"{self.number:,}"
        return f"more than {self.number:,}" if self.least else f"about {_round_estimate(self.number):,}"


@dataclass(frozen=True)
class Page:
    """A page of rows. `first`, `before`, `after` and `last` are URLs of other pages, empty if there are none.

    `start` is the place of the first row in the list (from 1), None if it is not known.
    """

    rows: list[Any]
    before: str = ""
    after: str = ""
    first: str = ""
    last: str = ""
    start: int | None = None
    count: RowCount | None = None

    @property
    def words(self) -> str:
        """The range of rows, such as "51-100 of 2,120", with a dash between the numbers."""
        total = f" of {self.count.words}" if self.count else ""
        if self.start is None:
            return f"{len(self.rows)} rows{total}"
        return f"{self.start:,}{TO}{self.start + len(self.rows) - 1:,}{total}"


def encode_cursor(value: Any, pk: int) -> str:
    text = value.isoformat() if isinstance(value, datetime) else value
    return base64.urlsafe_b64encode(json.dumps([text, pk]).encode()).decode().rstrip("=")


def build_cursor(row: Any, order: str) -> str:
    """Return the cursor of this row in a list in this order."""
    field = order.lstrip("-")
    return encode_cursor(None if field in ("id", "pk") else getattr(row, field), row.pk)


def decode_cursor(cursor: str) -> tuple[Any, int] | None:
    """Return the (value, id) of a cursor; None for anything that is not one."""
    try:
        value, pk = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        return None
    sound = type(pk) is int and 0 < pk < 2**63 and isinstance(value, str | int | float | None)
    return (value, pk) if sound and not (isinstance(value, str) and "\x00" in value) else None


def filter_beyond(field: str, descending: bool, value: Any, pk: int) -> Q:
    """Return the filter for rows after (value, pk). Nulls come at the end of both directions."""
    step = "lt" if descending else "gt"
    if field in ("id", "pk"):
        return Q(**{f"id__{step}": pk})
    tie = Q(**{f"id__{step}": pk})
    if value is None:
        return Q(**{f"{field}__isnull": True}) & tie
    later = Q(**{f"{field}__{step}e": value}) & (Q(**{f"{field}__{step}": value}) | tie)
    return later


def build_ordering(field: str, descending: bool, nullable: bool) -> list[Any]:
    tie = F("id").desc() if descending else F("id").asc()
    if field in ("id", "pk"):
        return [tie]
    main = F(field)
    last = True if nullable else None
    return [main.desc(nulls_last=last) if descending else main.asc(nulls_last=last), tie]


def select_window(rows: QuerySet[Any], order: str, cursor: tuple[Any, int] | None, backward: bool) -> QuerySet[Any]:
    """Return `rows` in `order` ("-id", "name", ...) from the cursor on; backward gives them in reverse order.

    For a nullable field the last page cannot be walked backward into; lists exclude nulls when sorting by one, or
    accept that "before" starts at the last value.
    """
    field = order.lstrip("-")
    nullable = field not in ("id", "pk") and bool(getattr(rows.model._meta.get_field(field), "null", False))
    descending = order.startswith("-") != backward
    if cursor:
        where = filter_beyond(field, descending, *cursor)
        if nullable and cursor[0] is not None and not backward:
            where |= Q(**{f"{field}__isnull": True})
        if nullable and cursor[0] is None and backward:
            where |= Q(**{f"{field}__isnull": False})
        rows = rows.filter(where)
    order_by = build_ordering(field, descending, nullable)
    if nullable and backward:
        main = F(field)
        order_by[0] = main.desc(nulls_first=True) if descending else main.asc(nulls_first=True)
    return rows.order_by(*order_by)


def build_page_link(request: HttpRequest, **changes: str) -> str:
    parameters = request.GET.copy()
    for key in CURSORS:
        parameters.pop(key, None)
    for key, value in changes.items():
        parameters[key] = value  # `update` would add to those that are there
    return f"{request.path}?{parameters.urlencode()}" if parameters else request.path


def count_rows(rows: QuerySet[Any], *, estimates: bool = True) -> RowCount:
    """Count rows to `COUNTED_TO`; beyond that, return the estimate of PostgreSQL's planner.

    Without `estimates`, for rows of which the planner knows nothing, the result only means that there are more.
    """
    bare = rows.order_by().values("pk")
    number = bare[: COUNTED_TO + 1].count()
    if number <= COUNTED_TO:
        return RowCount(number)
    if not estimates:
        return RowCount(COUNTED_TO, exact=False, least=True)
    sql, parameters = bare.query.sql_with_params()
    with connections[rows.db].cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", parameters)
        plan = cursor.fetchone()[0]
    estimate = int((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]["Plan Rows"])
    return RowCount(max(number, estimate), exact=False)


def paginate_by_keyset(
    request: HttpRequest,
    rows: QuerySet[Any],
    order: str = "-id",
    size: int = PAGE_SIZE,
    *,
    known: RowCount | None = None,
    estimates: bool = True,
) -> Page:
    """Return the page that `?after=`, `?before=` or `?last=1` names. An invalid cursor gives the first page.

    `known` is the number of rows, if they need not be counted; `estimates` is whether the planner's estimate of the
    number of rows is worth showing.
    """
    params = Params(request.GET)
    last = params.flag("last")
    backward = last or ("before" in request.GET and "after" not in request.GET)
    cursor = None if last else decode_cursor(params.text("before" if backward else "after", CURSOR_CHARS))
    backward = last or (backward and cursor is not None)
    count = known or (count_rows(rows, estimates=estimates) if last else None)
    # The last page holds what is left after full ones, so that its rows are those that "next" leads to.
    page_size = (count.number % size or size) if last and count and count.exact else size
    try:
        fetched = list(select_window(rows, order, cursor, backward)[: page_size + 1])
    except (ValueError, OverflowError, ValidationError):  # a cursor of another sort order
        cursor, backward = None, False
        fetched = list(select_window(rows, order, None, False)[: size + 1])
    more = len(fetched) > page_size
    fetched = fetched[:page_size]
    if backward:
        fetched.reverse()
    has_after = bool(fetched) and (more or backward) and not last
    has_before = bool(fetched) and (more if backward else cursor is not None)
    if count is None:
        more_pages = has_after or has_before
        count = count_rows(rows, estimates=estimates) if more_pages else RowCount(len(fetched))
    start = _compute_start(params, count, len(fetched), cursor is None, last)
    before, after = (start - size if start else None), (start + len(fetched) if start else None)
    return Page(
        rows=fetched,
        before=_build_cursor_link(request, before, before=build_cursor(fetched[0], order)) if has_before else "",
        after=_build_cursor_link(request, after, after=build_cursor(fetched[-1], order)) if has_after else "",
        first=build_page_link(request) if has_before else "",
        last=build_page_link(request, last="1") if has_after else "",
        start=start,
        count=count,
    )


def _compute_start(params: Params, count: RowCount, rows: int, whole: bool, last: bool) -> int | None:
    """Return the place of a page's first row; an address may claim one only within the list."""
    if last:
        return count.number - rows + 1 if count.exact and rows else None
    if whole:
        return 1 if rows else None
    at = params.number("at", 1)
    inside = at is not None and (not count.exact or at + rows - 1 <= count.number)
    return at if inside else None


def _build_cursor_link(request: HttpRequest, start: int | None, **cursor: str) -> str:
    return build_page_link(request, **cursor, **({"at": str(start)} if start and start > 0 else {}))


def _round_estimate(number: int) -> int:
    """Return a number rounded to two digits, the precision of an estimate."""
    unit = 10 ** max(0, len(str(number)) - 2)
    return round(number / unit) * unit
