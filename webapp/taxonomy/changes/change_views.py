"""Pages on changes of the tree: the actions on a label, the form and preview of one, and the history."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.common.error_responses import to_http_terms
from webapp.common.paging import paginate_by_keyset
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call, build_list_call
from webapp.taxonomy import queries as tree
from webapp.taxonomy.changes import queries, services
from webapp.taxonomy.changes.change_form import KINDS_OF_CHANGE, ChangeForm
from webapp.taxonomy.changes.delta import Delta
from webapp.taxonomy.changes.preview import preview_change
from webapp.taxonomy.changes.rights import may_reshape
from webapp.taxonomy.changes.schemas import TreeChangeQuery
from webapp.taxonomy.changes.undo import list_later_changes, take_back_change
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.models import Node, TreeChange

SHOWN = 50
STEPS = 100


@require_scope("read")
@require_safe
@never_cache
def choose_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the actions on a label: the menu that works without a script."""
    row = get_object_or_404(tree.nodes_with_counts(), pk=pk)
    context = _build_node_context(request, row) | {"kinds": KINDS_OF_CHANGE}
    return render(request, "taxonomy/changes/choose.html", context)


def _build_node_context(request: HttpRequest, row: Node) -> dict[str, Any]:
    return {"node": row, "above": tree.list_ancestors(row), "may": may_reshape(request.user), "kinds": KINDS_OF_CHANGE}


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def change_label(request: HttpRequest, pk: int, kind: str) -> HttpResponse:
    """Show the form of one change, preview it once enough is filled in, or carry it out."""
    if kind not in {one.name for one in KINDS_OF_CHANGE}:
        raise Http404
    row = get_object_or_404(tree.nodes_with_counts(), pk=pk)
    form = ChangeForm(row, kind, request.POST if request.method == "POST" else request.GET)
    refused, status, preview = "", 200, None
    try:
        wish = form.wish()
        if request.method == "POST":
            if wish is None or form.seen is None:
                raise InputError("Say first what is to become of it.")
            tree_change = services.change_tree(request.user, wish, seen=form.seen, why=form.why)
            return redirect(f"{_find_page_after(tree_change, row)}?changed={tree_change.pk}")
    except InputError as error:
        refused, status = str(error), to_http_terms(error).status
    try:
        preview = preview_change(wish) if (wish := form.wish()) else None
    except InputError as error:
        refused = refused or str(error)
        status = status if status != 200 else to_http_terms(error).status
    context = _build_node_context(request, row) | {
        "kind": next(one for one in KINDS_OF_CHANGE if one.name == kind), "form": form, "preview": preview,
        "refused": refused, "tickables": form.tickables() if kind == "split" else [],
    }  # fmt: skip
    return render(request, "taxonomy/changes/change.html", context, status=status)


def _find_page_after(made: TreeChange, row: Node) -> str:
    """Return the URL of what the label is now."""
    now = find_present_node(row.pk)
    return reverse("taxonomy:node", args=[now.pk]) if now is not None else reverse("taxonomy:index")


@require_scope("read")
@require_safe
@never_cache
def list_changes(request: HttpRequest) -> HttpResponse:
    """List every change of the tree, newest first; `?node=` those that touched a label."""
    node_id = Params(request.GET).id("node")
    page = paginate_by_keyset(request, queries.list_changes(node_id), "-id", SHOWN)
    context = {
        "page": page, "may": may_reshape(request.user), "about": find_present_node(node_id), "wanted": node_id,
        "done": find_recent_change(request),
        "copy_as": build_list_call(request, "api:list_tree_changes", TreeChangeQuery),
    }  # fmt: skip
    return render(request, "taxonomy/changes/history.html", context)


@require_scope("read")
@require_safe
@never_cache
def show_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one change: every label and thing before and after, and what prevents its undo."""
    row = get_object_or_404(TreeChange.objects.select_related("by", "undone_by__by", "undoes"), pk=pk)
    delta = Delta.of_json(row.delta)
    names = dict(Node.objects.filter(pk__in=row.node_ids).values_list("pk", "name"))
    names = {step.pk: shape.name for step in delta.nodes if (shape := step.before or step.after)} | names
    moves_by_kind = {}
    for kind, moves in delta.hung.items():
        groups: dict[tuple[int, int], int] = {}
        for pair in moves.values():
            groups[pair] = groups.get(pair, 0) + 1
        moves_by_kind[kind] = [
            (names.get(source, source), names.get(to, to), number) for (source, to), number in groups.items()
        ]
    context = {
        "change": row, "steps": [_describe_step(step, names) for step in delta.nodes[:STEPS]],
        "more_steps": max(0, len(delta.nodes) - STEPS), "moved": moves_by_kind, "may": may_reshape(request.user),
        "later": list(list_later_changes(row)[:10]) if row.can_be_undone else [],
        "copy_as": build_api_call(request, "POST", "api:undo_tree_change", args=(row.pk,), body={"why": ""}),
    }  # fmt: skip
    return render(request, "taxonomy/changes/detail.html", context)


def _describe_step(step: Any, names: dict[int, str]) -> dict[str, Any]:
    def describe_place(shape: Any) -> str:
        if shape.parent is None:
            return "on the first level"
        return f"below {names.get(shape.parent, 'a label that is gone')}"

    return {
        "pk": step.pk, "before": step.before, "after": step.after,
        "stood": describe_place(step.before) if step.before else "",
        "stands": describe_place(step.after) if step.after else "",
        "into": names.get(step.into, "") if step.after is None else "",
    }  # fmt: skip


@require_scope("review")
@require_POST
def undo_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Undo a change, and go back to the page that the user came from."""
    params = Params(request.POST)
    why = params.whole_text("why", 2_000)
    try:
        made = take_back_change(request.user, pk, why)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{made.words}. Old addresses are theirs again.")
    back = params.text("back", 400)
    safe = url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure())
    return redirect(back if safe else reverse("taxonomy:history"))


def find_recent_change(request: HttpRequest) -> TreeChange | None:
    """Return the change that the user just made (`?changed=`), for the line that offers its undo."""
    pk = Params(request.GET).id("changed")
    row = queries.list_changes().filter(pk=pk, by=request.user).first() if pk else None  # type: ignore[misc]
    return row if row is not None and row.can_be_undone else None
