"""Lists and times in OpenAI's format: a page begins after the public id `after`, times are whole Unix seconds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Model, QuerySet
from pydantic import Field

from webapp.common.rest.problems import FieldError, Problem
from webapp.common.rest.types import ShortText

PublicId = Annotated[ShortText, Field(max_length=60)]
A_PAGE = "Rows of a page at most."
After = Annotated[PublicId, Field(description="The id of the last row of the page before.")]
Row = TypeVar("Row", bound=Model)


def fetch_page(rows: QuerySet[Row], after: str, limit: int, *, newest: bool = True) -> tuple[list[Row], bool]:
    """Return (rows, whether there are more) after the row with the public id `after`, newest first by default.

    Raises the table's DoesNotExist: there is no such row.
    """
    if after:
        at = rows.model._default_manager.only("pk").get(public_id=after).pk
        rows = rows.filter(pk__lt=at) if newest else rows.filter(pk__gt=at)
    fetched = list(rows.order_by("-pk" if newest else "pk")[: limit + 1])
    return fetched[:limit], len(fetched) > limit


def fetch_page_or_problem(
    rows: QuerySet[Any], after: str, limit: int, *, newest: bool = True
) -> tuple[list[Any], bool]:
    """Return a page after the row `after`, as `fetch_page`. Raises Problem (400): there is no such row."""
    try:
        return fetch_page(rows, after, limit, newest=newest)
    except ObjectDoesNotExist as error:
        raise build_unknown_row_problem(after) from error


def build_unknown_row_problem(after: object) -> Problem:
    fault = FieldError(
        loc=["query", "after"], message=f"No row of this list has the id {str(after)[:60]}", code="unknown"
    )
    return Problem(
        400, f"after: {fault.message}. Take the id of the last row you have.", code="bad_cursor", errors=[fault]
    )


def to_unix_seconds(at: datetime | None) -> int | None:
    return int(at.timestamp()) if at is not None else None
