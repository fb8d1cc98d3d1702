"""Writes of saved views and column choices."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.http import QueryDict

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from webapp.accounts.access import has_scope
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import Conflict, NotFound
from webapp.common.lists.columns import RowList
from webapp.common.lists.models import ColumnChoice, SavedView
from webapp.common.lists.registry import LISTS
from webapp.common.paging import CURSORS

MOST_VIEWS = 50
"""Number of saved views of one list that a person may have."""
NAME_CHARS = 60
QUERY_CHARS = 2_000


def require_list(name: str) -> RowList:
    """Return the list of this name. Raises NotFound."""
    row_list = LISTS.get(name)
    if row_list is None:
        raise NotFound(f"There is no list {name[:40]!r}.")
    return row_list


def normalize_query(text: str) -> str:
    """Return the query of an address without cursors and empty values; the order of its keys stays."""
    sent = QueryDict(text[: 4 * QUERY_CHARS].removeprefix("?").replace("\x00", ""), mutable=True)
    normalized = QueryDict(mutable=True)
    for key, values in sent.lists():
        if key not in CURSORS and (filled := [value for value in values if value]):
            normalized.setlist(key, filled)
    return normalized.urlencode()


def save_view(user: Any, list_name: str, name: str, query: str, *, shared: bool = False) -> SavedView:
    """Save a list's filters and order under a name; an existing view of the person with this name is replaced.

    Raises InputError: no name, or too long; Conflict: too many views, or another user shares a view of this name.
    """
    rows, named, view_query = require_list(list_name), clean_text(name).strip(), normalize_query(query)
    if not named:
        raise InputError("Give the view a name.")
    if len(named) > NAME_CHARS:
        raise InputError(f"Give the view a name of at most {NAME_CHARS} characters.")
    if len(view_query) > QUERY_CHARS:
        raise InputError("These filters are too long to be saved under a name; use fewer.")
    try:
        with transaction.atomic():
            mine = SavedView.objects.filter(owner=user, list_name=rows.name)
            if not mine.filter(name=named).exists() and mine.count() >= MOST_VIEWS:
                raise Conflict(f"You have {MOST_VIEWS} views of this list; delete one first.")
            values = {"query": view_query, "shared": shared}
            view, _ = SavedView.objects.update_or_create(owner=user, list_name=rows.name, name=named, defaults=values)
            write_audit_entry(user, "view.save", view, list=rows.name, name=named, shared=shared)
    except IntegrityError as error:
        raise Conflict(f"A view “{named}” of this list is already shared; choose another name.") from error
    return view


def delete_view(user: Any, pk: int) -> SavedView:
    """Delete one's own view, or as an administrator a shared view. Raises NotFound."""
    with transaction.atomic():
        view = SavedView.objects.select_for_update().filter(pk=pk).first()
        if view is None or not (view.owner_id == user.pk or (view.shared and has_scope(user, "admin"))):
            raise NotFound("There is no such view of yours.")
        write_audit_entry(user, "view.delete", view, list=view.list_name, name=view.name, shared=view.shared)
        view.delete()
    return view


def choose_columns(user: Any, list_name: str, names: list[str]) -> None:
    """Store the columns of a list that a person sees; `needed` columns are always shown and are not stored."""
    rows = require_list(list_name)
    chosen_names = [column.name for column in rows.columns if column.name in names and not column.needed]
    ColumnChoice.objects.update_or_create(owner=user, list_name=rows.name, defaults={"shown": chosen_names})


def reset_columns(user: Any, list_name: str) -> None:
    """Restore a list's default columns for a person."""
    ColumnChoice.objects.filter(owner=user, list_name=require_list(list_name).name).delete()
