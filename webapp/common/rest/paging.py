"""Cursor paging of the API: the keyset paging of the pages, as `?limit=` and `?cursor=`."""

from __future__ import annotations

from typing import Annotated, Any

from django.db.models import CharField, QuerySet, TextField
from ninja import Schema
from pydantic import Field

from webapp.common import paging
from webapp.common.rest.problems import Problem

BAD = "This cursor is not one of this list. Start without one, and keep the filters and the order while you page."


class PageQuery(Schema):
    """Base of the parameters of a list with filters."""

    limit: Annotated[int, Field(ge=1, le=200, description="Rows a page.")] = 50
    cursor: Annotated[str, Field(max_length=2_000, description="next_cursor of the page before.")] = ""


def is_valid_cursor(rows: QuerySet[Any], order: str, value: Any) -> bool:
    """Return whether a cursor with this value is valid in this order: none by id, one by a column without nulls."""
    name = order.lstrip("-")
    if name in ("id", "pk"):
        return value is None
    column = rows.model._meta.get_field(name)
    if value is None:
        return bool(getattr(column, "null", False))
    return isinstance(value, str) == isinstance(column, CharField | TextField) and not isinstance(value, bool)


def cursor_page(rows: QuerySet[Any], query: PageQuery, order: str = "-id") -> dict[str, Any]:
    """Return one page of `rows` for a `PageOf` response. Raises `Problem` (400) for a cursor of another list."""
    at = paging.decode_cursor(query.cursor) if query.cursor else None
    if query.cursor and (at is None or not is_valid_cursor(rows, order, at[0])):
        raise Problem(400, BAD, code="bad_cursor")
    try:
        fetched = list(paging.select_window(rows, order, at, False)[: query.limit + 1])
    except (ValueError, TypeError, OverflowError) as error:
        raise Problem(400, BAD, code="bad_cursor") from error
    page = fetched[: query.limit]
    more = len(fetched) > query.limit
    return {"data": page, "next_cursor": paging.build_cursor(page[-1], order) if more else None}
