"""Keyset paging: a page is found from where the last one ended, never by counting."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Q, QuerySet
from django.http import HttpRequest

from webapp.query_params import Params

PAGE_SIZE = 50
CURSOR_CHARS = 8_000


@dataclass(frozen=True)
class Page:
    """`before` and `after` are URLs of the neighbouring pages, empty where there is none."""

    rows: list[Any]
    before: str = ""
    after: str = ""
    first: str = ""


def encode(value: Any, pk: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([value, pk]).encode()).decode().rstrip("=")


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
    for key in ("after", "before"):
        parameters.pop(key, None)
    parameters.update(changes)
    return f"{request.path}?{parameters.urlencode()}" if parameters else request.path


def keyset(request: HttpRequest, rows: QuerySet[Any], order: str = "-id", size: int = PAGE_SIZE) -> Page:
    """The page that `?after=` or `?before=` names. A cursor that cannot be read gives the first page."""
    backward = "before" in request.GET and "after" not in request.GET
    cursor = decode(Params(request.GET).text("before" if backward else "after", CURSOR_CHARS))
    backward = backward and cursor is not None
    try:
        fetched = list(window(rows, order, cursor, backward)[: size + 1])
    except (ValueError, OverflowError):  # a cursor of another sort order
        cursor, backward = None, False
        fetched = list(window(rows, order, None, False)[: size + 1])
    more = len(fetched) > size
    fetched = fetched[:size]
    if backward:
        fetched.reverse()
    has_after = bool(fetched) and (more or backward)
    has_before = bool(fetched) and (more if backward else cursor is not None)
    return Page(
        rows=fetched,
        before=link(request, before=cursor_of(fetched[0], order)) if has_before else "",
        after=link(request, after=cursor_of(fetched[-1], order)) if has_after else "",
        first=link(request),
    )
