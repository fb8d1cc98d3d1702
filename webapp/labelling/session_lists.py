"""The list of sessions: its columns and filters."""

from __future__ import annotations

from typing import Any

from webapp.common.lists import list_filters
from webapp.common.lists.columns import Column, RowList
from webapp.common.lists.list_filters import ListFilter
from webapp.labelling.models import SessionKind, SessionState

SESSIONS = RowList(
    "label_sessions",
    "Labelling sessions",
    (
        Column("name", "Session", ascending="name", descending="-name", needed=True),
        Column("kind", "People"),
        Column("state", "State"),
        Column("items", "Items", "item_count", "-item_count", numeric=True),
        Column("settled", "Settled", "settled_count", "-settled_count", numeric=True),
        Column("overlap", "Answers an item", numeric=True),
        Column("by", "By"),
        Column("created", "Opened", ascending="id", descending="-id"),
        Column("begin", "Begin", needed=True),
    ),
)


def session_filters(user: Any) -> tuple[ListFilter, ...]:
    """Return the filters of the list of sessions."""
    return (
        list_filters.make_contains_filter("q", "Name", "name"),
        list_filters.make_choice_filter("kind", "People", [(one.value, f"{one.label} things") for one in SessionKind]),
        list_filters.make_choice_filter("state", "State", SessionState.choices),
        list_filters.make_started_by_filter(user),
    )
