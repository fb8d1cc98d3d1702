"""Writes of saved views and column choices."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.http import QueryDict

from synthesis.errors import InputError
from synthesis.formats.values import clean
from webapp.accounts.access import may
from webapp.accounts.services import audit
from webapp.errors import Conflict, NotFound
from webapp.lists.columns import RowList
from webapp.lists.models import ColumnChoice, SavedView
from webapp.lists.registry import LISTS
from webapp.paging import CURSORS

MOST_VIEWS = 50
"""So many saved views a person may have of one list."""
NAME_CHARS = 60
QUERY_CHARS = 2_000


def require_list(name: str) -> RowList:
    """The list of this name. Raises NotFound."""
    found = LISTS.get(name)
    if found is None:
        raise NotFound(f"There is no list {name[:40]!r}.")
    return found


def kept_query(text: str) -> str:
    """The query of an address without cursors and empty values; keys stand in their order."""
    given = QueryDict(text[: 4 * QUERY_CHARS].removeprefix("?").replace("\x00", ""), mutable=True)
    kept = QueryDict(mutable=True)
    for key, values in given.lists():
        if key not in CURSORS and (filled := [value for value in values if value]):
            kept.setlist(key, filled)
    return kept.urlencode()


def save_view(user: Any, list_name: str, name: str, query: str, *, shared: bool = False) -> SavedView:
    """Save a list's filters and order under a name; a name that is the person's own already is given the new ones.

    Raises InputError: no name, too long; Conflict: too many, or somebody shares one of this name.
    """
    rows, named, kept = require_list(list_name), clean(name).strip(), kept_query(query)
    if not named:
        raise InputError("Give the view a name.")
    if len(named) > NAME_CHARS:
        raise InputError(f"Give the view a name of at most {NAME_CHARS} characters.")
    if len(kept) > QUERY_CHARS:
        raise InputError("These filters are too long to be saved under a name; use fewer.")
    try:
        with transaction.atomic():
            mine = SavedView.objects.filter(owner=user, list_name=rows.name)
            if not mine.filter(name=named).exists() and mine.count() >= MOST_VIEWS:
                raise Conflict(f"You have {MOST_VIEWS} views of this list; delete one first.")
            values = {"query": kept, "shared": shared}
            view, _ = SavedView.objects.update_or_create(owner=user, list_name=rows.name, name=named, defaults=values)
            audit(user, "view.save", view, list=rows.name, name=named, shared=shared)
    except IntegrityError as error:
        raise Conflict(f"Somebody shares a view “{named}” of this list already; take another name.") from error
    return view


def delete_view(user: Any, pk: int) -> SavedView:
    """Delete a view: one's own, or as an administrator a shared one. Raises NotFound."""
    with transaction.atomic():
        view = SavedView.objects.select_for_update().filter(pk=pk).first()
        if view is None or not (view.owner_id == user.pk or (view.shared and may(user, "admin"))):
            raise NotFound("There is no such view of yours.")
        audit(user, "view.delete", view, list=view.list_name, name=view.name, shared=view.shared)
        view.delete()
    return view


def choose_columns(user: Any, list_name: str, names: list[str]) -> None:
    """Keep which columns a person sees of a list; none of them names those that it has at first."""
    rows = require_list(list_name)
    known = [column.name for column in rows.columns if column.name in names and not column.needed]
    ColumnChoice.objects.update_or_create(owner=user, list_name=rows.name, defaults={"shown": known})


def reset_columns(user: Any, list_name: str) -> None:
    """Give a person the columns that a list has at first."""
    ColumnChoice.objects.filter(owner=user, list_name=require_list(list_name).name).delete()
