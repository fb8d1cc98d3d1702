"""Changes of the tree over the API: looked at, carried out, undone, and what was done before."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import cursor_page
from webapp.common.rest.types import Id, PageOf
from webapp.taxonomy.changes import queries, services
from webapp.taxonomy.changes.preview import ChangePreview, preview_change
from webapp.taxonomy.changes.schemas import (
    PreviewIn,
    PreviewOut,
    TreeChangeIn,
    TreeChangeLine,
    TreeChangeOut,
    TreeChangeQuery,
    UndoIn,
)
from webapp.taxonomy.changes.undo import take_back_change
from webapp.taxonomy.models import TreeChange

router = Router(tags=["taxonomy"])


@router.post("/tree-changes/preview", auth=require_scope("read"), response=PreviewOut)
def preview_tree_change(request: HttpRequest, wish: PreviewIn) -> ChangePreview:
    """The effects of a change, and everything that it touches. Nothing is changed; 409 if the tree cannot be so."""
    return preview_change(wish.change.wish())


@router.get("/tree-changes", auth=require_scope("read"), response=PageOf[TreeChangeLine])
def list_tree_changes(request: HttpRequest, query: Query[TreeChangeQuery]) -> Any:
    """Changes of the tree, newest first. The newest one's id is the serial of the tree."""
    return cursor_page(queries.list_changes(query.node), query)


@router.post("/tree-changes", auth=require_scope("review"), response={201: TreeChangeOut})
@idempotent
def change_tree(request: HttpRequest, wish: TreeChangeIn) -> Any:
    """Carry out what a preview showed; 412 if the tree was changed since. Annotators may not."""
    made = services.change_tree(get_acting_user(request), wish.change.wish(), seen=wish.serial, why=wish.why)
    return Status(201, queries.list_changes().get(pk=made.pk))


@router.get("/tree-changes/{pk}", auth=require_scope("read"), response=TreeChangeOut)
def get_tree_change(request: HttpRequest, pk: Id) -> TreeChange:
    """One change of the tree."""
    return get_object_or_404(queries.list_changes(), pk=pk)


@router.post("/tree-changes/{pk}/undo", auth=require_scope("review"), response={201: TreeChangeOut})
@idempotent
def undo_tree_change(request: HttpRequest, pk: Id, wish: UndoIn) -> Any:
    """Take a change back, as a change of its own; 409 names the later ones in its way. Annotators may not."""
    made = take_back_change(get_acting_user(request), pk, wish.why)
    return Status(201, queries.list_changes().get(pk=made.pk))
