"""Pages on one theme beside others: the themes most like it, the one it belongs with, and the label it hangs on."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.common.htmx import wants_fragment
from webapp.common.query_params import Params
from webapp.taxonomy.changes import services as tree_services
from webapp.taxonomy.changes.rights import may_reshape
from webapp.taxonomy.changes.wishes import build_placement
from webapp.taxonomy.models import Node, Theme
from webapp.taxonomy.near_duplicates import services
from webapp.taxonomy.near_duplicates.neighbours import find_nearest_themes, find_themes_by_name, is_compared
from webapp.taxonomy.queries import list_ancestors

LABELS = 40


@require_scope("read")
@require_safe
def list_neighbours(request: HttpRequest, pk: int) -> HttpResponse:
    """List the themes most like one, or those that `?q=` finds; the user can fold this theme into each."""
    row = get_theme_or_404(pk)
    text = Params(request.GET).search_text("q")
    context: dict[str, Any] = {
        "subject": row,
        "above": [*list_ancestors(row.node), row.node],
        "text": text,
        "found": find_themes_by_name(row, text) if text else find_nearest_themes(row),
        "is_compared": is_compared(row),
    }
    part_only = wants_fragment(request, "neighbours")
    return render(request, "taxonomy/theme/nearest.html" if part_only else "taxonomy/neighbours.html", context)


@require_scope("review")
@require_POST
def fold_theme(request: HttpRequest, pk: int) -> HttpResponse:
    """Fold a theme into the one that `into` names."""
    row = get_theme_or_404(pk)
    target = get_object_or_404(Theme, pk=Params(request.POST).id("into") or 0)
    try:
        decision = services.fold_theme(row.pk, target.pk, request.user)
    except InputError as error:
        messages.error(request, str(error))
        return redirect("taxonomy:neighbours", pk)
    messages.success(request, f"{decision.words}. It can be undone under Near-duplicates, Decisions.")
    return redirect("taxonomy:theme", pk)


@require_scope("review")
@require_http_methods(["GET", "HEAD", "POST"])
def place_theme(request: HttpRequest, pk: int) -> HttpResponse:
    """Choose the label that a theme hangs on, among those of the themes most like it or those that `?q=` finds."""
    row = get_theme_or_404(pk)
    refused = ""
    if request.method == "POST":
        params = Params(request.POST)
        try:
            tree_change = tree_services.change_tree(
                request.user, build_placement(row.pk, params.id("node") or 0), seen=params.number("serial") or 0
            )
        except InputError as error:
            refused = str(error)
        else:
            messages.success(request, f"{tree_change.words}. It can be undone under Changes.")
            return redirect("taxonomy:theme", pk)
    text = Params(request.GET).search_text("q")
    context: dict[str, Any] = {
        "subject": row,
        "above": [*list_ancestors(row.node), row.node],
        "text": text,
        "labels": find_labels_by_name(text) if text else suggest_labels(row),
        "most": LABELS,
        "may_reshape": may_reshape(request.user),
        "serial": tree_services.get_serial(),
        "refused": refused,
    }
    return render(request, "taxonomy/place_theme.html", context, status=409 if refused else 200)


def get_theme_or_404(pk: int) -> Theme:
    return get_object_or_404(Theme.objects.select_related("node__parent__parent", "folded_into"), pk=pk)


def find_labels_by_name(text: str) -> list[Node]:
    """Return labels whose name holds a text: those of exactly that name first, then shallow ones."""
    rows = list(
        Node.objects.select_related("parent__parent", "counts")
        .filter(name__icontains=text)
        .order_by("level", "position", "path")[: LABELS * 5]
    )
    return sorted(rows, key=lambda node: node.name.casefold() != text.casefold())[:LABELS]


def suggest_labels(theme: Theme) -> list[Node]:
    """Return the labels of the themes most like it, each once, then those of the first level."""
    near = [one.theme.node for one in find_nearest_themes(theme)]
    first = list(Node.objects.select_related("parent__parent", "counts").filter(level=1).order_by("position", "path"))
    return [node for node in {node.pk: node for node in [*near, *first]}.values() if node.pk != theme.node_id][:LABELS]
