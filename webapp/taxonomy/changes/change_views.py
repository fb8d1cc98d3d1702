"""Pages on changes of the tree: what can be done with a label, the form and preview of one, and the history."""

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
from webapp.accounts.access import access
from webapp.error_responses import http_terms
from webapp.paging import keyset
from webapp.query_params import Params
from webapp.rest.api_examples import api_call, list_call
from webapp.taxonomy import queries as tree
from webapp.taxonomy.changes import queries, services
from webapp.taxonomy.changes.change_form import KINDS_OF_CHANGE, ChangeForm
from webapp.taxonomy.changes.delta import Delta
from webapp.taxonomy.changes.preview import previewed
from webapp.taxonomy.changes.rights import may_reshape
from webapp.taxonomy.changes.schemas import TreeChangeQuery
from webapp.taxonomy.changes.undo import in_the_way, undo
from webapp.taxonomy.former import present_node
from webapp.taxonomy.models import Node, TreeChange

SHOWN = 50
STEPS = 100


@access("read")
@require_safe
@never_cache
def choose(request: HttpRequest, pk: int) -> HttpResponse:
    """What can be done with a label: the menu that works without a script."""
    row = get_object_or_404(tree.with_counts(), pk=pk)
    context = _about(request, row) | {"kinds": KINDS_OF_CHANGE}
    return render(request, "taxonomy/changes/choose.html", context)


def _about(request: HttpRequest, row: Node) -> dict[str, Any]:
    return {"node": row, "above": tree.ancestors(row), "may": may_reshape(request.user), "kinds": KINDS_OF_CHANGE}


@access("review")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def change(request: HttpRequest, pk: int, kind: str) -> HttpResponse:
    """The form of one change, what it would do once enough is said, and its carrying out."""
    if kind not in {one.name for one in KINDS_OF_CHANGE}:
        raise Http404
    row = get_object_or_404(tree.with_counts(), pk=pk)
    form = ChangeForm(row, kind, request.POST if request.method == "POST" else request.GET)
    refused, status, preview = "", 200, None
    try:
        wish = form.wish()
        if request.method == "POST":
            if wish is None or form.seen is None:
                raise InputError("Say first what is to become of it.")
            made = services.change(request.user, wish, seen=form.seen, why=form.why)
            return redirect(f"{_after(made, row)}?changed={made.pk}")
    except InputError as error:
        refused, status = str(error), http_terms(error).status
    try:
        preview = previewed(wish) if (wish := form.wish()) else None
    except InputError as error:
        refused = refused or str(error)
        status = status if status != 200 else http_terms(error).status
    context = _about(request, row) | {
        "kind": next(one for one in KINDS_OF_CHANGE if one.name == kind), "form": form, "preview": preview,
        "refused": refused, "tickables": form.tickables() if kind == "split" else [],
    }  # fmt: skip
    return render(request, "taxonomy/changes/change.html", context, status=status)


def _after(made: TreeChange, row: Node) -> str:
    """The page of what the label is now."""
    now = present_node(row.pk)
    return reverse("taxonomy:node", args=[now.pk]) if now is not None else reverse("taxonomy:index")


@access("read")
@require_safe
@never_cache
def history(request: HttpRequest) -> HttpResponse:
    """Every change of the tree, newest first; `?node=` those that touched a label."""
    wanted = Params(request.GET).id("node")
    page = keyset(request, queries.history(wanted), "-id", SHOWN)
    context = {
        "page": page, "may": may_reshape(request.user), "about": present_node(wanted), "wanted": wanted,
        "done": done(request), "copy_as": list_call(request, "api:list_tree_changes", TreeChangeQuery),
    }  # fmt: skip
    return render(request, "taxonomy/changes/history.html", context)


@access("read")
@require_safe
@never_cache
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One change: what every label and every thing was before and after, and what stands in the way of its undo."""
    row = get_object_or_404(TreeChange.objects.select_related("by", "undone_by__by", "undoes"), pk=pk)
    delta = Delta.of_json(row.delta)
    names = dict(Node.objects.filter(pk__in=row.node_ids).values_list("pk", "name"))
    names = {step.pk: shape.name for step in delta.nodes if (shape := step.before or step.after)} | names
    moved = {}
    for kind, moves in delta.hung.items():
        groups: dict[tuple[int, int], int] = {}
        for pair in moves.values():
            groups[pair] = groups.get(pair, 0) + 1
        moved[kind] = [
            (names.get(source, source), names.get(to, to), number) for (source, to), number in groups.items()
        ]
    context = {
        "change": row, "steps": [_step(step, names) for step in delta.nodes[:STEPS]],
        "more_steps": max(0, len(delta.nodes) - STEPS), "moved": moved, "may": may_reshape(request.user),
        "later": list(in_the_way(row)[:10]) if row.can_be_undone else [],
        "copy_as": api_call(request, "POST", "api:undo_tree_change", args=(row.pk,), body={"why": ""}),
    }  # fmt: skip
    return render(request, "taxonomy/changes/detail.html", context)


def _step(step: Any, names: dict[int, str]) -> dict[str, Any]:
    def place(shape: Any) -> str:
        if shape.parent is None:
            return "on the first level"
        return f"below {names.get(shape.parent, 'a label that is gone')}"

    return {
        "pk": step.pk, "before": step.before, "after": step.after,
        "stood": place(step.before) if step.before else "", "stands": place(step.after) if step.after else "",
        "into": names.get(step.into, "") if step.after is None else "",
    }  # fmt: skip


@access("review")
@require_POST
def undo_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Take a change back, and go back to where the person was."""
    params = Params(request.POST)
    why = params.whole_text("why", 2_000)
    try:
        made = undo(request.user, pk, why)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{made.words}. Old addresses are theirs again.")
    back = params.text("back", 400)
    safe = url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure())
    return redirect(back if safe else reverse("taxonomy:history"))


def done(request: HttpRequest) -> TreeChange | None:
    """The change that the person made a moment ago (`?changed=`), for the line that lets them undo it."""
    pk = Params(request.GET).id("changed")
    row = queries.history().filter(pk=pk, by=request.user).first() if pk else None  # type: ignore[misc]
    return row if row is not None and row.can_be_undone else None
