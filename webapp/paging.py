"""Keyset paging: a page is found from where the last one ended; rows are counted to ten thousand, then estimated."""

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

from webapp.query_params import Params

PAGE_SIZE = 50
CURSOR_CHARS = 8_000
COUNTED_TO = 10_000
"""More rows than this are not counted: the planner's estimate is shown, and said to be one."""
TO = "\u2013"
CURSORS = ("after", "before", "last", "at")


@dataclass(frozen=True)
class RowCount:
    """How many rows a list has. If it is not `exact`, the number is an estimate of the planner, or just the `least`."""

    number: int
    exact: bool = True
    least: bool = False

    @property
    def words(self) -> str:
        if self.exact:
            return f"{self.number:,}"
        return f"more than {self.number:,}" if self.least else f"about {_rounded(self.number):,}"


@dataclass(frozen=True)
class Page:
    """`first`, `before`, `after` and `last` are URLs of other pages, empty where there is none.

    `start` is the place of the first row in the list (from 1), None where it is not known.
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
        """Such as "51-100 of 2,120", with a dash between the numbers."""
        total = f" of {self.count.words}" if self.count else ""
        if self.start is None:
            return f"{len(self.rows)} rows{total}"
        return f"{self.start:,}{TO}{self.start + len(self.rows) - 1:,}{total}"


def encode(value: Any, pk: int) -> str:
    text = value.isoformat() if isinstance(value, datetime) else value
    return base64.urlsafe_b64encode(json.dumps([text, pk]).encode()).decode().rstrip("=")


def cursor_of(row: Any, order: str) -> str:
    """The cursor that stands at this row of a list in this order."""
    field = order.lstrip("-")
    return encode(None if field in ("id", "pk") else getattr(row, field), row.pk)


def decode(cursor: str) -> tuple[Any, int] | None:
    """The (value, id) of a cursor; None for anything that is not one."""
    try:
        value, pk = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        return None
    sound = type(pk) is int and 0 < pk < 2**63 and isinstance(value, str | int | float | None)
    return (value, pk) if sound and not (isinstance(value, str) and "\x00" in value) else None


def beyond(field: str, descending: bool, value: Any, pk: int) -> Q:
    """Rows after (value, pk). Nulls stand at the end of both directions."""
    step = "lt" if descending else "gt"
    if field in ("id", "pk"):
        return Q(**{f"id__{step}": pk})
    tie = Q(**{f"id__{step}": pk})
    if value is None:
        return Q(**{f"{field}__isnull": True}) & tie
    later = Q(**{f"{field}__{step}e": value}) & (Q(**{f"{field}__{step}": value}) | tie)
    return later


def ordering(field: str, descending: bool, nullable: bool) -> list[Any]:
    tie = F("id").desc() if descending else F("id").asc()
    if field in ("id", "pk"):
        return [tie]
    main = F(field)
    last = True if nullable else None
    return [main.desc(nulls_last=last) if descending else main.asc(nulls_last=last), tie]


def window(rows: QuerySet[Any], order: str, cursor: tuple[Any, int] | None, backward: bool) -> QuerySet[Any]:
    """`rows` in `order` ("-id", "name", ...) from the cursor on; backward gives them in reverse order.

    For a nullable field the last page cannot be walked backward into; lists exclude nulls when sorting by one,
    or accept that "before" starts at the last value.
    """
    field = order.lstrip("-")
    nullable = field not in ("id", "pk") and bool(getattr(rows.model._meta.get_field(field), "null", False))
    descending = order.startswith("-") != backward
    if cursor:
        where = beyond(field, descending, *cursor)
        if nullable and cursor[0] is not None and not backward:
            where |= Q(**{f"{field}__isnull": True})
        if nullable and cursor[0] is None and backward:
            where |= Q(**{f"{field}__isnull": False})
        rows = rows.filter(where)
    order_by = ordering(field, descending, nullable)
    if nullable and backward:
        main = F(field)
        order_by[0] = main.desc(nulls_first=True) if descending else main.asc(nulls_first=True)
    return rows.order_by(*order_by)


def link(request: HttpRequest, **changes: str) -> str:
    parameters = request.GET.copy()
    for key in CURSORS:
        parameters.pop(key, None)
    for key, value in changes.items():
        parameters[key] = value  # `update` would add to those that are there
    return f"{request.path}?{parameters.urlencode()}" if parameters else request.path


def count_rows(rows: QuerySet[Any], *, estimates: bool = True) -> RowCount:
    """How many rows there are: counted to `COUNTED_TO`, else as PostgreSQL's planner estimates.

    Without `estimates`, for rows of which the planner knows nothing, it is only said that there are more.
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
        told = cursor.fetchone()[0]
    estimate = int((json.loads(told) if isinstance(told, str) else told)[0]["Plan"]["Plan Rows"])
    return RowCount(max(number, estimate), exact=False)


def keyset(
    request: HttpRequest,
    rows: QuerySet[Any],
    order: str = "-id",
    size: int = PAGE_SIZE,
    *,
    known: RowCount | None = None,
    estimates: bool = True,
) -> Page:
    """The page that `?after=`, `?before=` or `?last=1` names. A cursor that cannot be read gives the first page.

    `known` is how many rows there are, if that need not be counted; `estimates` is whether the planner's estimate of
    the number of rows is worth showing.
    """
    params = Params(request.GET)
    last = params.flag("last")
    backward = last or ("before" in request.GET and "after" not in request.GET)
    cursor = None if last else decode(params.text("before" if backward else "after", CURSOR_CHARS))
    backward = last or (backward and cursor is not None)
    count = known or (count_rows(rows, estimates=estimates) if last else None)
    # The last page holds what is left after full ones, so that its rows are those that "next" leads to.
    taken = (count.number % size or size) if last and count and count.exact else size
    try:
        fetched = list(window(rows, order, cursor, backward)[: taken + 1])
    except (ValueError, OverflowError, ValidationError):  # a cursor of another sort order
        cursor, backward = None, False
        fetched = list(window(rows, order, None, False)[: size + 1])
    more = len(fetched) > taken
    fetched = fetched[:taken]
    if backward:
        fetched.reverse()
    has_after = bool(fetched) and (more or backward) and not last
    has_before = bool(fetched) and (more if backward else cursor is not None)
    if count is None:
        more_pages = has_after or has_before
        count = count_rows(rows, estimates=estimates) if more_pages else RowCount(len(fetched))
    start = _start(params, count, len(fetched), cursor is None, last)
    before, after = (start - size if start else None), (start + len(fetched) if start else None)
    return Page(
        rows=fetched,
        before=_linked(request, before, before=cursor_of(fetched[0], order)) if has_before else "",
        after=_linked(request, after, after=cursor_of(fetched[-1], order)) if has_after else "",
        first=link(request) if has_before else "",
        last=link(request, last="1") if has_after else "",
        start=start,
        count=count,
    )


def _start(params: Params, count: RowCount, rows: int, whole: bool, last: bool) -> int | None:
    """The place of a page's first row; an address may claim one only within the list."""
    if last:
        return count.number - rows + 1 if count.exact and rows else None
    if whole:
        return 1 if rows else None
    at = params.number("at", 1)
    inside = at is not None and (not count.exact or at + rows - 1 <= count.number)
    return at if inside else None


def _linked(request: HttpRequest, start: int | None, **cursor: str) -> str:
    return link(request, **cursor, **({"at": str(start)} if start and start > 0 else {}))


def _rounded(number: int) -> int:
    """Two digits of a number, which is what an estimate is worth."""
    unit = 10 ** max(0, len(str(number)) - 2)
    return round(number / unit) * unit
