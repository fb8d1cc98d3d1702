"""Registry of lists: apps add theirs at `AppConfig.ready`, and saved views name them."""

from __future__ import annotations

from webapp.common.lists.columns import RowList

LISTS: dict[str, RowList] = {}
PAGES: dict[str, str] = {}
"""URL name of each list's page."""


def register_list(rows: RowList, page: str) -> None:
    """Register a list under its name. `page` is the URL name of its page."""
    LISTS[rows.name] = rows
    PAGES[rows.name] = page
